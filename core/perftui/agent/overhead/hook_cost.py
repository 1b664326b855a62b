"""What the hooks cost that are too short to be timed where they happen."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from ..safety.guarded import guarded
from .meter import Meter

ROUNDS = 5
CALLS = 40
"""The least of five rounds of 40: 0.1 ms in all; interruptions only make a round longer."""


def calibrate(meter: Meter) -> None:
    """Measure what ``meter`` cannot see of a hook: the call of it, and the reading of clocks."""
    hooked = _Hooked()
    nothing = _least(lambda: None)
    hooked.meter.is_sampling = False
    meter.frame_ns = max(_least(hooked.hook) - nothing, 0)
    meter.clock_ns = min(_measured(hooked) for _ in range(ROUNDS))


class _Hooked:
    """Has one hook, which does nothing."""

    def __init__(self) -> None:
        self.meter = Meter()

    @guarded
    def hook(self) -> None:
        """Do nothing."""


def _measured(hooked: _Hooked) -> int:
    hooked.meter.is_sampling = True
    for _ in range(CALLS):
        hooked.hook()
    return hooked.meter.take() // CALLS


def _least(call: Callable[[], object]) -> int:
    return min(_round(call) for _ in range(ROUNDS))


def _round(call: Callable[[], object]) -> int:
    start = perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (perf_counter_ns() - start) // CALLS
