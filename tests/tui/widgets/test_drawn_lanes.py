"""The cells of a lane are worked out once for each view, and never drawn over."""

from __future__ import annotations

import pytest

from perftui.analysis.lanes import build_lanes
from perftui_tui.screens.timeline.canvas import drawn_tracks as drawn_lanes
from perftui_tui.screens.timeline.canvas.drawn_tracks import DrawnLanes
from perftui_tui.screens.timeline.canvas.track_cells import Glyphs, lane_cells
from perftui_tui.screens.timeline.model.event_kinds import KindsOfTrace
from perftui_tui.screens.timeline.model.viewport import Viewport
from tests.benchmarks.bench_ten_million import trace_of

COLUMNS = 40


def test_a_view_that_stays_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(6000)
    kinds, glyphs = KindsOfTrace(trace), Glyphs()
    lane = build_lanes(trace)[0]
    calls = []

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return lane_cells(*arguments)  # type: ignore[arg-type]  # the same, handed through

    monkeypatch.setattr(drawn_lanes, "lane_cells", counted)
    drawn = DrawnLanes(trace, kinds, glyphs)
    end = int(trace.start.max())
    whole, half = Viewport(0, end, 0, end), Viewport(0, end // 2, 0, end)

    def expected(view: Viewport, columns: int = COLUMNS) -> object:
        return lane_cells(trace, kinds, lane, view, columns, glyphs)

    first = drawn.cells(lane, whole, COLUMNS)
    assert first == expected(whole)
    first[0] = ("x", "selected")
    assert drawn.cells(lane, whole, COLUMNS) == expected(whole), "it was drawn over"
    assert len(calls) == 1
    assert drawn.cells(lane, half, COLUMNS) == expected(half)
    assert drawn.cells(lane, whole, 20) == expected(whole, 20)
    assert len(calls) == 3
