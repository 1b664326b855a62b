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
