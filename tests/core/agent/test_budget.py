"""What windows may cost, and when they open for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.windows.plan import (
    ASKED,
    CHOSEN,
    LEAST_PAUSE_NS,
    REGULAR,
    SLOW,
    WARM,
    WindowTriggers,
)
from perftui.agent.windows.triggers import Budget
from perftui.wire.control_page import SIZE, ControlPage

MS = 1_000_000
S = 1_000_000_000


@dataclass
class Loop:
    """A training of a fake clock, whose windows cost what they are told to."""

    share: float = 0.01
    control: ControlPage = field(default_factory=lambda: ControlPage(Path("/nowhere")))
    now: int = 5 * S
    number: int = 0
    first_step: int | None = None
    opened: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = Budget(self.share)
        self.occasions = WindowTriggers(self.budget, self.control, self.first_step)

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
            self.budget.wait(cost)
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


def test_windows_are_as_frequent_as_their_cost_allows() -> None:
    loop = Loop()
    loop.run(20_000, 30 * MS, 500 * MS)

    times = [time for time, _ in loop.opened]
    gaps = [after - before for before, after in pairwise(times)]
    assert [reason for _, reason in loop.opened[:2]] == [WARM, REGULAR]
    # Half a second is repaid in 50 of them.
    assert 49 * S < gaps[1] < 52 * S


def test_cheap_windows_are_not_opened_all_the_time() -> None:
    loop = Loop()
    loop.run(100_000, 100 * MS, MS)

    times = [time for time, _ in loop.opened]
    assert times[2] - times[1] > LEAST_PAUSE_NS
    assert len(times) < 50


def test_hooks_that_cost_all_there_is_leave_nothing_for_windows() -> None:
    loop = Loop()
    for _ in range(100_000):
        loop.step(MS, 10 * MS, 10 * MS, hooks=MS // 50)

    assert [reason for _, reason in loop.opened] == [WARM]


def test_a_window_that_another_rank_paid_dearer_counts_as_that_here() -> None:
    budget = Budget(0.01)
    budget.step(100 * S, 100 * S, 0)
    budget.wait(10 * MS)
    assert budget.allows(100 * S, 10 * MS)

    budget.raise_to(999 * MS)

    assert not budget.allows(100 * S, 10 * MS)


@given(st.lists(st.integers(-100 * MS, 100 * MS), max_size=50))
def test_profiled_steps_that_scatter_cost_what_they_cost_together(differences: list[int]) -> None:
    budget = Budget(0.01)
    budget.wait(10 * MS)
    budget.begin_window()
    budget.wait(5 * MS)
    for difference in differences:
        budget.slow(difference)

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


def test_a_window_that_is_asked_for_needs_no_budget(tmp_path: Path) -> None:
    page = tmp_path / "control"
    page.write_bytes(bytes(SIZE))
    loop = Loop(control=ControlPage(tmp_path / "control"))
    loop.run(20, 30 * MS, 10 * S)
    with page.open("r+b") as file:
        file.write((1).to_bytes(8, "little"))

    assert loop.step(30 * MS, 10 * S, 10 * S) == ASKED
    assert loop.step(30 * MS, 10 * S, 10 * S) is None


def test_a_chosen_step_is_the_only_one() -> None:
    loop = Loop(first_step=40)
    loop.run(20_000, 30 * MS, MS)

    # Prepared one step ahead.
    assert loop.opened == [(5 * S + 39 * 30 * MS, CHOSEN)]
