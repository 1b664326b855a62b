"""What the hook on a module inside another costs: too short to be timed where it happens."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

ROUNDS = 5
CALLS = 40
"""The least of five rounds of 40: 0.1 ms in all; interruptions only make a round longer."""


def inner_call_ns(is_compiling: Callable[[], bool]) -> int:
    """Nanoseconds added to each such call, measured here and now: machines differ threefold."""
    asked = _least(lambda: _ask(is_compiling, None))
    return max(asked - _least(lambda: _dispatch(is_compiling, None)), 0)


def _dispatch(is_compiling: Callable[[], bool], module: Any) -> None:
    """What torch does to a call before it dispatches it."""


def _ask(is_compiling: Callable[[], bool], module: Any) -> None:
    """What the hook asks before it dispatches the same call."""
    if is_compiling() or module is None:
        return


def _least(call: Callable[[], None]) -> int:
    return min(_round(call) for _ in range(ROUNDS))


def _round(call: Callable[[], None]) -> int:
    start = perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (perf_counter_ns() - start) // CALLS
