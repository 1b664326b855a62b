"""Keys of the overview, the diagnosis, the comparison and the log that no other test presses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.diagnosis.model import Diagnosis, Figure, Finding, Severity
from perftui.experiments.journal import Proof
from perftui.experiments.verdict import Outcome
from perftui.facts.place import Place
from perftui.run.manifest import Status
from perftui_tui.screens.compare.screen import CompareScreen
from perftui_tui.screens.diagnosis.screen import DiagnosisScreen
from perftui_tui.screens.overview.dashboard import GapList
from perftui_tui.widgets.log_view import LogView
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import opened, text_of, until, until_shown
from tests.tui.recorded import SCRIPT, START, write_run
from tests.tui.test_fix_flow import ranked
from tests.tui.traces import write_trace

ENDED = {"status": Status.EXITED, "exit_code": 0, "ended_ns": START + 10**11}


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    os.utime(script, ns=(START - 10**9, START - 10**9))
    return write_run(
        tmp_path / ".perftui" / "runs", script=script, loader_line=4, cwd=str(tmp_path), **ENDED
    )


@pytest.mark.keys("overview.select_gap(1)", "overview.select_gap(-1)")
async def test_gaps_are_selected_one_after_the_other(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path, steps=4), replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        gaps = app.screen.query_one(GapList)
        first = gaps.gap
        await pilot.press("down")
        second = gaps.gap
        assert second is not None
        assert second != first
        await pilot.press("up")
        assert gaps.gap == first


@pytest.mark.slow
@pytest.mark.keys("diagnosis.select(1)", "diagnosis.select(-1)")
async def test_findings_are_selected_one_after_the_other(ended: Path) -> None:
    async with opened(ended, (120, 60)) as (app, pilot):
        await pilot.press("4")
        await until_shown(pilot, "confidence")
        assert app.snapshot is not None
        finding = app.snapshot.diagnosis.findings[0]
        two = (finding, replace(finding, rule="another"))
        diagnosis = replace(app.snapshot.diagnosis, findings=two)
        app.snapshot = replace(app.snapshot, diagnosis=diagnosis)
        await until_shown(pilot, f"1/2  {finding.rule}")
        await pilot.press("down")
        await until_shown(pilot, "2/2  another")
        await pilot.press("up")
        await until_shown(pilot, f"1/2  {finding.rule}")


@pytest.mark.keys("diagnosis.choose_fix(1)", "diagnosis.choose_fix(-1)")
async def test_fixes_are_chosen_one_after_the_other(ended: Path) -> None:
    async with opened(ended, (120, 60)) as (app, pilot):
        await pilot.press("4")
        await until_shown(pilot, "confidence")
        assert app.snapshot is not None
        app.snapshot = ranked(app.snapshot, "one")
        screen = app.screen
        assert isinstance(screen, DiagnosisScreen)
        await pilot.press("right")
        assert screen.option is not None
        assert screen.option.fix == "one-2"
        await pilot.press("left")
        assert screen.option is not None
        assert screen.option.fix == "one-1"


@pytest.mark.keys("diagnosis.scroll_details(1)", "diagnosis.scroll_details(-1)")
async def test_the_evidence_scrolls_down_and_up(ended: Path) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await pilot.press("4")
        await until_shown(pilot, "confidence")
        details = app.screen.query_one("#finding-details", RowView)
        await pilot.press("pagedown")
        await until(pilot, lambda: details.scroll_y > 0, "the evidence further down")
        await pilot.press("pageup")
        await until(pilot, lambda: details.scroll_y == 0, "the evidence from its beginning")


@pytest.mark.keys("diagnosis.show_evidence")
async def test_evidence_is_shown_on_the_timeline(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path, steps=24), replay=True) as (app, pilot):
        await pilot.press("4")
        await until(pilot, lambda: app.current_mode == "diagnosis", "the diagnosis")
        fact = Figure("a gap", "6 ms", place=Place(start=5_000_000, end=9_000_000))
        finding = Finding("sync-bound", Severity.WARNING, "it waits", steps=20, facts=(fact,))
        assert app.snapshot is not None
        app.snapshot = replace(app.snapshot, diagnosis=Diagnosis((finding,), steady_steps=20))
        await until_shown(pilot, "confidence")
        await pilot.press("t")
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")


@pytest.mark.keys("diagnosis.copy_fix")
async def test_a_fix_is_copied_as_a_patch(ended: Path) -> None:
    async with opened(ended, (120, 60)) as (app, pilot):
        await pilot.press("4")
        await until_shown(pilot, "confidence")
        await pilot.press("y")
        await until_shown(pilot, "to the clipboard")
        assert "--- " in app.clipboard
        assert "+    return DataLoader(" in app.clipboard


@pytest.mark.keys(
    "compare.scroll_figures(1)",
    "compare.scroll_figures(-1)",
    "compare.scroll_figures(8)",
    "compare.scroll_figures(-8)",
)
async def test_figures_scroll_by_rows_and_pages(ended: Path) -> None:
    child = write_run(ended.parent, run_id="20231114-231320-train", parent=ended.name, **ENDED)
    async with opened(child, (60, 18)) as (app, pilot):
        await pilot.press("5")
        await until_shown(pilot, "BEFORE")
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        figures = screen.query_one("#figures", RowView)
        assert figures.max_scroll_y > 2
        await pilot.press("down", "down")
        await until(pilot, lambda: figures.scroll_y == 2, "two rows down")
        await pilot.press("up")
        await until(pilot, lambda: figures.scroll_y == 1, "one row up")
        await pilot.press("pagedown")
        lowest = min(9, figures.max_scroll_y)
        await until(pilot, lambda: figures.scroll_y == lowest, "a page down")
        await pilot.press("pageup")
        await until(pilot, lambda: figures.scroll_y == max(0, lowest - 8), "a page up")


@pytest.mark.slow
@pytest.mark.keys("compare.write_fix")
async def test_the_fix_that_was_tried_is_written(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "perftui.recorder.launch.start",
        lambda launch: write_run(
            launch.runs,
            run_id="20231114-231320-train",
            script=tmp_path / "train.py",
            loader_line=4,
            cwd=str(tmp_path),
            parent=launch.parent,
            name=launch.name,
            overrides=launch.overrides,
        ),
    )
    async with opened(ended) as (app, pilot):
        await pilot.press("a")
        await until_shown(pilot, "Run again?")
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "compare", "the comparison")
        change = app.trials.change
        assert change is not None
        assert change.option is not None
        tried = change.option
        proof = Proof(tried.fix, tried.title, Outcome.FASTER, "2.00x faster", (), 1, 2.0)
        app.trials.proofs.add(ended, proof)
        await pilot.press("w")
        await until_shown(pilot, "Write the fix?")
        await until_shown(pilot, "2.00x faster")
        await pilot.press("enter")
        await until_shown(pilot, "train.py written")
        assert [one.gain for one in app.source_fixes.written] == ["2.00x faster"]
    assert "num_workers=" in (tmp_path / "train.py").read_text()


@pytest.mark.slow
@pytest.mark.keys("log.scroll_lines(1)", "log.scroll_lines(-1)", "log.scroll_pages(1)")
async def test_the_log_scrolls_by_lines_and_pages(tmp_path: Path) -> None:
    lines = b"".join(b"line %d\r\n" % number for number in range(300))
    async with opened(write_run(tmp_path, output=lines)) as (app, pilot):
        await until(pilot, lambda: len(app.output.lines) == 300, "the output")
        await pilot.press("6", "home")
        view = app.screen.query_one(LogView)
        await until(pilot, lambda: view.scroll_y == 0, "the first line")
        await pilot.press("down", "down")
        await until(pilot, lambda: view.scroll_y == 2, "two lines down")
        await pilot.press("up")
        await until(pilot, lambda: view.scroll_y == 1, "one line up")
        await pilot.press("pagedown")
        await until(pilot, lambda: view.scroll_y == view.size.height, "a page down")
        assert f"line {view.size.height}" in text_of(app)
