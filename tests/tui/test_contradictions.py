"""Options of a run that cannot be meant together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perftui_tui.commands.line import UsageError, parse
from perftui_tui.commands.run import launch_of


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.touch()
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--no-profile --shapes", "--no-profile records no windows, and --shapes needs them"),
        ("--no-profile --modules", "and --modules needs them: drop one of the two"),
        ("--no-profile --window 3", "and --window needs them"),
        ("--steps 10-12 --no-profile", "and --steps needs them"),
        ("--no-profile --nsys", "and --nsys needs them"),
        ("--nsys --memory", "--memory needs torch's own profiler, which --nsys"),
        ("--nsys --stacks", "--stacks needs torch's own profiler"),
        ("--steps 100 --max-steps 50", "ends the training before step 100 of --steps:"),
        ("--steps 50-52 --max-steps 50", "let it run longer, or name an earlier step"),
    ],
)
def test_what_contradicts_is_refused_with_what_to_do(script: str, words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        launch_of(parse([*words.split(), script]))


@pytest.mark.parametrize(
    "words",
    [
        "--no-profile --memory-snapshot --max-steps 5 --overhead 2%",
        "--steps 49 --max-steps 50 --shapes --stacks --memory --modules --nvtx",
        "--window 3 --memory-snapshot",
    ],
)
def test_what_goes_together_is_accepted(script: str, words: str) -> None:
    options = launch_of(parse([*words.split(), script])).options

    for word in words.split():
        if word in ("--shapes", "--stacks", "--memory", "--modules", "--memory-snapshot"):
            assert getattr(options, word[2:].replace("-", "_")) is True


def test_nsys_that_is_not_there_is_said_before_anything_starts(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="nsys not found; install Nsight Systems"):
        launch_of(parse(["--nsys", script]))


def test_nsys_can_mark_modules(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nsys"
    fake.write_text("#!/bin/sh\necho Version 2024.1.1 --capture-range-end repeat\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    options = launch_of(parse(["--nsys", "--modules", script])).options

    assert (options.nsys, options.modules) == (True, True)
