"""A long trace is drawn while the rest of it is read."""

import threading
from pathlib import Path

import pytest

from perftui.analysis.analyse import without_tables
from perftui.trace.formats import load_trace
from perftui_tui.app import PerftuiApp
from perftui_tui.reading import view as trace_view
from perftui_tui.screens.timeline.view import TimelineView
from tests.tui.driving import text_of, until, until_shown
from tests.tui.recorded import NOW
from tests.tui.traces import write_trace


async def test_the_tracks_come_first_and_keep_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_trace(tmp_path, steps=6)
    goes_on, view_trace = threading.Event(), trace_view.view_trace

    def held(path, now, progress, cancelled, preview, facts_of):
        progress(0.5)
        preview(without_tables(load_trace(path)))
        progress(1.0)
        goes_on.wait(30)
        return view_trace(path, now, progress, cancelled, facts_of=facts_of)

    monkeypatch.setattr(trace_view, "view_trace", held)
    app = PerftuiApp(path, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "analysing rank0")
        await pilot.press("3")
        await until_shown(pilot, "reading")
        assert "press c" not in text_of(app)
        await pilot.press("2")
        await until_shown(pilot, "stream 7")
        await pilot.press("w", "w")
        view = app.screen.query_one(TimelineView).state.view
        assert view.span < view.last - view.first
        assert app.snapshot is None
        goes_on.set()
        await until(pilot, lambda: app.snapshot is not None)
        timeline = app.screen.query_one(TimelineView)
        await until(pilot, lambda: timeline.state.analysis is app.snapshot.analysis)
        assert timeline.state.view == view
        assert app.preview is None


async def test_the_overview_says_how_far_reading_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_trace(tmp_path, steps=6)
    further, goes_on, view_trace = threading.Event(), threading.Event(), trace_view.view_trace

    def held(path, now, progress, cancelled, preview, facts_of):
        progress(0.25)
        further.wait(30)
        progress(0.75)
        goes_on.wait(30)
        return view_trace(path, now, progress, cancelled, facts_of=facts_of)

    monkeypatch.setattr(trace_view, "view_trace", held)
    app = PerftuiApp(path, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "NEXT")
        assert f"reading {path.name} 25 %  {'━' * 10}{'─' * 30}" in text_of(app)
        assert "2 shows the tracks read so far" in text_of(app)
        assert "Data loader" not in text_of(app)
        further.set()
        await until_shown(pilot, f"reading {path.name} 75 %  {'━' * 30}{'─' * 10}")
        goes_on.set()
        await until_shown(pilot, "gpu compute")
        assert "READING" not in text_of(app)
