"""What is said of a run after the app."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from perftui.run.layout import RunLayout
from perftui_tui.commands.farewell import farewell
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
