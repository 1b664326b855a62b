"""Counts what the agent costs the training, so that a busy machine does not inflate it; an error in
a guarded method never reaches the script."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns, thread_time_ns
from typing import Any, NamedTuple, Optional, Protocol, TypeVar, cast

ALWAYS_UNTIL = 8
"""Steps at the beginning that are all measured: much happens there for the first time. Their hooks
cost two to three times what later ones cost (300 us a step against 90 to 130 us), so what they
taught is forgotten when the first of the later ones has been measured."""

LEARN_FROM = 2
"""The very first steps do not count: files are made and facts gathered there."""

EVERY = 31
"""One in this many of the steps after them is measured. A prime: loops log, accumulate and save
every so many steps too, and the sample should not always hit the same ones."""

MEMORY_CALLS = 200
"""Measured hooks after which the older half counts for half."""

COMPILED_WEIGHT = 0.1
"""Weight of the newest measured step in the average cost of a compiled hook."""

COLD = 12
"""Python's own work around a compiled hook is not measured there. It takes so many times a call of
an empty hook in a row (0.16 us), as its code and data have left the caches meanwhile: 12 calls of
which 0.4 us each are measured take some 30 us of a step by comparison
(``tests/verify/benchmarks/bench_agent_step.py``)."""

Clock = Callable[[], int]


class Mark(NamedTuple):
    """The beginning of work that is counted apart, or not at all."""

    wall: int
    clock: Optional[Clock]
    """The clock of the hook in which the work happens, None without one."""
    since: int
    """Reading of that clock when the work began, ns."""


class Meter:
    """The agent's own cost since the last step ended, in ns.

    A hook that is preempted takes milliseconds by the wall clock that are no cost of it: beside
    two other busy processes on two cores, 97 of 119 ms that the hooks took were such time. The
    processor time of the thread leaves it out, but a reading takes 250 ns where the wall clock
    takes 50. So it is read around each hook in a sample of the steps only. A hook in the others is
    taken to cost what one cost on average in the sample, and nothing is read there.

    Work that is rare and may really wait (files, facts about loaders) is timed apart, each time,
    by the wall clock, and counts in full in its own step only. Windows are not counted here: they
    have a phase of their own.
    """

    def __init__(self) -> None:
        self.is_sampling = True
        """Whether the hooks of this step are measured."""
        self.calls = 0
        """Hooks without measurement since the last step ended."""
        self.estimated = 0
        """Cost that is known without measuring; added by the hooks."""
        self.frame_ns = 0
        """Cost of calling a hook outside the measured part."""
        self.clock_ns = 0
        """Part of a hook's measured time that is the measurement itself."""
        self._clock: Clock | None = None
        self._sampled = 0
        self._sampled_calls = 0
        self._apart = 0
        self._steps = 0
        self._mean_ns = 0.0
        self._known_ns = 0.0
        self._known_calls = 0.0
        self._is_early = True
        self._compiled_ns = 0.0

    @property
    def call_ns(self) -> float:
        """Assumed cost of a hook that is not measured, ns."""
        return self.frame_ns + self._mean_ns

    @property
    def compiled_call_ns(self) -> float:
        """Assumed cost of a compiled hook that is not measured, ns."""
        return self._compiled_ns + COLD * self.frame_ns

    @property
    def until_sample(self) -> int:
        """Steps until the next measured step begins; 0 if it has begun."""
        return 0 if self.is_sampling else EVERY - self._steps % EVERY

    def pass_by(self, steps: int) -> None:
        """``steps`` steps have ended whose cost was counted elsewhere."""
        if steps:
            self._steps += steps
            self._update_sampling()

    def learn_compiled(self, spent: int, calls: int) -> None:
        """In one step ``calls`` of compiled hooks were measured, which took ``spent`` in all."""
        if not calls:
            return
        weight = COMPILED_WEIGHT if self._compiled_ns else 1.0
        self._compiled_ns += weight * (max(spent, 0) / calls - self._compiled_ns)

    def begin_hook(self) -> int:
        """A measured hook begins."""
        self._clock = thread_time_ns
        return thread_time_ns()

    def end_hook(self, start: int) -> None:
        """The hook that began at ``start`` ends."""
        self._sampled += thread_time_ns() - start
        self._sampled_calls += 1
        self._clock = None

    def mark(self) -> Mark:
        """Work begins that may be counted apart or left out."""
        clock = self._clock
        return Mark(perf_counter_ns(), clock, clock() if clock else 0)

    def begin_apart(self) -> Mark:
        """Rare work begins."""
        mark = self.mark()
        self._clock = perf_counter_ns
        return mark

    def end_apart(self, mark: Mark) -> None:
        """The rare work that began at ``mark`` ends."""
        self._clock = mark.clock
        self._apart += perf_counter_ns() - mark.wall
        self.leave_out(mark)

    def leave_out(self, mark: Mark) -> None:
        """Exclude the time since ``mark`` from the cost of the hook around it."""
        if mark.clock is None:
            return
        spent = mark.clock() - mark.since
        if mark.clock is perf_counter_ns:
            self._apart -= spent
        else:
            self._sampled -= spent

    def take(self, *, is_usual: bool = True) -> int:
        """The cost since the last call: a step ends here.

        Hooks in a step that is not ``is_usual`` teach nothing about others. Steps of 50 ms that
        timed the GPU six times had hooks of 450 us, the others of 100.
        """
        if self._sampled_calls:
            if is_usual:
                self._learn()
            self._sampled += self._sampled_calls * (self.frame_ns + self.clock_ns)
            self._sampled_calls = 0
        cost = self._sampled + round(self.calls * self.call_ns) + self._apart + self.estimated
        self.calls = self.estimated = self._apart = self._sampled = 0
        self._steps += 1
        self._update_sampling()
        return max(cost, 0)

    def _update_sampling(self) -> None:
        self.is_sampling = self._steps < ALWAYS_UNTIL or self._steps % EVERY == 0

    def _learn(self) -> None:
        if self._steps < LEARN_FROM:
            return
        # The hook that ends the last early step is measured after that step.
        if self._is_early and self.is_sampling and self._steps >= ALWAYS_UNTIL:
            self._is_early = False
            self._known_ns = self._known_calls = 0.0
        if self._known_calls >= MEMORY_CALLS:
            self._known_ns /= 2
            self._known_calls /= 2
        self._known_ns += max(self._sampled - self._sampled_calls * self.clock_ns, 0)
        self._known_calls += self._sampled_calls
        self._mean_ns = self._known_ns / self._known_calls


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
