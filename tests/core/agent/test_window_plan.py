"""Windows of a whole training, by a fake clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perftui.agent.occasions import ASKED, REGULAR, WARM
from perftui.agent.options import Options
from perftui.agent.steps import EVAL, INFER, TRAIN, Boundary
from perftui.agent.window_plan import LONG_EVALUATION, MOST_ATTEMPTS, WindowPlan
from perftui.run.spool import CONTROL_SIZE

MS = 1_000_000


@dataclass
class Training:
    """Steps of one kind and 30 ms; a window makes its own longer by ``slowed`` and then waits."""

    plan: WindowPlan
    hooks: int = 0
    slowed: int = 10 * MS
    stall: int = 4 * MS
    """For each step of a window."""
    cut_short: bool = False
    kind: str = TRAIN
    usual: int = 30 * MS
    calls: int = 40
    """Of modules, in each step."""
    now: int = 0
    number: int = 0
    cost: int = 0
    windows: list[tuple[int, int, str]] = field(default_factory=list)
    """First step, steps, reason."""
    retries: list[bool] = field(default_factory=list)
    """Of each window that was cut short, whether another follows at once."""
    _first: int | None = None
    _is_prepared: bool = False
    _left: int = 0
    _waited: int = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def run_together(self, turns: int, together: int) -> None:
        """Tell of only one step in so many, and of the others at once, wherever that is allowed."""
        for _ in range(turns):
            if self._first is None and not self._is_prepared and self.plan.can_wait:
                whole, hooks = self.usual * together, self.hooks * together
                self.plan.usual(together, whole, hooks)
                self.now += whole
                self.number += together
                self.cost += hooks
            self._step()

    def _step(self) -> None:
        is_open = self._first is not None
        duration = self.usual + self._waited + (self.slowed if is_open else 0)
        self.cost += self.hooks + self._waited + (self.slowed if is_open else 0)
        self._waited = 0
        self.now += duration
        self.number += 1
        self.plan.calls.count(self.calls)
        self.plan.step(Boundary(self.kind, self.now, 1), duration, self.hooks, is_open)
        if self._first is not None:
            self._left -= 1
            if not self._left:
                self._finish(self._first)
        elif self._is_prepared or self.plan.is_due(self.number):
            if not self._is_prepared:
                self.plan.begin()
            if self.plan.may_start(self.number, self._is_prepared):
                self._first, self._left = self.number, self.plan.start()
            self._is_prepared = self._first is None

    def _finish(self, first: int) -> None:
        self._first = None
        if self.cut_short:
            self.retries.append(self.plan.cut_short())
            return
        steps = self.number - first
        self._waited = self.stall * steps
        self.plan.pay(self._waited)
        self.plan.saved(steps, self._waited)
        self.windows.append((first, steps, self.plan.reason))


def training(options: Options | None = None, spool: Path = Path("/nowhere")) -> Training:
    return Training(WindowPlan(spool, options or Options()))


@pytest.mark.parametrize("share", [0.002, 0.01, 0.05])
def test_all_windows_of_a_run_and_the_hooks_together_stay_within_the_budget(share: float) -> None:
    run = training(Options(overhead=share))
    run.hooks = 30_000
    run.run(40_000)

    assert len(run.windows) > 5
    assert run.cost <= share * run.now


@pytest.mark.parametrize("hooks", [0, 2000])
def test_steps_that_are_told_of_together_count_as_one_by_one(hooks: int) -> None:
    """A step of 1 ms may cost 2 us: a fifth of the budget is gone before any window."""
    one_by_one, together = training(), training()
    for run in (one_by_one, together):
        run.usual, run.hooks = MS, hooks
    one_by_one.run(400_000)
    together.run_together(400_000 // 38, 37)

    assert together.cost <= 0.01 * together.now
    assert len(together.windows) > 5
    assert together.windows[0] == one_by_one.windows[0]
    pairs = zip(together.windows, one_by_one.windows, strict=False)
    for (first, *ours), (alone, *others) in pairs:
        assert abs(first - alone) < 0.02 * alone + 200
        assert ours == others


def test_the_first_look_is_short_and_a_whole_one_follows_when_it_is_paid_back() -> None:
    run = training()
    run.run(1000)

    assert [(steps, reason) for _, steps, reason in run.windows[:2]] == [(1, WARM), (2, REGULAR)]
    # Both together cost 42 ms, so nobody may see the second before 4.2 s of steps of 30 ms.
    assert 140 <= run.windows[1][0] < 150


def test_steps_that_are_dear_to_save_are_recorded_one_by_one() -> None:
    run = training()
    run.stall = 40 * MS
    run.run(20_000)

    assert {steps for _, steps, _ in run.windows} == {1}


def test_an_explicit_number_of_steps_holds_whatever_it_costs() -> None:
    run = training(Options(window_steps=7))
    run.stall = 40 * MS
    run.run(20_000)

    assert len(run.windows) > 2
    assert {steps for _, steps, _ in run.windows} == {7}


def test_windows_that_are_always_cut_short_are_tried_few_times() -> None:
    run = training()
    run.cut_short = True
    run.run(300)

    assert run.retries == [True] * (MOST_ATTEMPTS - 1) + [False]


def test_a_request_is_served_at_once(tmp_path: Path) -> None:
    (tmp_path / "control").write_bytes(bytes(CONTROL_SIZE))
    run = training(spool=tmp_path)
    run.run(600)
    before = len(run.windows)
    with (tmp_path / "control").open("r+b") as page:
        page.write((1).to_bytes(8, "little"))
    asked = run.number
    run.run(5)

    assert len(run.windows) == before + 1
    assert run.windows[-1] == (asked + 2, 2, ASKED)


def test_a_script_that_never_trains_gets_the_windows_of_one_that_does() -> None:
    run, trains = training(), training()
    run.kind = INFER
    run.hooks = trains.hooks = 30_000
    run.run(40_000)
    trains.run(40_000)

    assert run.windows == trains.windows
    assert run.windows[0][2] == WARM
    assert run.cost <= 0.01 * run.now


def test_a_script_with_an_optimizer_that_evaluates_for_long_is_looked_at() -> None:
    run = training()
    run.kind = EVAL
    run.run(LONG_EVALUATION)
    early = list(run.windows)
    run.run(40_000)

    assert early == []
    assert run.windows[0][2] == WARM
    assert run.cost <= 0.01 * run.now


def test_evaluation_between_training_steps_opens_no_window() -> None:
    run = training()
    run.run(5)
    run.kind = EVAL
    run.run(40_000)

    assert run.windows == []


def test_a_check_before_training_is_not_taken_for_its_warm_up() -> None:
    run = training()
    run.kind, run.usual = INFER, 5 * MS
    run.run(300)
    checked = len(run.windows)
    run.kind, run.usual = TRAIN, 200 * MS
    began = run.number
    run.run(300)

    # The first three steps that are alike, and one more to prepare; paid for by the budget.
    assert checked == 1
    assert run.windows[1][2] == REGULAR
    assert began + 3 < run.windows[1][0] < began + 50
    assert run.cost <= 0.01 * run.now


def test_a_first_window_that_would_be_dear_is_earned_first() -> None:
    run = training()
    run.calls, run.slowed, run.stall = 5_000, 200 * MS, 250 * MS
    run.run(1_600)
    assert run.plan.is_postponed
    assert run.plan.can_wait
    assert run.windows == []
    run.run(2_000)

    assert not run.plan.is_postponed
    assert [(steps, reason) for _, steps, reason in run.windows] == [(1, WARM), (1, REGULAR)]
    assert run.cost <= 0.01 * run.now


def test_a_dear_window_whose_length_was_asked_for_is_opened_at_once() -> None:
    run = training(Options(window_steps=4))
    run.calls = 5_000
    run.run(100)

    assert [(steps, reason) for _, steps, reason in run.windows] == [(4, WARM)]


def test_a_dear_window_that_a_viewer_asks_for_is_opened_at_once(tmp_path: Path) -> None:
    page = bytearray(CONTROL_SIZE)
    (tmp_path / "control").write_bytes(page)
    run = training(spool=tmp_path)
    run.calls = 5_000
    run.run(100)
    page[0] = 1
    (tmp_path / "control").write_bytes(page)
    run.run(10)

    assert [reason for _, _, reason in run.windows] == [ASKED]
    run.plan.calls.count(10**9)
    assert not run.plan.calls.are_too_many
