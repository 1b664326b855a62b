"""Ranks that open their windows at the same step."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.agent.windows.plan import MOST_LEAD, RankSync, usual_lead
from perftui.agent.windows.triggers import Budget
from perftui.wire.control_page import SIZE, ControlPage

MS = 1_000_000


class Rank:
    """One rank, whose steps a test takes one by one.

    It is not told of steps that nobody need be told of, if it ``waits``.
    """

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
    ControlPage(spool / "control").plan(100_000)
    rank = Rank(spool)
    rank.wants = True
    for _ in range(30):
        rank.step()

    assert rank.opened == [1 + MOST_LEAD]


def test_what_windows_cost_others_is_counted_here_but_not_what_was_before(spool: Path) -> None:
    ControlPage(spool / "control").raise_cost(900 * MS)
    ranks = [Rank(spool), Rank(spool)]
    for rank in ranks:
        rank.together.is_due(1, True, 2)
    dear, cheap = Budget(0.01), Budget(0.01)
    dear.wait(5 * MS)
    ranks[0].together.pay(dear)
    ranks[1].together.learn(cheap)

    assert cheap.windows == 5 * MS


@pytest.mark.parametrize(("step", "lead"), [(0, 8), (MS, 8), (200 * MS, 5), (10_000 * MS, 2)])
def test_long_steps_are_not_counted_by_the_dozen(step: int, lead: int) -> None:
    assert usual_lead(step) == lead
