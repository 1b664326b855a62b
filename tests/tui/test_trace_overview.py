"""The Overview of a trace: what it has in place of a live run's meters."""

import json
from pathlib import Path

import pytest

from perftui.analysis.model import GapCause
from perftui.diagnosis.claims import place_of
from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.facts.place import Place
from perftui_tui.look.rows import plain
from perftui_tui.panes.verdict import findings
from perftui_tui.reading.view import view_trace
from perftui_tui.screens.overview.dashboard import GapList
from tests.tui.driving import opened, text_of, until, until_shown
from tests.tui.traces import write_trace

MS = 1_000_000


async def test_it_shows_devices_gaps_and_kernels_and_no_empty_meters(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        text = text_of(app)
        assert "GPU 0" in text
        assert "3 kernels 12.0 ms" in text
        assert "Top kernels" in text
        assert "gemm" in text
        assert "Disk" not in text
        assert "Log" not in text.splitlines()[-8]


def test_only_what_could_not_be_read_is_a_warning(tmp_path: Path) -> None:
    path = write_trace(tmp_path, gpu=False)
    path.write_text(path.read_text()[:-40])
    snapshot = view_trace(path, 0, lambda _: None, lambda: False)
    (damage,) = snapshot.analysis.trace.warnings if snapshot.analysis else ()
    styles = {
        plain(line): {style for _, style in line if style} for line in findings(snapshot, 300, 0)
    }
    assert styles[damage.message] == {"warn"}
    assert styles["no GPU activity recorded"] == {"dim"}


async def test_a_trace_without_a_gpu_shows_its_operators(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path, gpu=False), (80, 24), replay=True) as (app, pilot):
        await until_shown(pilot, "Top operators")
        assert "GPU idle" not in text_of(app)
        assert "aten::mm" in text_of(app)
        assert "no GPU activity in this trace" in text_of(app)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40), (300, 80)])
@pytest.mark.keys("overview.show_gap", "overview.select_gap(1)")
async def test_the_selected_gap_opens_on_the_timeline(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with opened(write_trace(tmp_path), size, replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        gaps = app.snapshot.analysis.gaps if app.snapshot and app.snapshot.analysis else ()
        # Two before an activity each, and those at the ends.
        assert len(gaps) == 4
        await pilot.press("down", "up", "t")
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")
        await until_shown(pilot, "idle 6.00 ms")
        await until_shown(pilot, "GPU 0 idle 6.00 ms")


async def test_a_click_opens_a_gap(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        await pilot.pause(0.2)
        await pilot.click(GapList, offset=(5, 5))
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")


def finding(rule: str, *facts: Figure) -> Finding:
    return Finding(rule, Severity.WARNING, "it is slow", facts)


def test_evidence_is_where_a_fact_says_else_at_the_longest_gap_of_its_kind(tmp_path: Path) -> None:
    path = write_trace(tmp_path)
    analysis = view_trace(path, 0, lambda _: None, lambda: False).analysis
    assert analysis is not None
    placed = Figure("mean idle", 3, place=Place(start=5, end=9, trace_row=2))
    assert place_of(finding("sync-bound", placed), analysis) == (5, 9, 2)
    longest = {gap.cause: (gap.start, gap.end, None) for gap in reversed(analysis.gaps)}
    rules = {
        GapCause.INPUT_WAIT: "input-bound",
        GapCause.SYNCHRONISATION: "sync-bound",
        GapCause.LAUNCH: "launch-bound",
    }
    for cause, rule in rules.items():
        place = place_of(finding(rule), analysis)
        assert place == longest.get(cause)
    assert place_of(finding("memory-pressure"), analysis) is None
    assert place_of(finding("input-bound"), None) is None


async def test_the_breakdown_is_of_the_steps_that_findings_speak_of(tmp_path: Path) -> None:
    """A first step of ten times the usual length is warm-up, in the bar as in the findings."""
    path = write_trace(tmp_path, steps=6)
    content = json.loads(path.read_text())
    for event in content["traceEvents"]:
        event["ts"] += 90_000 if event["ts"] >= 10_000 else 0
        if event["name"] == "ProfilerStep#0":
            event["dur"] = 99_990
    path.write_text(json.dumps(content))
    async with opened(path, replay=True) as (app, pilot):
        await until_shown(pilot, "5 steady of 6 steps in the trace")
        breakdown = app.snapshot.breakdown if app.snapshot else None
        assert breakdown is not None
        assert breakdown.mean.mean == breakdown.mean.p95 == 9_990_000
        assert sum(part.ns for part in breakdown.parts) == breakdown.mean.mean
