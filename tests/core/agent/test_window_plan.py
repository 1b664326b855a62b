"""Windows of a whole training, by a fake clock."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.agent.recording.steps import EVAL, INFER, TRAIN, Boundary
from perftui.agent.windows.budget import ASKED, CHOSEN, REGULAR, WARM
from perftui.agent.windows.plan import (
    LONG_EVALUATION,
    LONG_GAP,
    MOST_ATTEMPTS,
    MOST_WAIT_NS,
    WindowPlan,
)
from perftui.wire.control_page import SIZE
from perftui.wire.spool import AgentOptions

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
    tells: bool = False
    """Whether the call that ends the step has gradients."""
    usual: int = 30 * MS
    calls: int = 40
    """Of modules, in each step."""
    now: int = 0
    number: int = 0
    cost: int = 0
    windows: list[tuple[int, int, str]] = field(default_factory=list)
    """First step, steps, reason."""
    kinds: list[str] = field(default_factory=list)
    """Of all steps."""
    retries: list[bool] = field(default_factory=list)
    """Of each window that was cut short, whether another follows at once."""
    _first: int | None = None
    _is_prepared: bool = False
    _left: int = 0
    _waited: int = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def loop(self, runs: Iterable[tuple[int, int]], *, tells: bool) -> None:
        """Runs of training steps with gaps of evaluation or generation between.

        ``tells`` says whether the step after a gap begins with a call with gradients."""
        for run, gap in runs:
            self.kind = TRAIN
            self.run(run)
            self.kind = EVAL
            self.run(gap - 1)
            self.tells = tells
            self.run(1)
            self.tells = False

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

    def inside(self) -> list[list[str]]:
        """The kinds of the steps of each window."""
        return [self.kinds[first : first + steps] for first, steps, _ in self.windows]

    def _step(self) -> None:
        is_open = self._first is not None
        duration = self.usual + self._waited + (self.slowed if is_open else 0)
        self.cost += self.hooks + self._waited + (self.slowed if is_open else 0)
        self._waited = 0
        self.now += duration
        self.number += 1
        self.plan.calls.count(self.calls)
        ended = Boundary(self.kind, self.now, 1, trains_next=self.tells)
        self.kinds.append(self.kind)
        self.plan.step(ended, duration, self.hooks, is_open)
        if self._first is not None:
            self._left -= 1
            if not self._left:
                self._finish(self._first)
        elif self._is_prepared or self.plan.is_due(self.number):
            if not self._is_prepared:
                self.plan.begin()
            if self.plan.may_start(self.number, self._is_prepared):
                self._first, self._left = self.number, self.plan.start()
                self._is_prepared = False
            elif self._is_prepared and not self.plan.may_stay:
                self.plan.put_back()
                self._is_prepared = False
            else:
                self._is_prepared = True

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


def training(options: AgentOptions | None = None, spool: Path = Path("/nowhere")) -> Training:
    return Training(WindowPlan(spool, options or AgentOptions()))


def request(spool: Path, number: int = 1) -> None:
    """Ask for a window, as a viewer does, or begin a page on which none is asked for."""
    page = bytearray(SIZE)
    page[0] = number
    (spool / "control").write_bytes(page)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.002, 0.01, 0.05])
def test_all_windows_of_a_run_and_the_hooks_together_stay_within_the_budget(share: float) -> None:
    run = training(AgentOptions(overhead=share))
    run.hooks = 30_000
    run.run(40_000)

    assert len(run.windows) > 5
    assert run.cost <= share * run.now


@pytest.mark.slow
@pytest.mark.parametrize("hooks", [0, 2000])
def test_steps_that_are_reported_together_count_as_one_by_one(hooks: int) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "steps"), [(None, 1), (7, 7)])
def test_steps_that_are_dear_to_save_are_recorded_one_by_one_but_for_an_explicit_number(
    asked: int | None, steps: int
) -> None:
    run = training(AgentOptions(window_steps=asked))
    run.stall = 40 * MS
    run.run(20_000)

    assert len(run.windows) > 2
    assert {length for _, length, _ in run.windows} == {steps}


def test_a_chosen_step_is_the_only_one() -> None:
    run = training(AgentOptions(first_step=40))
    run.run(2_000)

    assert [(first, reason) for first, _, reason in run.windows] == [(40, CHOSEN)]


def test_windows_that_are_always_cut_short_are_tried_few_times() -> None:
    run = training()
    run.cut_short = True
    run.run(300)

    assert run.retries == [True] * (MOST_ATTEMPTS - 1) + [False]


def test_a_request_is_served_at_once(tmp_path: Path) -> None:
    request(tmp_path, 0)
    run = training(spool=tmp_path)
    run.run(600)
    before, asked = len(run.windows), run.number
    request(tmp_path)
    run.run(5)

    assert len(run.windows) == before + 1
    assert run.windows[-1] == (asked + 2, 2, ASKED)


@pytest.mark.slow
def test_a_script_that_never_trains_gets_the_windows_of_one_that_does() -> None:
    run, trains = training(), training()
    run.kind = INFER
    run.hooks = trains.hooks = 30_000
    run.run(40_000)
    trains.run(40_000)

    assert run.windows == trains.windows
    assert run.windows[0][2] == WARM
    assert run.cost <= 0.01 * run.now


@pytest.mark.slow
def test_a_script_with_an_optimizer_that_evaluates_for_long_is_looked_at() -> None:
    run = training()
    run.kind = EVAL
    run.run(LONG_EVALUATION)
    early = list(run.windows)
    run.run(40_000)

    assert early == []
    assert run.windows[0][2] == WARM
    assert run.cost <= 0.01 * run.now


@pytest.mark.slow
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

    # The first three steps that are alike, and one more to prepare.
    assert checked == 1
    assert run.windows[1][2] == WARM
    assert began + 3 < run.windows[1][0] < began + 50
    assert run.cost <= 0.01 * run.now


def test_a_first_window_that_would_be_dear_is_earned_first() -> None:
    run = training()
    run.calls, run.slowed, run.stall = 5_000, 200 * MS, 250 * MS
    run.run(1_600)
    assert run.plan.triggers.is_postponed
    assert run.plan.can_wait
    assert run.windows == []
    run.run(2_000)

    assert not run.plan.triggers.is_postponed
    assert [(steps, reason) for _, steps, reason in run.windows] == [(1, WARM), (1, REGULAR)]
    assert run.cost <= 0.01 * run.now


def test_a_dear_window_whose_length_was_asked_for_is_opened_at_once() -> None:
    run = training(AgentOptions(window_steps=4))
    run.calls = 5_000
    run.run(100)

    assert [(steps, reason) for _, steps, reason in run.windows] == [(4, WARM)]


def test_a_dear_window_that_a_viewer_asks_for_is_opened_at_once(tmp_path: Path) -> None:
    request(tmp_path, 0)
    run = training(spool=tmp_path)
    run.calls = 5_000
    run.run(100)
    request(tmp_path)
    run.run(10)

    assert [reason for _, _, reason in run.windows] == [ASKED]
    run.plan.calls.count(10**9)
    assert not run.plan.calls.are_too_many


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 24),
    st.integers(1, 90),
    st.booleans(),
    st.sampled_from([4, 700]),
    st.sampled_from([None, 1, 3]),
)
def test_in_a_loop_of_runs_alike_windows_hold_nothing_but_training(
    length: int, gap: int, tells: bool, milliseconds: int, window_steps: int | None
) -> None:
    run = training(AgentOptions(overhead=0.5, window_steps=window_steps))
    run.usual = milliseconds * MS
    run.loop([(length, gap)] * 12, tells=tells)
    learnt = len(run.windows)
    # Past the pause, whatever has been by then.
    turns = 3 + 40_000 // (milliseconds * (length + gap))
    run.loop([(length, gap)] * turns, tells=tells)

    assert run.windows[learnt:]
    assert all(run.kinds[first] == TRAIN for first, _, _ in run.windows[learnt:])
    if window_steps is None:
        assert {kind for kinds in run.inside()[learnt:] for kind in kinds} == {TRAIN}
    else:
        # Asked for, so it holds.
        assert {steps for _, steps, _ in run.windows} == {window_steps}


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), min_size=60, max_size=60))
def test_where_calls_tell_no_window_begins_within_a_gap(turns: list[tuple[int, int]]) -> None:
    run = training(AgentOptions(overhead=0.5))
    run.usual = 900 * MS
    run.loop(turns, tells=True)
    inside = [first for first, _, _ in run.windows if run.kinds[first - 1] == EVAL]

    assert [run.kinds[first] for first in inside] == [TRAIN] * len(inside)
    assert len(run.windows) > 2


@pytest.mark.parametrize("together", [1, 6, 36])
def test_steps_that_are_reported_together_count_for_the_length_of_runs(together: int) -> None:
    run = training(AgentOptions(overhead=0.5))
    for _ in range(200):
        run.kind = TRAIN
        began = run.number
        while run.number - began < 40:
            # The fast path tells of the last one when a loader of another kind begins.
            run.run_together(1, min(together, 39 - (run.number - began)) or 1)
            run.kinds += [TRAIN] * (run.number - len(run.kinds))
        run.kind = EVAL
        run.run(10)
    later = [first for first, _, _ in run.windows if first > 4 * 50]

    assert len(later) > 5
    assert {kind for kinds in run.inside()[-len(later) :] for kind in kinds} == {TRAIN}


def test_runs_that_are_each_one_step_between_gaps_of_any_length_are_met_in_the_end() -> None:
    run = training()
    run.loop([(1, 2 + number % 3) for number in range(200)], tells=False)

    assert len(run.windows) > 1


def test_a_window_that_the_first_validation_took_is_followed_by_another() -> None:
    run = training(AgentOptions(overhead=0.5, window_steps=1))
    run.usual = 200 * MS
    run.run(5)
    assert not run.windows
    run.loop([(1, 30), (400, 1)], tells=False)

    (first, *_), (second, *_) = run.windows[:2]
    assert run.inside()[0] == [EVAL]
    assert run.kinds[second] == TRAIN
    # And no pause between.
    assert second - first < 30 + 40


def test_a_request_within_a_gap_is_served_where_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "control").write_bytes(bytes(SIZE))
    run = training(spool=tmp_path)
    run.loop([(1, 300)] * 5, tells=True)
    request(tmp_path)
    before, asked = len(run.windows), run.number
    run.kind = TRAIN
    run.run(1)
    run.kind = EVAL
    run.run(299)
    run.tells = True
    run.run(1)
    run.kind, run.tells = TRAIN, False
    run.run(3)

    assert run.windows[before:] == [(asked + 301, 1, ASKED)]


@pytest.mark.parametrize("milliseconds", [200, 5_000])
@pytest.mark.parametrize("is_another_wanted", [False, True])
def test_a_request_does_not_wait_for_long(
    tmp_path: Path, milliseconds: int, is_another_wanted: bool
) -> None:
    (tmp_path / "control").write_bytes(bytes(SIZE))
    run = training(AgentOptions(overhead=0.5), spool=tmp_path)
    run.loop([(20, 10)] * 5, tells=False)
    run.kind = EVAL
    # With the pause over, or before.
    run.run(720 if is_another_wanted else 1)
    before, asked = len(run.windows), run.number
    request(tmp_path)
    run.usual = milliseconds * MS
    while len(run.windows) == before:
        run.run(1)

    ((first, _, reason),) = run.windows[before:]
    assert reason == ASKED
    # It is seen when a step ends, and prepared and opened when others do.
    assert MOST_WAIT_NS < (first - asked) * run.usual <= MOST_WAIT_NS + 3 * run.usual


def test_a_script_that_has_trained_and_only_evaluates_from_then_on_gets_windows_too() -> None:
    run = training()
    run.run(300)
    trained = len(run.windows)
    run.kind = EVAL
    run.run(LONG_GAP)
    assert len(run.windows) == trained
    run.run(20_000)

    assert len(run.windows) > trained + 1
    assert run.cost <= 0.01 * run.now


@pytest.mark.slow
def test_the_first_window_of_a_training_is_on_credit_though_one_of_before_was() -> None:
    run = training()
    run.kind, run.usual, run.hooks = EVAL, MS, 100_000
    run.run(2 * LONG_EVALUATION)
    assert [reason for *_, reason in run.windows] == [WARM]
    run.loop([(1, 2 * LONG_EVALUATION)] * 15, tells=True)

    # The hooks alone take ten times the budget: none is ever earned.
    assert [reason for *_, reason in run.windows] == [WARM, WARM]
    assert run.inside()[1] == [TRAIN]
