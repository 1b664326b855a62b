"""One lane of the timeline as cells: how busy each column is, or the events by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.lane_index import edges
from perftui.analysis.lanes import Lane
from perftui.trace.model import Int32, Int64, Ints, Trace
from perftui.trace.text import printable
from perftui_tui.charts.blocks import LEFT_EIGHTHS, LOWER_EIGHTHS, filled_steps
from perftui_tui.charts.filled import all_filled_steps
from perftui_tui.widgets.cells import BLANK, Cell, narrow, put
from perftui_tui.widgets.event_kinds import KindsOfTrace
from perftui_tui.widgets.matches import Matches
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
    trace: Trace,
    kinds: KindsOfTrace,
    lane: Lane,
    view: Viewport,
    columns: int,
    glyphs: Glyphs,
    found: Matches | None = None,
) -> list[Cell]:
    """The lane in ``columns`` cells; what a search ``found`` has a colour of its own.

    A column is blank only where the lane is idle all through it and full only where it is busy all
    through it; between the two it shows its busy share, in the kind of work that fills most of it.
    """
    times = edges(view.start, view.end, columns)
    busy = lane.index.busy(view.start, view.end, columns)
    dominant = lane.index.dominant(view.start, view.end, columns)
    styles = _Styles(trace, kinds, found)
    cells = _density(styles, busy, np.diff(times), dominant, glyphs)
    places = places_in_view(lane, view)
    if len(places) * _COLUMNS_PER_EVENT <= columns:
        index = lane.index
        for place in places:
            row, span = int(index.rows[place]), (int(index.start[place]), int(index.end[place]))
            _draw_event(cells, trace, styles, row, span, times, busy, glyphs)
    return cells


def places_in_view(lane: Lane, view: Viewport) -> range:
    """Which events of the lane overlap the view, in time order."""
    index = lane.index
    first = int(np.searchsorted(index.end, np.int64(view.start), side="right"))
    behind = int(np.searchsorted(index.start, np.int64(view.end), side="left"))
    return range(first, max(behind, first))


@dataclass(frozen=True, eq=False)
class _Styles:
    """The style of a row: that of its kind of work, or of what was searched for."""

    trace: Trace
    kinds: KindsOfTrace
    found: Matches | None

    def __getitem__(self, row: int) -> str:
        return self.of(np.array([row]))[0]

    def of(self, rows: Ints) -> list[str]:
        styles = [kind.style for kind in self.kinds.of(rows)]
        if self.found is None:
            return styles
        matches = self.found.is_named[self.trace.name[rows]].tolist()
        pairs = zip(styles, matches, strict=True)
        return ["match" if is_match else style for style, is_match in pairs]


def _density(
    styles: _Styles, busy: Int64, widths: Int64, dominant: Int64 | Int32, glyphs: Glyphs
) -> list[Cell]:
    cells = [BLANK] * len(busy)
    filled = np.flatnonzero((busy > 0) & (dominant >= 0))
    if not len(filled):
        return cells
    rows = dominant[filled]
    shares = busy[filled] / np.maximum(widths[filled], 1)
    if glyphs.ascii_only:
        drawn = [
            kind.letter if share >= 0.5 else kind.letter.lower()
            for kind, share in zip(styles.kinds.of(rows), shares.tolist(), strict=True)
        ]
    else:
        drawn = [LOWER_EIGHTHS[level] for level in all_filled_steps(shares, 8).tolist()]
    for column, glyph, style in zip(filled.tolist(), drawn, styles.of(rows), strict=True):
        cells[column] = (glyph, style)
    return cells


def _draw_event(
    cells: list[Cell],
    trace: Trace,
    styles: _Styles,
    row: int,
    span: tuple[int, int],
    times: Int64,
    busy: Int64,
    glyphs: Glyphs,
) -> None:
    """One event over the density: its edges to an eighth of a cell, and its name."""
    start, end = span
    style = styles[row]
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
