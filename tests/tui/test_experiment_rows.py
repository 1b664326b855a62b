"""How a trial by pairs is shown at each of its stages, and how long it is said to take."""

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.job import Job
from perftui.experiments.journal import Attempt, Journal, Kept
from perftui.experiments.trial_runs import NO_PAIRS, Arm, NextRun, Progress, Purpose
from perftui.experiments.trial_verdict import Outcome, TrialVerdict
from perftui.facts.data_loader.loader import CurvePoint
from perftui.fixes.option import FixOption
from perftui_tui.actions.experiment import Tuning
from perftui_tui.look.rows import plain, width
from perftui_tui.panes.experiments import (
    seconds_left,
    trial_line,
    trial_rows,
    tuning_line,
    tuning_rows,
)
from perftui_tui.reading.experiment_state import Stage, TrialPlan, TrialState, TuningState
from tests.tui.fake_trial import FASTER, UNCLEAR, progress_of


def test_a_trial_that_loses_says_so_before_it_is_over() -> None:
    words = "slower in every pair so far: stop it unless you expect more"
    assert words in trial_shown(after(0.8, 0.75, 0.9))
    for ratios in ((0.8, 0.75), (0.8, 1.1, 0.9), FASTER[:3]):
        assert words not in trial_shown(after(*ratios))


CURVE = (CurvePoint(1, 12_000_000), CurvePoint(2, 7_000_000))

OPTION = FixOption("loader-workers", "num_workers 0 -> 4", "")
JOB = Job("run", OPTION, 80, 100 * 10**9)
BEGUN = TrialState(JOB, TrialPlan(80, 10.0), root=Path("run"), began=100.0)


WARM_UP, BLOCKS = NextRun(Purpose.WARM_UP), NextRun(Purpose.BLOCKS)


def run_of(pair: int, arm: Arm = Arm.BEFORE) -> NextRun:
    return NextRun(Purpose.PAIR, pair, arm)


def begin(state: TrialState, *runs: NextRun, each: float = 10.0) -> TrialState:
    """The trial while the last of ``runs`` is made; each took so many seconds."""
    for at, run in enumerate(runs):
        state = at_run(state, run, BEGUN.began + at * each)
    return state


def at_run(state: TrialState, run: NextRun, now: float) -> TrialState:
    return replace(state, job=state.job.begin_run(run, round(now * 1e9)))


def with_progress(state: TrialState, progress: Progress) -> TrialState:
    return replace(state, job=replace(state.job, progress=progress))


def after(*ratios: float, each: float = 10.0, **changes: object) -> TrialState:
    """A trial with pairs of these ratios, whose runs took ``each`` seconds."""
    numbers = range(1, len(ratios) + 1)
    pairs = [run_of(number, arm) for number in numbers for arm in Arm]
    made = begin(BEGUN, WARM_UP, *pairs, run_of(len(ratios) + 1), each=each)
    return replace(with_progress(made, progress_of(*ratios)), **changes)


def trial_shown(state: TrialState, now: float = 200.0, cells: int = 62) -> list[str]:
    return [plain(line).rstrip() for line in trial_rows(state, now, cells)]


def test_nothing_is_known_before_the_first_pair() -> None:
    lines = trial_shown(BEGUN, 110.0)
    assert lines[:3] == [
        "num_workers 0 -> 4",
        "starting the first run",
        "0:10 so far; about 2 min to pair 6, up to pair 14 if not clear",
    ]
    assert "80 steps" in " ".join(lines)
    assert not any("ratio" in line for line in lines)
    assert "3:20 so far; the result soon" in trial_shown(BEGUN, 300.0)
    lines = trial_shown(replace(BEGUN, plan=TrialPlan(80)))
    assert "1:40 so far; time left is known after the first run" in lines


@pytest.mark.parametrize(
    ("run", "in_full", "in_a_row"),
    [
        (NextRun(Purpose.WORKERS, workers=2), "trying 2 workers", "trying 2 workers"),
        (WARM_UP, "warm-up run, not counted", "warm-up run"),
        (run_of(1), "pair 1, the run without the fix", "pair 1 of 6"),
        (run_of(1, Arm.AFTER), "pair 1, the run with the fix", "pair 1 of 6"),
        (BLOCKS, "a run that switches the fix on and off", "pair 1 of 6"),
        (NextRun(Purpose.LOSSES), "another run without the fix, to compare losses", "pair 1 of 6"),
    ],
)
def test_the_run_that_is_made_is_named(run: NextRun, in_full: str, in_a_row: str) -> None:
    state = begin(BEGUN, run)
    assert in_full in trial_shown(state, 110.0)
    assert f"{in_full}, step 43 of 115" in trial_shown(replace(state, run_step=(43, 115)), 110.0)
    assert in_a_row in plain(trial_line(state, 110.0, 120))


def test_beside_pairs_the_run_is_named_too() -> None:
    state = at_run(after(2.0), run_of(2, Arm.AFTER), 140.0)
    assert "pair 2, the run with the fix" in " ".join(trial_shown(state, 110.0))


COUNTED = "a step takes 12 ms with 1 worker, 7.0 ms with 2"


def test_how_many_workers_serve_best_is_shown_before_the_pairs_and_with_them() -> None:
    counting = with_progress(BEGUN, replace(NO_PAIRS, workers=CURVE))
    assert COUNTED in trial_shown(counting, 130.0)
    beside = trial_shown(replace(counting, plan=TrialPlan(80, 10.0, step_ns=6.6e6)), 130.0)
    assert f"{COUNTED}; it took 6.6 ms in the recorded run" in " ".join(beside)
    chosen = f"{COUNTED}: 2 is the fastest"
    pairs = after(*FASTER[:2])
    found = replace(pairs.job.progress, workers=CURVE, option=OPTION)
    assert chosen in " ".join(trial_shown(with_progress(pairs, found)))


IN_BLOCKS = replace(BEGUN, plan=TrialPlan(80, 10.0, pairs_of_run=3))
"""Two runs make six pairs."""


def of_blocks(*ratios: float, runs: tuple[NextRun, ...], each: float = 12.0) -> TrialState:
    progress = replace(progress_of(*ratios), block_steps=33, noise=0.013)
    return with_progress(begin(IN_BLOCKS, *runs, each=each), progress)


LOSSES = NextRun(Purpose.LOSSES)


def counting(workers: int, further: int) -> NextRun:
    return NextRun(Purpose.WORKERS, workers=workers, further=further)


@pytest.mark.parametrize(
    ("state", "now", "left"),
    [
        # Thirteen runs of 10 s from the start.
        (BEGUN, 100.0, 130.0),
        (BEGUN, 115.0, 115.0),
        (replace(BEGUN, plan=TrialPlan(80)), 160.0, None),
        # Two numbers of workers first, four at most.
        (replace(BEGUN, plan=TrialPlan(80, 10.0, numbers_of_workers=4)), 100.0, 170.0),
        (begin(BEGUN, counting(1, 3)), 104.0, 36.0 + 130.0),
        (begin(BEGUN, counting(1, 3), counting(2, 2), each=6.0), 107.0, 5.0 + 2 * 6.0 + 130.0),
        (begin(BEGUN, counting(1, 3), counting(2, 2), WARM_UP, each=6.0), 112.0, 130.0),
        # The first run takes longer than thought: so will the others.
        (begin(BEGUN, WARM_UP), 104.0, 126.0),
        (begin(BEGUN, WARM_UP), 120.0, 12 * 20.0),
        # The runs themselves are believed rather than the one that was recorded.
        (after(*FASTER[:2], each=20.0), 200.0, 8 * 20.0),
        (after(*FASTER[:5], each=20.0), 330.0, 30.0),
        (at_run(after(*FASTER[:5]), run_of(6, Arm.AFTER), 220.0), 224.0, 6.0),
        (after(*UNCLEAR), 230.0, 60.0),
        (IN_BLOCKS, 100.0, 20.0),
        (IN_BLOCKS, 104.0, 16.0),
        (of_blocks(*FASTER[:3], runs=(BLOCKS, BLOCKS)), 112.0, 12.0),
        (of_blocks(*FASTER[:3], runs=(BLOCKS, BLOCKS)), 120.0, 4.0),
        # Both runs are over, and one more tells whether losses repeat.
        (of_blocks(*FASTER[:3], runs=(BLOCKS, BLOCKS, LOSSES)), 128.0, 8.0),
        # Blocks did not tell: pairs of runs begin anew.
        (of_blocks(*UNCLEAR, runs=(BLOCKS, BLOCKS, WARM_UP)), 124.0, 13 * 12.0),
    ],
)
def test_the_time_that_is_left_is_that_of_the_runs(
    state: TrialState, now: float, left: float | None
) -> None:
    assert seconds_left(state, now) == left


def test_pairs_of_blocks_are_told_as_such() -> None:
    assert "switches the fix on and off" in " ".join(trial_shown(IN_BLOCKS))
    told = " ".join(trial_shown(of_blocks(*FASTER, runs=(BLOCKS, BLOCKS))))
    assert "pairs of blocks of 33 steps within 1 run; two identical blocks differ by" in told


def test_an_estimate_says_what_is_still_needed_and_calls_nothing_slower_faster() -> None:
    lines = trial_shown(after(*UNCLEAR, 1.0))
    assert "1.05x so far, unclear (0.90 to 1.20): 2 more pairs needed" in lines
    numbers = [line.split()[0] for line in lines if line.endswith("x") and " ms " in line]
    assert numbers == ["7", "6", "5", "4", "3", "2", "1"]
    assert "2.00x slower so far: 4 more pairs needed" in trial_shown(after(0.5, 0.5))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (after(stage=Stage.WAITING), "waiting for the running training to stop"),
        (after(1.1, stage=Stage.STOPPING), "stopping the training"),
        (after(1.1, stage=Stage.STOPPED, ended=150.0), "stopped after 1 pair"),
        (
            after(*UNCLEAR, stage=Stage.STOPPED, ended=150.0),
            "stopped after 6 pairs: 1.05x so far, unclear (0.90 to 1.20)",
        ),
        (after(stage=Stage.FAILED, ended=150.0, problem="no disk"), "failed: no disk"),
        (after(*FASTER, stage=Stage.DONE, ended=150.0), "2.10x faster (2.00 to 2.20)"),
    ],
)
def test_each_stage_says_what_it_is(state: TrialState, words: str) -> None:
    assert words in " ".join(trial_shown(state))
    assert words in plain(trial_line(state, 200.0, 160))
    # A dialog has 49 cells in the narrowest terminal.
    for cells in (49, 80, 200):
        assert width(trial_line(state, 200.0, cells)) == cells
        assert all(width(line) <= cells for line in trial_rows(state, 200.0, cells))


def test_a_failure_does_not_hide_what_was_measured_before() -> None:
    state = after(*UNCLEAR, stage=Stage.FAILED, ended=300.0, problem="exit code 1")
    lines = " ".join(trial_shown(state))
    assert "before that: 1.05x so far, unclear (0.90 to 1.20)" in lines
    assert lines.count("exit code 1") == 1


def test_a_change_that_did_not_arrive_is_told_in_words() -> None:
    verdict = TrialVerdict(Outcome.NO_EFFECT, "no effect: num_workers was refused")
    progress = replace(progress_of(1.0, notes=("the host was busy: stress",)), verdict=verdict)
    lines = trial_shown(with_progress(replace(BEGUN, stage=Stage.DONE, ended=150.0), progress))
    assert "no effect: num_workers was refused" in lines
    assert "the host was busy: stress" in lines


WORKERS = Attempt(
    "loader-workers",
    "num_workers 0 -> 4",
    "faster",
    "2.10x faster (2.00 to 2.20)",
    2.1,
    kept=Kept.WRITTEN,
    path="/p/train.py",
)
PINNED = Attempt("loader-pin", "pin_memory", "no difference", "no difference (0.99 to 1.01)", 1.0)
THREADS = Attempt(
    "threads",
    "OMP_NUM_THREADS 16 -> 1",
    "faster",
    "1.50x faster (1.40 to 1.60)",
    1.5,
    kept=Kept.OVERRIDE,
    advice="OMP_NUM_THREADS=1",
)
JOURNAL = Journal("run", "run", (WORKERS, PINNED, THREADS))
NOTHING = Journal("run", "run")
TUNING_BEGUN = TuningState(TrialPlan(80, 10.0), NOTHING, root=Path("run"), began=100.0)
FUSED = FixOption("optimizer-fused", "fused=True", "")
MADE = ((WARM_UP, 10.0), *((run_of(number), 10.0) for number in (1, 1, 2, 2)))
CURRENT = replace(
    BEGUN,
    job=replace(
        JOB,
        option=FUSED,
        progress=progress_of(*FASTER[:2]),
        run=run_of(3),
        run_began_ns=200 * 10**9,
        made=MADE,
    ),
    began=150.0,
)
CLIMBED = replace(TUNING_BEGUN, journal=JOURNAL)
TRYING = replace(CLIMBED, trial=CURRENT)
TUNED = replace(CLIMBED, stage=Stage.DONE, ended=400.0, final=progress_of(*FASTER))


def tuning_shown(state: TuningState, cells: int = 62) -> list[str]:
    return [plain(line).rstrip() for line in tuning_rows(state, 200.0, cells)]


def test_the_ladder_says_what_each_fix_came_to_and_all_of_them_together() -> None:
    assert tuning_shown(TRYING)[:10] == [
        "trying fused=True",
        "1:40 so far; 3 tried, 2 kept",
        "",
        "  1.00x  as it was",
        "  2.10x  + num_workers 0 -> 4   2.10x faster (2.00 to 2.20)",
        "       - pin_memory   no difference (0.99 to 1.01)",
        # The title and what it came to do not fit in one row.
        "  3.15x  + OMP_NUM_THREADS 16 -> 1",
        "           1.50x faster (1.40 to 1.60)",
        "           not in the source; by hand: OMP_NUM_THREADS=1",
        "   now   fused=True",
    ]
    below = "\n".join(tuning_shown(TRYING)[10:])
    assert "pair 3 of 6   2.05x faster" in below
    assert "1      300 ms      150 ms    2.00x" in below
    # At the end all of it stands on top.
    lines = tuning_shown(TUNED)
    assert lines[:2] == ["2.10x faster (2.00 to 2.20) with all fixes", "3 tried, 2 kept in 5:00"]
    assert "  2.10x  all fixes together   2.10x faster (2.00 to 2.20)" in lines
    assert "written to train.py; u undoes it, the last fix first" in lines
    assert keys_after(TUNED) == ["escape", "o", "u"]


def keys_after(state: TuningState) -> list[str]:
    return [choice.keys[0] for choice in Tuning(None, None, None).choices(state)]


def test_what_is_not_there_is_not_offered_to_be_opened_or_taken_back() -> None:
    state = replace(TUNED, journal=Journal("run", "run", (PINNED,)), final=None)
    assert tuning_shown(state)[0] == "nothing was kept: no fix is proven here"
    assert keys_after(state) == ["escape"]
    journal = Journal("run", "run", (WORKERS,), is_recorded=False)
    state = replace(TUNED, stage=Stage.STOPPED, journal=journal, final=None)
    assert keys_after(state) == ["escape", "u"]


def test_a_budget_says_how_long_fixes_are_still_begun() -> None:
    assert "about 13 min until no further fix is started" in " ".join(
        tuning_shown(replace(TRYING, budget=900.0))
    )
    assert "time up" in " ".join(tuning_shown(replace(TRYING, budget=60.0)))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (TUNING_BEGUN, "looking for fixes to try"),
        (replace(TUNING_BEGUN, stage=Stage.WAITING), "waiting for the running training to stop"),
        (replace(CLIMBED, keeping="x on"), "proven: x on; recording the training with it"),
        (replace(TRYING, stage=Stage.STOPPING), "stopping the training"),
        (replace(CLIMBED, stage=Stage.STOPPED, ended=300.0), "stopped: proven fixes stay"),
        (replace(TUNING_BEGUN, stage=Stage.STOPPED, ended=1.0), "stopped: nothing proven so far"),
        (replace(CLIMBED, stage=Stage.FAILED, ended=1.0, problem="no disk"), "failed: no disk"),
        (TUNED, "2.10x faster (2.00 to 2.20) with all fixes"),
    ],
)
def test_each_stage_of_a_tuning_says_what_it_is(state: TuningState, words: str) -> None:
    assert words in " ".join(tuning_shown(state))
    assert words in plain(tuning_line(state, 200.0, 160))
    for cells in (49, 80, 200):
        assert width(tuning_line(state, 200.0, cells)) == cells
        assert all(width(line) <= cells for line in tuning_rows(state, 200.0, cells))


def test_the_line_names_the_fix_that_is_tried() -> None:
    line = plain(tuning_line(TRYING, 200.0, 120))
    assert line.startswith(" tuning  fused=True  pair 3 of 6   2.05x faster so far   about ")
    assert line.rstrip().endswith("X shows it")
    assert "2 kept   1:40" in line
