"""Tells what the script's signal handlers raise from errors of the agent.

A handler runs wherever the main thread happens to be: an alarm that raises ``TimeoutError``, or
torch's own handler for a worker that died, may do so in the middle of a hook.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import CodeType
from typing import Any


def raised_by_handler(error: BaseException) -> bool:
    """Whether ``error`` passed through a function that is a handler of some signal now."""
    codes = set(_handlers())
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _handlers() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        function = getattr(handler, "func", handler)  # of functools.partial
        for callee in (function, function.__call__) if callable(function) else ():
            code = getattr(callee, "__code__", None)
            if isinstance(code, CodeType):
                yield code
