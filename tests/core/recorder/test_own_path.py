"""What lies on the training's PYTHONPATH never stands in for modules of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from perftui.own_path import look_there_last
from perftui.run.manifest import Status

Starter = Any
"""``Starter`` of this directory's conftest, which cannot be imported by name."""


def test_only_what_pythonpath_names_moves_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs, relative = str(tmp_path / "theirs"), str(tmp_path / "lib")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([theirs, "lib"]))
    monkeypatch.setattr(sys, "path", [theirs, relative, "/stdlib", "/site"])
    look_there_last()
    assert sys.path == ["/stdlib", "/site", theirs, relative]


def test_nothing_moves_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", ["/b", "", "/a"])
    look_there_last()
    assert sys.path == ["/b", "", "/a"]


@pytest.mark.subprocess
def test_a_run_is_recorded_beside_modules_that_have_our_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_script: Starter
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("typing", "psutil", "msgspec"):
        (theirs / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.setenv("PYTHONPATH", str(theirs))
    run = run_script("import os; print(os.environ['PYTHONPATH'].split(os.pathsep)[1:])")
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.EXITED, 0)
    assert run.output == f"['{theirs}']\r\n"
