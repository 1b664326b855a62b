"""Distinguishes exceptions of the script's signal handlers from errors of the agent.

A handler runs wherever the main thread happens to be: an alarm that raises ``TimeoutError``, or
torch's own handler for a worker that died, may do so in the middle of a hook.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

MOST_RAISED = 20
"""Times in a row that something is tried again: an alarm every few ms meets it once or twice."""


def insist(on: Callable[[], object]) -> BaseException | None:
    """Call ``on`` until no handler raises in it; returns the last exception.

    ``on`` must tolerate being interrupted and called again.
    """
    raised: BaseException | None = None
    for _ in range(MOST_RAISED):
        try:
            on()
            break
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            raised = error
    return raised


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """The result of ``function``, None if it raises; exceptions of a signal handler go on."""
    try:
        return function(*args)
    except Exception as error:
        if raised_by_handler(error):
            raise
        return None


def raised_by_handler(error: BaseException) -> bool:
    """Whether ``error`` passed through a function that is now a signal handler."""
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


class TryLock:
    """A lock for one holder; anyone who comes meanwhile does without.

    The holder is known, unlike that of a ``threading.Lock``: a signal whose handler raises may come
    between taking a lock and remembering that, and it would be held for ever.
    """

    def __init__(self) -> None:
        self._holder: dict[None, object] = {}

    def acquire(self, holder: object) -> bool:
        """Take the lock for ``holder`` if it is free; whether ``holder`` has it now."""
        # One call, which no other thread can interrupt.
        return self._holder.setdefault(None, holder) is holder

    def is_held_by(self, holder: object) -> bool:
        """Whether ``holder`` has the lock."""
        return self._holder.get(None) is holder

    def release(self, holder: object) -> None:
        """Free the lock, if ``holder`` has it."""
        if self.is_held_by(holder):
            self._holder.clear()
