"""Guarded methods: an error of the agent never reaches the script, and their time is counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns
from typing import Any, Protocol, TypeVar, cast

from .meter import Meter

Method = TypeVar("Method", bound=Callable[..., Any])


class Owner(Protocol):
    """The class whose methods are guarded."""

    @property
    def meter(self) -> Meter:
        """Counts the time."""

    def guards(self, error: BaseException) -> bool:
        """Whether ``error``, which a method raised, is ours: then it is dropped."""


def guarded(method: Method) -> Method:
    """Turn any error of the agent into a note and the end of the recording, never the script's.

    For what happens several times a step: its time is measured in some steps only.
    """

    @wraps(method)
    def call(owner: Owner, *args: Any) -> Any:
        meter = owner.meter
        if meter.is_sampling:
            start = meter.begin_hook()
            try:
                return method(owner, *args)
            except BaseException as error:
                if not owner.guards(error):
                    raise
                return 0
            finally:
                meter.end_hook(start)
        meter.calls += 1
        try:
            return method(owner, *args)
        except BaseException as error:
            if not owner.guards(error):
                raise
            return 0

    return cast("Method", call)


def guarded_and_timed(method: Method) -> Method:
    """Turn any error of the agent into a note and the end of the recording, as ``guarded`` does.

    For rare work that may take long: its time is measured each time.
    """

    @wraps(method)
    def call(owner: Owner, *args: Any) -> Any:
        meter = owner.meter
        mark = meter.begin_apart()
        try:
            return method(owner, *args)
        except BaseException as error:
            if not owner.guards(error):
                raise
            return 0
        finally:
            meter.end_apart(mark)

    return cast("Method", call)


GUARDED = (guarded(lambda _: None), guarded_and_timed(lambda _: None))
"""One function of each kind; all of a kind share its code."""


ROUNDS = 5
CALLS = 40
"""The least of five rounds of 40: 0.1 ms in all; interruptions only make a round longer."""


def calibrate(meter: Meter) -> None:
    """Measure what ``meter`` cannot see of a hook's cost: the call, and reading clocks."""
    hooked = _Hooked()
    nothing = _least(lambda: None)
    hooked.meter.is_sampling = False
    meter.frame_ns = max(_least(hooked.hook) - nothing, 0)
    meter.clock_ns = min(_measured(hooked) for _ in range(ROUNDS))


class _Hooked:
    """A class with one hook, which does nothing."""

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
