"""One lane of the timeline as cells: how busy each column is, or the events by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.lane_index import edges
from perftui.analysis.lanes import Lane
from perftui.trace.model import Int32, Int64, Trace
from perftui.trace.text import printable
from perftui_tui.charts.blocks import LEFT_EIGHTHS, LOWER_EIGHTHS, filled_steps
from perftui_tui.widgets.cells import BLANK, Cell, narrow, put
from perftui_tui.widgets.event_kinds import KindsOfTrace
from perftui_tui.widgets.viewport import Viewport

_COLUMNS_PER_EVENT = 4
"""Events are drawn one by one while they have this many columns each on average: in denser views
their edges look like noise."""

_NAMED_FROM = 4
"""Cells: a bar shorter than this has no name in it."""


@dataclass(frozen=True)
class Glyphs:
    """What the terminal can show."""

    ascii_only: bool = False
    colours: bool = True
    """Whether there are any."""

    @property
    def edges(self) -> bool:
        """Whether edges are drawn to an eighth: uncoloured, a reversed one looks wrong."""
        return self.colours and not self.ascii_only


def lane_cells(
    trace: Trace, kinds: KindsOfTrace, lane: Lane, view: Viewport, columns: int, glyphs: Glyphs
) -> list[Cell]:
    """The lane in ``columns`` cells.

    A column is blank only where the lane is idle all through it and full only where it is busy all
    through it; between the two it shows its busy share, in the kind of work that fills most of it.
    """
    times = edges(view.start, view.end, columns)
    busy = lane.index.busy(view.start, view.end, columns)
    dominant = lane.index.dominant(view.start, view.end, columns)
    cells = _density(kinds, busy, np.diff(times), dominant, glyphs)
    rows = rows_in_view(lane, view)
    if len(rows) * _COLUMNS_PER_EVENT <= columns:
        for row in rows.tolist():
            _draw_event(cells, trace, kinds, row, times, busy, glyphs)
    return cells


def rows_in_view(lane: Lane, view: Viewport) -> Int32:
    """The lane's rows that overlap the view, in time order."""
    index = lane.index
    first = int(np.searchsorted(index.end, np.int64(view.start), side="right"))
    behind = int(np.searchsorted(index.start, np.int64(view.end), side="left"))
    return index.rows[first:behind]


def _density(
    kinds: KindsOfTrace, busy: Int64, widths: Int64, dominant: Int64 | Int32, glyphs: Glyphs
) -> list[Cell]:
    cells = []
    for part, width, row in zip(busy.tolist(), widths.tolist(), dominant.tolist(), strict=True):
        if part <= 0 or row < 0:
            cells.append(BLANK)
            continue
        kind = kinds[row]
        share = part / width if width else 1.0
        glyph = kind.letter if share >= 0.5 else kind.letter.lower()
        if not glyphs.ascii_only:
            glyph = LOWER_EIGHTHS[filled_steps(share, 8)]
        cells.append((glyph, kind.style))
    return cells


def _draw_event(
    cells: list[Cell],
    trace: Trace,
    kinds: KindsOfTrace,
    row: int,
    times: Int64,
    busy: Int64,
    glyphs: Glyphs,
) -> None:
    """One event over the density: its edges to an eighth of a cell, and its name."""
    start, end = int(trace.start[row]), int(trace.start[row] + trace.duration[row])
    style = kinds[row].style
    left = int(np.searchsorted(times, start, side="left"))
    right = int(np.searchsorted(times, end, side="right")) - 1
    edged = glyphs.edges and _draw_edges(cells, (start, end), (left, right), times, busy, style)
    if start >= times[0] and not edged:
        left = _mark_start(cells, left, right, style, glyphs)
    if right - left >= _NAMED_FROM:
        name = narrow(printable(trace.name_of(row)))
        put(cells, left, name[: right - left], f"{style}-name")


def _mark_start(cells: list[Cell], left: int, right: int, style: str, glyphs: Glyphs) -> int:
    """Tell an event from the one that ends where it starts; the cell at which its name begins."""
    if right <= left:
        return left
    if glyphs.ascii_only:
        cells[left] = ("[", style)
        return left + 1
    if glyphs.edges and right - left > _NAMED_FROM:
        cells[left] = ("▏", f"{style}-name")
        return left + 1
    return left


def _draw_edges(
    cells: list[Cell],
    span: tuple[int, int],
    inside: tuple[int, int],
    times: Int64,
    busy: Int64,
    style: str,
) -> bool:
    """The cells that the event fills in part, where it is alone in them; whether its start is."""
    (start, end), (left, right) = span, inside
    if left > right:
        return False
    if 0 <= right < len(cells) and end - times[right] == busy[right] > 0:
        share = busy[right] / (times[right + 1] - times[right])
        cells[right] = (LEFT_EIGHTHS[filled_steps(float(share), 8)], style)
    if not (0 < left <= len(cells) and times[left] - start == busy[left - 1] > 0):
        return False
    idle = 1 - busy[left - 1] / (times[left] - times[left - 1])
    cells[left - 1] = (LEFT_EIGHTHS[filled_steps(float(idle), 8)], f"{style}-edge")
    return True
