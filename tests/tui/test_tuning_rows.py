"""How a tuning is shown at each of its stages: the ladder, what is tried now, and what stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.journal import Attempt, Journal, Kept
from perftui.experiments.trial_runs import NextRun, Purpose
from perftui.fixes.model import FixOption
from perftui_tui.dialogs.experiment import TUNING
from perftui_tui.look.rows import plain, width
from perftui_tui.panes.experiments import tuning_line, tuning_rows
from perftui_tui.reading.experiment_state import Stage, TrialState, TuningState
from tests.tui.fake_trial import FASTER, progress_of

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
BEGUN = TuningState(80, 10.0, root=Path("run"), began=100.0)
CURRENT = TrialState(
    FixOption("optimizer-fused", "fused=True", ""),
    80,
    10.0,
    root=Path("run"),
    began=150.0,
    progress=progress_of(*FASTER[:2]),
    run=NextRun(Purpose.PAIR, 3),
    run_began=200.0,
    made=(
        (NextRun(Purpose.WARM_UP), 10.0),
        *((NextRun(Purpose.PAIR, n), 10.0) for n in (1, 1, 2, 2)),
    ),
)
CLIMBED = replace(BEGUN, journal=JOURNAL)
TRYING = replace(CLIMBED, trial=CURRENT)
TUNED = replace(CLIMBED, stage=Stage.DONE, ended=400.0, final=progress_of(*FASTER))


def shown(state: TuningState, cells: int = 62) -> list[str]:
    return [plain(line).rstrip() for line in tuning_rows(state, 200.0, cells)]


def test_the_ladder_says_what_each_fix_came_to() -> None:
    assert shown(TRYING)[:10] == [
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
    below = "\n".join(shown(TRYING)[10:])
    assert "pair 3 of 6   2.05x faster" in below
    assert "1      300 ms      150 ms    2.00x" in below


def test_at_the_end_all_of_it_stands_on_top_of_the_ladder() -> None:
    lines = shown(TUNED)
    assert lines[:2] == ["2.10x faster (2.00 to 2.20) with all fixes", "3 tried, 2 kept in 5:00"]
    assert "  2.10x  all fixes together   2.10x faster (2.00 to 2.20)" in lines
    assert "written to train.py; u undoes it, the last fix first" in lines
    keys = [choice.keys[0] for choice in TUNING.choices(TUNED)]
    assert keys == ["escape", "o", "u"]


def test_where_nothing_is_kept_there_is_nothing_to_open_or_take_back() -> None:
    state = replace(TUNED, journal=Journal("run", "run", (PINNED,)), final=None)
    assert shown(state)[0] == "nothing was kept: no fix is proven here"
    assert [choice.keys[0] for choice in TUNING.choices(state)] == ["escape"]


def test_what_was_not_recorded_yet_is_not_offered_to_be_opened() -> None:
    journal = Journal("run", "run", (WORKERS,), is_recorded=False)
    state = replace(TUNED, stage=Stage.STOPPED, journal=journal, final=None)
    assert [choice.keys[0] for choice in TUNING.choices(state)] == ["escape", "u"]


def test_a_budget_says_how_long_fixes_are_still_begun() -> None:
    assert "about 13 min until no further fix is started" in " ".join(
        shown(replace(TRYING, budget=900.0))
    )
    assert "time up" in " ".join(shown(replace(TRYING, budget=60.0)))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (BEGUN, "looking for fixes to try"),
        (replace(BEGUN, stage=Stage.WAITING), "waiting for the running training to stop"),
        (replace(CLIMBED, keeping="x on"), "proven: x on; recording the training with it"),
        (replace(TRYING, stage=Stage.STOPPING), "stopping the training"),
        (replace(CLIMBED, stage=Stage.STOPPED, ended=300.0), "stopped: proven fixes stay"),
        (replace(BEGUN, stage=Stage.STOPPED, ended=1.0), "stopped: nothing proven so far"),
        (replace(CLIMBED, stage=Stage.FAILED, ended=1.0, problem="no disk"), "failed: no disk"),
        (TUNED, "2.10x faster (2.00 to 2.20) with all fixes"),
    ],
)
def test_each_stage_says_what_it_is(state: TuningState, words: str) -> None:
    assert words in " ".join(shown(state))
    assert words in plain(tuning_line(state, 200.0, 160))
    for cells in (49, 80, 200):
        assert width(tuning_line(state, 200.0, cells)) == cells
        assert all(width(line) <= cells for line in tuning_rows(state, 200.0, cells))


def test_the_line_names_the_fix_that_is_tried() -> None:
    line = plain(tuning_line(TRYING, 200.0, 120))
    assert line.startswith(" tuning  fused=True  pair 3 of 6   2.05x faster so far   about ")
    assert line.rstrip().endswith("X shows it")
    assert "2 kept   1:40" in line
