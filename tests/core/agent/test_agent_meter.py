"""What the agent says of its own cost."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.safety import meter as meters
from perftui.agent.safety.meter import Meter, calibrate, guarded, guarded_and_timed

US = 1000
MS = 1_000_000


class Time:
    """The two clocks: while the thread works both go on, while it waits only one."""

    def __init__(self) -> None:
        self.wall = 5 * MS
        self.cpu = 3 * MS

    def work(self, ns: int) -> None:
        self.wall += ns
        self.cpu += ns

    def wait(self, ns: int) -> None:
        self.wall += ns


class Agent:
    """Has a hook of each kind, which does what it is told."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.failure: BaseException | None = None

    def guards(self, error: BaseException) -> bool:
        self.failure = error
        return isinstance(error, Exception)

    @guarded
    def often(self, work: Callable[[], None]) -> int:
        work()
        return 1

    @guarded_and_timed
    def rarely(self, work: Callable[[], None]) -> int:
        work()
        return 1


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(meters, "perf_counter_ns", lambda: time.wall)
    # An object of its own each time it is asked for would not be told from the other clock.
    monkeypatch.setattr(meters, "thread_time_ns", lambda: time.cpu)
    return time


def steps(agent: Agent, time: Time, count: int, hooks: int = 8, ns: int = 2 * US) -> list[int]:
    costs = []
    for _ in range(count):
        for _ in range(hooks):
            agent.often(lambda: time.work(ns))
        costs.append(agent.meter.take())
    return costs


def test_a_hook_that_is_preempted_costs_what_it_worked(time: Time) -> None:
    agent = Agent()

    agent.often(lambda: (time.work(5 * US), time.wait(30 * MS))[0])

    assert agent.meter.take() == 5 * US


def test_clocks_are_read_in_a_sample_of_the_steps_only(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent()
    steps(agent, time, meters.ALWAYS_UNTIL + meters.EVERY)
    read = 0

    def reading() -> int:
        nonlocal read
        read += 1
        return time.cpu

    monkeypatch.setattr(meters, "thread_time_ns", reading)
    steps(agent, time, 10 * meters.EVERY, hooks=3)

    assert read == 10 * 3 * 2


def test_what_is_done_for_the_first_time_is_not_expected_of_later_steps(time: Time) -> None:
    agent = Agent()

    assert steps(agent, time, 1, ns=9 * MS) == [72 * MS]
    assert steps(agent, time, 1) == [16 * US]
    assert steps(agent, time, 40) == [16 * US] * 40


def test_hooks_of_an_unusual_step_are_not_expected_of_others(time: Time) -> None:
    agent = Agent()
    steps(agent, time, 2 * meters.EVERY)

    assert agent.meter.is_sampling
    agent.often(lambda: time.work(9 * MS))
    assert agent.meter.take(is_usual=False) == 9 * MS
    assert steps(agent, time, 40) == [16 * US] * 40


def test_rare_work_counts_in_its_own_step_with_all_its_waiting(time: Time) -> None:
    agent = Agent()
    steps(agent, time, 10)

    agent.rarely(lambda: time.wait(2 * MS))
    assert steps(agent, time, 1) == [2 * MS + 16 * US]
    assert steps(agent, time, 30) == [16 * US] * 30


@pytest.mark.parametrize("before", [2, 9], ids=["measured", "not measured"])
def test_rare_work_within_a_hook_counts_once(time: Time, before: int) -> None:
    agent = Agent()
    steps(agent, time, before)

    def work() -> None:
        time.work(2 * US)
        mark = agent.meter.begin_apart()
        time.work(MS)
        agent.meter.end_apart(mark)

    agent.often(work)

    assert agent.meter.take() == 2 * US + MS


@pytest.mark.parametrize("kind", ["often", "rarely"])
def test_a_window_is_no_part_of_the_cost_of_its_hook(time: Time, kind: str) -> None:
    agent = Agent()

    def work() -> None:
        time.work(2 * US)
        mark = agent.meter.mark()
        time.work(30 * MS)
        time.wait(MS)
        agent.meter.leave_out(mark)

    getattr(agent, kind)(work)

    assert agent.meter.take() == 2 * US


@pytest.mark.parametrize("before", [0, 9], ids=["measured", "not measured"])
@pytest.mark.parametrize("kind", ["often", "rarely"])
def test_errors_end_the_recording_and_orders_to_leave_pass(
    time: Time, kind: str, before: int
) -> None:
    agent = Agent()
    steps(agent, time, before)

    def fail() -> None:
        raise ValueError("broken")

    def leave() -> None:
        raise SystemExit(0)

    assert getattr(agent, kind)(fail) == 0
    assert isinstance(agent.failure, ValueError)
    with pytest.raises(SystemExit):
        getattr(agent, kind)(leave)


@given(st.lists(st.integers(0, 20), max_size=120), st.integers(0, 50 * US), st.integers(0, 300))
def test_sums_are_exact_where_hooks_cost_the_same(hooks: list[int], ns: int, frame: int) -> None:
    time, agent = Time(), Agent()
    agent.meter.frame_ns = frame
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meters, "perf_counter_ns", lambda: time.wall)
        patch.setattr(meters, "thread_time_ns", lambda: time.cpu)
        # The first steps tell what a hook costs.
        counts = [1] * meters.ALWAYS_UNTIL + hooks
        taken = [steps(agent, time, 1, count, ns)[0] for count in counts]

    assert taken == [count * (ns + frame) for count in counts]


def test_the_cost_of_measuring_is_known_and_not_expected_where_nothing_is_measured() -> None:
    meter = Meter()
    calibrate(meter)

    assert 0 < meter.clock_ns < MS
    assert 0 <= meter.frame_ns < MS


def test_compiled_hooks_cost_what_was_measured_and_what_python_does_around_them() -> None:
    meter = Meter()
    meter.frame_ns = 100
    assert meter.compiled_call_ns == meters.COLD * 100
    meter.learn_compiled(4000, 10)
    assert meter.compiled_call_ns == 400 + meters.COLD * 100
    meter.learn_compiled(14_000, 10)
    assert meter.compiled_call_ns == pytest.approx(500 + meters.COLD * 100)
    meter.learn_compiled(0, 0)
    assert meter.compiled_call_ns == pytest.approx(500 + meters.COLD * 100)
