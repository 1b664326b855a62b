"""`perftui runs --prune`: what it prints, deletes and leaves."""

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.experiments.removal import GOING, delete_run
from perftui.run.layout import RUNS_DIRECTORY, trials_of
from perftui_tui.cli import main
from perftui_tui.commands.line import UsageError, bytes_in, parse, seconds_in, share_in
from tests.ran import Capture, Patch, ran
from tests.tui.recorded import ENDED, START, write_run

OLD, NEW = "20231114-221320-train", "20231114-231320-train"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Two runs that have ended and one that goes on."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / RUNS_DIRECTORY
    old = write_run(directory, run_id=OLD, steps=20, **ENDED)
    write_run(trials_of(old), run_id="tried", steps=5, **ENDED)
    write_run(directory, run_id=NEW, steps=20, **{**ENDED, "started_ns": START + 10**9})
    write_run(directory, run_id="20231114-201320-going", steps=20, started_ns=START - 10**9)
    return directory


def test_it_prints_what_goes_and_deletes_it(runs: Path, capsys: Capture) -> None:
    assert main(["runs", "--prune", "--keep", "1", "--older-than", "9999w", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("0 runs would be deleted")
    first, second, last = ran(capsys, "runs", "--prune", "--keep", "1").out.splitlines()
    assert re.fullmatch(r"keep    20231114-201320-going: it still runs on node1, .*", first)
    assert re.fullmatch(rf"delete  {OLD} +[\d.]+ [KM]iB  ended .* train\.py", second)
    told = r"1 run deleted, [\d.]+ [KM]iB freed; 2 runs left, [\d.]+ [KM]iB"
    assert re.fullmatch(told, last)
    assert sorted(path.name for path in runs.iterdir()) == ["20231114-201320-going", NEW]
    assert list((runs.parent / "trials").iterdir()) == []
    assert main(["runs", "--prune", "--keep", "1"]) == 0
    assert "0 runs deleted, 0 B freed; 2 runs left" in capsys.readouterr().out


def test_a_dry_run_deletes_nothing(runs: Path, capsys: Capture) -> None:
    before = sorted(runs.parent.rglob("*"))
    printed = ran(capsys, "runs", "--prune", "--max-size", "0", "--dry-run").out
    assert "2 runs would be deleted, " in printed
    assert "1 run left" in printed
    assert sorted(runs.parent.rglob("*")) == before


def test_the_rest_of_an_interrupted_removal_goes_with_the_next(
    runs: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    assert main(["runs", "--prune", "--keep", "1"]) == 130
    monkeypatch.undo()
    left = [path.name for path in runs.iterdir() if path.name.startswith(GOING)]
    assert left == [f"{GOING}{OLD}"]
    capsys.readouterr()
    os.chdir(runs.parents[1])
    assert len(ran(capsys, "runs").out.splitlines()) == 3
    assert main(["runs", "--prune", "--keep", "9"]) == 0
    assert not [path for path in runs.parent.rglob("*") if path.name.startswith(GOING)]


def test_a_run_that_cannot_be_deleted_is_named_and_the_others_go(
    runs: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    def picky(root: Path) -> None:
        if root.name == OLD:
            raise PermissionError(13, "Permission denied", str(root))
        delete_run(root)

    monkeypatch.setattr("perftui_tui.commands.runs.delete_run", picky)
    printed = ran(capsys, "runs", "--prune", "--max-size", "1k", code=1)
    assert f"perftui: {OLD} was not deleted: [Errno 13] Permission denied" in printed.err
    assert "1 run deleted" in printed.out
    assert sorted(path.name for path in runs.iterdir()) == ["20231114-201320-going", OLD]


def test_another_directory_can_be_named(runs: Path, capsys: Capture) -> None:
    os.chdir("/")
    assert main(["runs", str(runs.parents[1]), "--prune", "--keep", "2"]) == 0
    assert "20231114-201320-going" in capsys.readouterr().out
    assert main(["runs", "--runs", str(runs), "--prune", "--keep", "1", "--dry-run"]) == 0
    assert f"delete  {OLD}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--prune"], "--prune needs a limit: --older-than 30d, --keep N or --max-size 5G"),
        (["--keep", "3"], "--keep says which runs are deleted: add --prune"),
        (["--prune", "--keep", "0"], "--keep needs a whole number above 0"),
        (["--prune", "--older-than", "a month"], "a time such as 12h, 30d or 8w, not 'a month'"),
        (["--prune", "--max-size", "5X"], "--max-size needs a size such as 500M or 5G, not '5X'"),
    ],
)
def test_what_cannot_be_meant_is_said(runs: Path, capsys: Capture, words, told) -> None:
    assert told in ran(capsys, "runs", *words, code=2).err
    assert len(list(runs.iterdir())) == 3


def test_a_directory_without_runs_has_nothing_to_prune(tmp_path: Path, capsys: Capture) -> None:
    assert main(["runs", "--runs", str(tmp_path / "no"), "--prune", "--keep", "1"]) == 0
    assert capsys.readouterr().out == "0 runs deleted, 0 B freed; 0 runs left, 0 B\n"


@given(st.integers(0, 999_999), st.sampled_from("smhdw"))
def test_times_are_read(number, unit) -> None:
    days = {"s": 1 / 86_400, "m": 1 / 1440, "h": 1 / 24, "d": 1, "w": 7}[unit]
    assert seconds_in(f"{number}{unit}") == pytest.approx(number * days * 86_400)
    line = parse(["runs", "--older-than", f"{number}{unit}"])
    assert line.values == {"older-than": seconds_in(f"{number}{unit}")}


@given(st.integers(0, 10**9), st.sampled_from(["", "K", "M", "G", "T"]), st.booleans())
def test_sizes_are_read(number, unit, lower) -> None:
    power = ["", "K", "M", "G", "T"].index(unit)
    for ending in ("", "B", "iB" if unit else "B"):
        text = f"{number}{unit}{ending}"
        assert bytes_in(text.lower() if lower else text) == number * 1024**power


@given(st.integers(0, 99_999))
def test_shares_are_read(hundredths) -> None:
    text = f"{hundredths / 100:.2f}"
    assert share_in(f"{text}%") == share_in(text) == pytest.approx(hundredths / 10_000)


@pytest.mark.parametrize(
    ("command", "option", "read"),
    [
        ("runs", "older-than", seconds_in),
        ("runs", "max-size", bytes_in),
        ("check", "max-regression", share_in),
    ],
)
@given(text=st.text())
def test_other_words_are_refused_and_nothing_else_happens(command, option, read, text) -> None:
    try:
        line = parse([command, f"--{option}={text}"])
    except UsageError:
        assert read(text) is None
    else:
        assert line.values == {option: read(text)} != {option: None}
