"""What the hooks themselves cost, measured once in the process they run in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

ROUNDS = 5
CALLS = 40
"""The least of five rounds of 40: 0.5 ms in all; interruptions only make a round longer."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds."""

    pair: int = 0
    """Entering and leaving one phase."""
    inner: int = 0
    """The hook on a module that is called inside another."""


def measure_costs(
    rehearse: Callable[[], Callable[[], None]], is_compiling: Callable[[], bool]
) -> Costs:
    """Measure here and now: the same code differs threefold between machines.

    ``rehearse`` makes a function that enters and leaves a phase to no effect.
    """
    bare = _least(lambda: _nothing(is_compiling, None))
    inner = _least(lambda: _asking(is_compiling, None))
    return Costs(pair=_least(rehearse()), inner=max(inner - bare, 0))


def _nothing(is_compiling: Callable[[], bool], module: Any) -> None:
    """What torch does to a call before it dispatches it."""


def _asking(is_compiling: Callable[[], bool], module: Any) -> None:
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
