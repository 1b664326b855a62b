"""Fixes without a screen: written, taken back, tried, and two runs compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perftui.experiments.journal import read_proof
from perftui.experiments.verdict import Outcome
from perftui.run.layout import trials_of
from perftui_tui.cli import main
from perftui_tui.commands.line import DIAGNOSE, UsageError, parse
from perftui_tui.commands.output import code_of
from tests.described import described
from tests.tui.fake_trial import FASTER, FakeTrial
from tests.tui.recorded import ENDED, SCRIPT, write_run
from tests.tui.traces import write_trace

OTHER = "20231114-231320-train"


@pytest.fixture
def run(tmp_path: Path, script: Path) -> Path:
    runs = tmp_path / ".perftui" / "runs"
    return write_run(runs, script=script, loader_line=4, cwd=str(tmp_path), **ENDED)


def test_a_fix_is_written_and_taken_back_byte_for_byte(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "loader-workers", str(run)]) == 0
    assert "num_workers=" in script.read_text()
    told = capsys.readouterr()
    assert "+    return DataLoader(" in told.out
    assert f"perftui undo {run}" in told.err
    assert main(["undo", str(run)]) == 0
    assert script.read_text() == SCRIPT
    assert "restored to what it was before" in capsys.readouterr().err
    assert main(["undo", str(run)]) == 2


def test_a_dry_run_shows_the_change_and_writes_nothing(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "--dry-run", str(run)]) == 0
    assert "num_workers=" in capsys.readouterr().out
    assert script.read_text() == SCRIPT
    main(["apply", str(run)])
    assert main(["undo", "--dry-run", str(run)]) == 0
    assert script.read_text() != SCRIPT


def test_a_source_that_was_edited_since_is_left_alone(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["apply", str(run)])
    script.write_text(f"{script.read_text()}# mine\n")
    assert main(["undo", str(run)]) == 1
    assert "was edited after" in capsys.readouterr().err
    assert script.read_text().endswith("# mine\n")


@pytest.mark.parametrize("command", ["apply", "try"])
def test_what_is_not_offered_is_refused_with_what_is(
    command: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "anomaly-off", str(run)]) == 2
    said = capsys.readouterr().err
    assert f"anomaly-off addresses no finding of {run.name}; offered: loader-workers" in said


def test_what_a_trial_proved_is_kept_for_the_app(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeTrial(*FASTER)
    fake.let(len(FASTER))
    monkeypatch.setattr("perftui.experiments.trial.trial", fake)
    assert main(["try", "loader-workers", str(run)]) == 0
    told = capsys.readouterr()
    assert re.search(r"steps, with it and without; at least about \d+ min", told.err)
    assert told.out.startswith("num_workers 0 -> 4: 2.10x faster (2.00 to 2.20)\n")
    kept = read_proof(trials_of(run), "loader-workers")
    assert kept is not None
    assert (kept.headline, len(kept.pairs)) == ("2.10x faster (2.00 to 2.20)", 6)


def test_a_trace_has_nothing_to_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", str(write_trace(tmp_path))]) == 2
    assert "there is no script to change" in capsys.readouterr().err


def test_two_runs_are_compared(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faster = write_run(run.parent, run_id=OTHER, wait_ms=2, workers=4, **ENDED)
    assert main(["compare", str(run), str(faster)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("faster 1.6")
    assert "num_workers 0 -> 4" in told
    assert main(["compare", "--json", str(faster), str(run)]) == 3
    found = described("compare", capsys.readouterr().out)
    assert (found["schema"], found["outcome"]) == (1, "slower")
    assert found["parts_ns"]["input_wait"][0] < found["parts_ns"]["input_wait"][1]


@pytest.mark.parametrize("words", [(), ("one",)])
def test_a_comparison_needs_two_runs(words: tuple[str, ...]) -> None:
    assert main(["compare", *words]) == 2


def test_every_outcome_has_its_exit_code() -> None:
    codes = {outcome.value: code_of(outcome) for outcome in Outcome}
    assert codes == {
        "faster": 0,
        "slower": 3,
        "no difference": 4,
        "inconclusive": 5,
        "no effect": 6,
        "not comparable": 5,
    }


def test_what_is_diagnosed_keeps_its_own_words() -> None:
    line = parse([DIAGNOSE, "--max-steps", "9", "train.py", "--json", "report"])
    assert (line.action, line.reports) == ("script", True)
    assert line.words == ("train.py", "--json", "report")
    assert parse([DIAGNOSE, "-m", "pkg.train"]).action == "module"
    with pytest.raises(UsageError, match="no script given"):
        parse([DIAGNOSE])
