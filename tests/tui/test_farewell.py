"""What is said of a run after the app."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from perftui.experiments.journal import Proof
from perftui.experiments.verdict import Outcome
from perftui.run.layout import RunLayout
from perftui_tui.app import PerftuiApp
from perftui_tui.commands.farewell import achieved, farewell
from perftui_tui.dialogs.experiment import NOT_MEASURED
from tests.tui.recorded import write_run


def test_what_opens_by_itself_is_named_with_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = RunLayout(write_run(tmp_path, status="exited", exit_code=0))
    kept = [layout.rank(0).memory / "peak.pickle", layout.nsys / "steps.1.nsys-rep"]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.touch()
    farewell(layout.root, is_replay=True)

    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [
        f"  memory  perftui {shlex.quote(str(kept[0]))}",
        f"  nsys    perftui {shlex.quote(str(kept[1]))}",
    ]


def test_a_training_that_was_stopped_for_a_trial_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = {"status": "killed", "exit_code": 130, "stop_reason": "trial"}
    root = write_run(tmp_path, **stopped)
    RunLayout(root).output.write_text("Traceback\nKeyboardInterrupt\n")
    done = (("tried", "num_workers 0 -> 2: 2.10x faster (2.00 to 2.20)"),)
    assert farewell(root, is_replay=False, achieved=done) == 130
    assert capsys.readouterr().err.splitlines()[:3] == [
        "perftui: train.py was stopped for a trial (exit code 130)",
        "  tried   num_workers 0 -> 2: 2.10x faster (2.00 to 2.20)",
        f"  run     {root}",
    ]


def test_all_that_was_done_is_named_and_the_last_fix_is_undone_first() -> None:
    def written(file: str, title: str, gain: str, run: str) -> SimpleNamespace:
        applied, option = SimpleNamespace(path=f"/p/{file}"), SimpleNamespace(title=title)
        return SimpleNamespace(applied=applied, option=option, gain=gain, root=Path(run))

    proofs = [
        Proof("loader-workers", "num_workers 0 -> 1", Outcome.SLOWER, "1.25x slower", (), 1),
        Proof("anomaly-off", "anomaly detection off", Outcome.FASTER, "1.14x faster", (), 2),
    ]
    fixes = (
        written("train.py", "anomaly detection off", "1.14x faster", "/runs/a"),
        written("data.py", "pin_memory on", "", "/runs/b c"),
    )
    app = SimpleNamespace(
        trials=SimpleNamespace(
            proofs=SimpleNamespace(every=proofs), tuning=SimpleNamespace(state=None)
        ),
        source_fixes=SimpleNamespace(written=fixes),
    )
    assert list(achieved(cast("PerftuiApp", app))) == [
        ("tried", "num_workers 0 -> 1: 1.25x slower"),
        ("wrote", "/p/train.py: anomaly detection off, 1.14x faster"),
        ("wrote", f"/p/data.py: pin_memory on, {NOT_MEASURED}"),
        ("undo", "perftui undo '/runs/b c'  # restores data.py"),
        ("undo", "perftui undo /runs/a  # restores train.py"),
    ]
