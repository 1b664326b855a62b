"""The cells of a track are worked out once for each view, and never drawn over."""

from __future__ import annotations

import pytest

from perftui.analysis.timeline.tracks import timeline_tracks
from perftui_tui.screens.timeline import track_cells as module
from perftui_tui.screens.timeline.navigation import Viewport
from perftui_tui.screens.timeline.track_cells import DrawnTracks, Glyphs, KindsOfTrace, track_cells
from tests.verify.benchmarks.bench_ten_million import trace_of

COLUMNS = 40


def test_a_view_that_stays_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(6000)
    kinds, glyphs = KindsOfTrace(trace), Glyphs()
    track = timeline_tracks(trace)[0]
    calls = []

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return track_cells(*arguments)  # type: ignore[arg-type]  # the same, handed through

    monkeypatch.setattr(module, "track_cells", counted)
    drawn = DrawnTracks(trace, kinds, glyphs)
    end = int(trace.start.max())
    whole, half = Viewport(0, end, 0, end), Viewport(0, end // 2, 0, end)

    def expected(view: Viewport, columns: int = COLUMNS) -> object:
        return track_cells(trace, kinds, track, view, columns, glyphs)

    first = drawn.cells(track, whole, COLUMNS)
    assert first == expected(whole)
    first[0] = ("x", "selected")
    assert drawn.cells(track, whole, COLUMNS) == expected(whole), "it was drawn over"
    assert len(calls) == 1
    assert drawn.cells(track, half, COLUMNS) == expected(half)
    assert drawn.cells(track, whole, 20) == expected(whole, 20)
    assert len(calls) == 3
