"""What decides about windows: cost, warm steps, other ranks, calls of modules, runs."""

import ctypes
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.agent.recording.steps import EVAL, TRAIN, Boundary
from perftui.agent.windows.budget import (
    LACKING,
    LEAST_PAUSE_NS,
    MOST_STEPS,
    SLOW,
    WARM,
    Budget,
    StepTimes,
    WindowTriggers,
)
from perftui.agent.windows.plan import (
    CALL_NS,
    LEAST_GAPS,
    LONG_GAP,
    MANY,
    MOST_LEAD,
    MOST_STALL_NS,
    MUCH_LONGER_GAP,
    REMEMBERED,
    REMEMBERED_RUNS,
    ModuleCalls,
    RankSync,
    TrainingRuns,
    usual_lead,
    window_steps,
)
from perftui.wire.control_page import SIZE, ControlPage, create_control_page

MS = 1_000_000
S = 1_000_000_000


@dataclass
class Loop:
    """A training of a fake clock, whose windows cost what they are told to."""

    share: float = 0.01
    now: int = 5 * S
    number: int = 0
    opened: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = Budget(self.share)
        self.occasions = WindowTriggers(self.budget, ControlPage(Path("/nowhere")), None)

    def step(self, duration: int, price: int, cost: int, hooks: int = 0) -> str | None:
        """One step, and the window that may follow; why it does."""
        self.now += duration
        self.number += 1
        self.budget.step(self.now, duration, hooks)
        self.occasions.step(duration)
        reason = self.occasions.next(self.now, self.number, lambda: price)
        if reason is not None:
            self.opened.append((self.now, reason))
            self.budget.begin_window()
            self.now += cost
            self.budget.waited += cost
            self.occasions.ended(self.now, is_too_short=False)
        return reason

    def run(self, count: int, duration: int, cost: int) -> None:
        for _ in range(count):
            self.step(duration, cost, cost)


@given(
    st.floats(0.001, 0.2),
    st.lists(
        st.tuples(st.integers(MS, 10 * S), st.integers(0, 100 * MS), st.integers(0, MS)),
        max_size=200,
    ),
)
def test_no_window_but_the_first_brings_the_cost_above_the_budget(
    share: float, steps: list[tuple[int, int, int]]
) -> None:
    loop = Loop(share)
    hooks = windows = elapsed = 0
    for duration, cost, hook in steps:
        reason = loop.step(duration, cost, cost, hook)
        elapsed += duration
        hooks += hook
        if reason is not None:
            windows += cost
            assert reason == WARM or hooks + windows <= share * elapsed
            elapsed += cost


def test_cheap_windows_are_not_opened_all_the_time() -> None:
    loop = Loop()
    loop.run(100_000, 100 * MS, MS)

    times = [time for time, _ in loop.opened]
    assert times[2] - times[1] > LEAST_PAUSE_NS
    assert len(times) < 50


def test_what_the_diagnosis_lacks_waits_for_the_budget_and_not_for_its_turn(tmp_path: Path) -> None:
    create_control_page(tmp_path / "control")
    loop, page = Loop(), ControlPage(tmp_path / "control")
    loop.occasions = WindowTriggers(loop.budget, page, None)
    loop.run(20, 100 * MS, 30 * MS)
    page.details |= 1
    page.details |= 2
    loop.run(10, 100 * MS, 30 * MS)
    assert [reason for _, reason in loop.opened] == [WARM]
    loop.run(40, 100 * MS, 30 * MS)
    loop.occasions.prepared()

    assert [reason for _, reason in loop.opened][:2] == [WARM, LACKING]
    # 60 ms are a hundredth of 6 s, which is before the next one's turn.
    assert 6 * S <= loop.opened[1][0] - 5 * S < 7 * S
    assert (loop.occasions.details, loop.occasions.lacking) == (3, False)


def test_hooks_that_cost_all_there_is_leave_nothing_for_windows() -> None:
    loop = Loop()
    for _ in range(100_000):
        loop.step(MS, 10 * MS, 10 * MS, hooks=MS // 50)

    assert [reason for _, reason in loop.opened] == [WARM]


def test_a_window_that_another_rank_paid_dearer_counts_as_that_here() -> None:
    budget = Budget(0.01)
    budget.step(100 * S, 100 * S, 0)
    budget.waited += 10 * MS
    assert budget.allows(100 * S, 10 * MS)

    budget.raise_to(999 * MS)

    assert not budget.allows(100 * S, 10 * MS)


@given(st.lists(st.integers(-100 * MS, 100 * MS), max_size=50))
def test_profiled_steps_that_scatter_cost_what_they_cost_together(differences: list[int]) -> None:
    budget = Budget(0.01)
    budget.waited += 10 * MS
    budget.begin_window()
    budget.waited += 5 * MS
    for difference in differences:
        budget.slowed += difference

    assert budget.last_window == 5 * MS + max(sum(differences), 0)
    assert budget.windows == budget.spent == 15 * MS + max(sum(differences), 0)


def test_a_slow_step_opens_one_window_and_a_second_waits() -> None:
    loop = Loop()
    loop.run(100, 30 * MS, MS)
    loop.run(400, 30 * MS, MS)

    first = loop.step(200 * MS, MS, MS)
    second = loop.step(200 * MS, MS, MS)

    assert (first, second) == (SLOW, None)


def test_a_slow_step_opens_none_that_would_cost_too_much() -> None:
    loop = Loop()
    loop.run(500, 30 * MS, MS)

    assert loop.step(200 * MS, 10 * S, 10 * S) is None


def test_steps_that_are_a_little_slower_open_none() -> None:
    loop = Loop()
    loop.run(300, 2 * MS, 0)
    loop.run(200, 30 * MS, 0)
    before = len(loop.opened)

    assert [loop.step(15 * MS, 0, 0), loop.step(59 * MS, 0, 0)] == [None, None]
    assert len(loop.opened) == before


def warm_after(durations: list[int]) -> int | None:
    """The number of steps after which the loop counts as warm."""
    times = StepTimes()
    for count, duration in enumerate(durations, 1):
        times.step(duration)
        if times.have_settled:
            return count
    return None


@pytest.mark.parametrize(
    ("durations", "steps"),
    [
        pytest.param([MS] * 40, 10, id="fast and steady"),
        # Long ones need a second and three of a kind.
        pytest.param([900 * MS] * 10, 3, id="long"),
        pytest.param([5000 * MS, *[400 * MS] * 4], 4, id="long, the first longer"),
        pytest.param(
            [*(2 ** (20 - n) * MS // 1000 for n in range(12)), MS, MS, MS], 15, id="getting shorter"
        ),
        pytest.param([MS, 100 * MS] * 100, MOST_STEPS, id="never settled"),
        pytest.param([20_000 * MS, 60_000 * MS], 2, id="of minutes"),
    ],
)
def test_a_loop_is_warm_after_so_many_steps(durations: list[int], steps: int) -> None:
    assert warm_after(durations) == steps


@given(st.lists(st.integers(0, 10**11), max_size=80))
def test_once_warm_always_warm(durations: list[int]) -> None:
    times = StepTimes()
    seen = []
    for duration in durations:
        times.step(duration)
        seen.append(times.have_settled)

    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("step", "stall", "in_detail", "steps"),
    [
        # Two of usual length once their cost is known, and more of very short ones.
        (30 * MS, 3 * MS, False, 2),
        (4 * MS, MS // 10, False, 5),
        (1 * MS, MS // 10, False, 10),
        # The first is short enough for the busiest loop.
        (30 * MS, None, False, 1),
        (1 * MS, None, False, 8),
        (1 * MS, None, True, 2),
    ],
)
def test_a_window_has_so_many_steps(
    step: int, stall: int | None, in_detail: bool, steps: int
) -> None:
    assert window_steps(step, stall, in_detail) == steps


@given(st.integers(0, 10**11), st.integers(1, 10**9), st.booleans())
def test_a_later_window_is_not_expected_to_stall_for_long(
    step: int, stall: int, in_detail: bool
) -> None:
    steps = window_steps(step, stall, in_detail)

    assert 1 <= steps <= 10
    assert steps == 1 or steps * stall <= MOST_STALL_NS


class Rank:
    """One rank, whose steps a test takes one by one.

    It is not told of steps that nobody need be told of, if it ``waits``."""

    def __init__(self, spool: Path, lead: int = MOST_LEAD, *, waits: bool = False) -> None:
        self.control = ControlPage(spool / "control")
        self.together = RankSync(self.control)
        self.lead = lead
        self.trained = 0
        self.wants = False
        self.opened: list[int] = []
        self._is_prepared = False
        self._waits = waits

    def step(self) -> None:
        self.trained += 1
        if self._waits and self._need_not_be_told():
            return
        is_due = self._is_prepared or self.together.is_due(self.trained, self.wants, self.lead)
        if is_due and self.together.may_start(self.trained, at_once=self._is_prepared):
            self.opened.append(self.trained)
            self._is_prepared = self.wants = False
        elif is_due:
            self._is_prepared = True

    def _need_not_be_told(self) -> bool:
        if self._is_prepared or self.wants or not self.together.can_wait(self.trained - 1):
            return False
        address, known = self.together.plan
        return ctypes.c_int64.from_address(address).value == known


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "control").write_bytes(bytes(SIZE))
    return tmp_path


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 1)), min_size=1, max_size=4),
    st.lists(st.integers(0, 1), min_size=60, max_size=60),
    st.sampled_from([2, 3, MOST_LEAD]),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_ranks_a_step_apart_open_the_same_windows(
    spool: Path, wants: list[tuple[int, int]], ahead: list[int], lead: int, one_waits: bool
) -> None:
    (spool / "control").write_bytes(bytes(SIZE))
    ranks = [Rank(spool, lead, waits=True), Rank(spool, lead, waits=one_waits)]
    for number, first in enumerate(ahead):
        for at, which in wants:
            ranks[which].wants |= at == number
        ranks[first].step()
        ranks[1 - first].step()
    for _ in range(2 * MOST_LEAD + 4):
        for rank in ranks:
            rank.step()

    assert ranks[0].opened == ranks[1].opened
    assert ranks[0].opened


def test_ranks_that_are_started_anew_do_not_wait_for_plans_of_before(spool: Path) -> None:
    ControlPage(spool / "control").step = 100_000
    rank = Rank(spool)
    rank.wants = True
    for _ in range(30):
        rank.step()

    assert rank.opened == [1 + MOST_LEAD]


def test_what_windows_cost_others_is_counted_here_but_not_what_was_before(spool: Path) -> None:
    ControlPage(spool / "control").cost = 900 * MS
    ranks = [Rank(spool), Rank(spool)]
    for rank in ranks:
        rank.together.is_due(1, True, 2)
    dear, cheap = Budget(0.01), Budget(0.01)
    dear.waited += 5 * MS
    ranks[0].together.pay(dear)
    ranks[1].together.learn(cheap)

    assert cheap.windows == 5 * MS


@pytest.mark.parametrize(("step", "lead"), [(0, 8), (MS, 8), (200 * MS, 5), (10_000 * MS, 2)])
def test_long_steps_are_not_counted_by_the_dozen(step: int, lead: int) -> None:
    assert usual_lead(step) == lead


def calls_after(*steps: int) -> ModuleCalls:
    calls = ModuleCalls()
    for modules in steps:
        if modules:
            calls.count(modules)
        calls.end_step(1, is_sought=True)
    return calls


@pytest.mark.parametrize(
    ("before", "steps", "most"),
    [
        ((1_000,) * 3, 1, 2_000),
        ((1_000,) * 3, 2, 4_000),
        ((40, 900, 40), 1, 1_800),
        ((9,), 1, 1_500),
    ],
)
def test_a_window_may_hold_twice_what_the_steps_before_have_called(
    before: tuple[int, ...], steps: int, most: int
) -> None:
    calls = calls_after(*before)
    calls.open(steps, is_limited=True)
    calls.count(most)
    assert not calls.are_too_many
    calls.count(1)
    assert calls.are_too_many


def test_the_dearest_of_the_last_steps_is_expected_again() -> None:
    assert calls_after().price(2) == 0
    assert calls_after(40, 5_000, 40).price(2) == 2 * 5_000 * CALL_NS
    assert calls_after(5_000, *[40] * REMEMBERED).price(1) == 40 * CALL_NS
    assert calls_after(5_000, *[0] * REMEMBERED).price(1) == 5_000 * CALL_NS


def test_calls_on_the_fast_path_are_taken_to_hold_as_many_modules() -> None:
    calls = calls_after(40)
    calls.end_step(300, is_sought=True)
    assert calls.price(1) == 300 * 40 * CALL_NS

    for _ in range(50):
        calls.count(10)
    calls.end_step(400, is_sought=True)
    calls.end_step(2_000, is_sought=True)
    assert calls.price(1) == 2_000 * 10 * CALL_NS


def test_steps_that_windows_are_not_for_are_not_expected() -> None:
    calls = calls_after(40)
    calls.count(5_000)
    calls.end_step(1, is_sought=False)

    assert calls.price(1) == 40 * CALL_NS


def test_a_step_whose_end_showed_late_does_not_count_with_the_calls_of_the_next() -> None:
    calls = calls_after(40)
    for _ in range(200):
        calls.count(40)
    calls.end_step(1, is_sought=True)

    assert calls.price(1) == 40 * CALL_NS


T, E, E_TOLD = (TRAIN, False), (EVAL, False), (EVAL, True)
"""Steps, and whether the call that ends them has gradients."""

Step = tuple[str, bool]


def runs_after(steps: list[Step]) -> TrainingRuns:
    runs = TrainingRuns()
    for kind, trains_next in steps:
        runs.step(Boundary(kind, 0, 1, trains_next=trains_next))
    return runs


@pytest.mark.parametrize(
    ("steps", "ahead"),
    [
        ([T], MANY),
        ([T, E], 0),
        ([T, E_TOLD], 1),
        ([T, T, T, E, E, E, T], 2),
        ([T, T, T, E, E, E, T, T, T], 0),
        ([T, T, T, E, E, E, T, T, T, T], MANY),
        ([T, T, T, E, T, E, T], 0),
        ([T, T, T, E, T, E, T, T], 1),
        # Gaps without a sign are as long as the ones before, those with one never end without it.
        ([T, T, E, E, T, T, E, E], 0),
        ([T, T, E, E, T, T, E, E, T, T, E, E], 2),
        ([T, T, E, E, T, T, E, E, T, T, E, E, E], 0),
        ([T, T, E, E, T, T, E, T, T, E, E], 0),
        ([T, T, E, E_TOLD, T, T, E, E_TOLD, T, T, E, E], 0),
        # An update by hand ends where the next call begins.
        ([T, E, (TRAIN, False)], 0),
        ([T, E, (TRAIN, True)], 1),
    ],
)
def test_a_run_is_as_long_as_those_before(steps: list[Step], ahead: int) -> None:
    assert runs_after(steps).ahead == ahead


@pytest.mark.parametrize(
    ("steps", "is_foreseen"),
    [
        ([T, E, T], False),
        ([T, E_TOLD, T], True),
        ([T, E_TOLD, T, E, T], False),
        ([T, E, T, E, T, E, T], True),
    ],
)
def test_what_was_known_of_the_last_run_before_it_began(
    steps: list[Step], is_foreseen: bool
) -> None:
    assert runs_after(steps).is_foreseen is is_foreseen


def test_training_is_over_when_a_gap_is_much_longer_than_any() -> None:
    assert not runs_after([T] + [E] * LONG_GAP).seem_over
    assert runs_after([T] + [E] * (LONG_GAP + 1)).seem_over
    rollouts = [T] + [E] * 2 * LONG_GAP
    assert not runs_after([*rollouts, T] + [E] * 2 * LONG_GAP * MUCH_LONGER_GAP).seem_over
    assert runs_after([*rollouts, T] + [E] * (2 * LONG_GAP * MUCH_LONGER_GAP + 1)).seem_over
    assert not runs_after([*rollouts, T]).seem_over


def expected(steps: list[Step]) -> int:
    """The same, from all that has been so far."""
    groups = [(kind, list(group)) for kind, group in groupby(steps, key=lambda step: step[0])]
    *before, (kind, newest) = groups
    runs = [len(group) for kind, group in before if kind == TRAIN][-REMEMBERED_RUNS:]
    gaps = [group for kind, group in before if kind == EVAL][-REMEMBERED_RUNS:]
    trains_next = newest[-1][1]
    if kind == TRAIN:
        lengths = sorted(run for run in runs if run >= len(newest))
        ahead = lengths[0] - len(newest) if lengths else MANY
        return 1 if trains_next and not ahead else ahead
    are_alike = len(gaps) >= LEAST_GAPS and all(len(gap) == len(newest) for gap in gaps)
    was_told = bool(gaps) and gaps[-1][-1][1]
    return min(runs) if trains_next or (are_alike and not was_told) else 0


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans()), min_size=1, max_size=9
    ),
    st.integers(0, 3),
    st.booleans(),
)
def test_any_loop_is_told_from_its_last_runs_and_gaps(
    turns: list[tuple[int, int, bool]], taken_together: int, ends_in_a_run: bool
) -> None:
    steps: list[Step] = []
    for run, gap, tells in turns:
        steps += [T] * run + [E] * gap
        steps[-1] = E_TOLD if tells else E
    steps += [T] if ends_in_a_run else []
    for number in range(1, len(steps) + 1):
        assert runs_after(steps[:number]).ahead == expected(steps[:number])

    if ends_in_a_run:
        runs = runs_after(steps)
        runs.usual(taken_together)
        assert runs.ahead == expected(steps + [T] * taken_together)
