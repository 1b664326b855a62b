"""One track of the timeline as cells: how busy each column is, or the events by name."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from perftui.analysis.timeline.track import TimelineTrack, edges
from perftui.trace.model import Int32, Int64, Trace
from perftui_tui.charts.blocks import LEFT_EIGHTHS, LOWER_EIGHTHS, filled_steps
from perftui_tui.screens.timeline.canvas.event_style import EventStyle, style_of
from perftui_tui.screens.timeline.model.cells import BLANK, Cell, put
from perftui_tui.screens.timeline.model.event_kinds import KindsOfTrace
from perftui_tui.screens.timeline.model.matches import Matches
from perftui_tui.screens.timeline.model.viewport import Viewport


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


def track_cells(
    trace: Trace,
    kinds: KindsOfTrace,
    track: TimelineTrack,
    view: Viewport,
    columns: int,
    glyphs: Glyphs,
    found: Matches | None = None,
) -> list[Cell]:
    """The track in ``columns`` cells; what a search ``found`` has a colour of its own.

    A column is blank only where the track is idle all through it and full only where it is busy all
    through it; between the two it shows its busy share, in the kind of work that fills most of it.
    """
    times = edges(view.start, view.end, columns)
    busy = track.index.busy(view.start, view.end, columns)
    dominant = track.index.dominant(view.start, view.end, columns)
    event_style = style_of(track, trace, kinds, found)
    cells = _density(event_style, busy, np.diff(times), dominant, glyphs)
    places = places_in_view(track, view)
    if len(places) * event_style.columns_each <= columns:
        index = track.index
        for place in places:
            row, span = int(index.rows[place]), (int(index.start[place]), int(index.end[place]))
            _draw_event(cells, event_style, row, span, times, busy, glyphs)
    return cells


def places_in_view(track: TimelineTrack, view: Viewport) -> range:
    """Which events of the track overlap the view, in time order."""
    index = track.index
    first = int(np.searchsorted(index.end, np.int64(view.start), side="right"))
    behind = int(np.searchsorted(index.start, np.int64(view.end), side="left"))
    return range(first, max(behind, first))


def _density(
    event_style: EventStyle, busy: Int64, widths: Int64, dominant: Int64 | Int32, glyphs: Glyphs
) -> list[Cell]:
    cells = [BLANK] * len(busy)
    filled = np.flatnonzero((busy > 0) & (dominant >= 0))
    if not len(filled):
        return cells
    rows = dominant[filled]
    shares = busy[filled] / np.maximum(widths[filled], 1)
    if _is_lettered(event_style, glyphs):
        drawn = [
            letter if share >= 0.5 else letter.lower()
            for (letter, _), share in zip(event_style.letters(rows), shares.tolist(), strict=True)
        ]
    else:
        drawn = [LOWER_EIGHTHS[level] for level in all_filled_steps(shares, 8).tolist()]
    for column, glyph, style in zip(filled.tolist(), drawn, event_style.styles(rows), strict=True):
        cells[column] = (glyph, style)
    return cells


def _is_lettered(event_style: EventStyle, glyphs: Glyphs) -> bool:
    """Whether events are drawn with letters instead of blocks."""
    return glyphs.ascii_only or (event_style.needs_colour and not glyphs.colours)


def _draw_event(
    cells: list[Cell],
    event_style: EventStyle,
    row: int,
    span: tuple[int, int],
    times: Int64,
    busy: Int64,
    glyphs: Glyphs,
) -> None:
    """One event over the density: its edges to an eighth of a cell, and its name."""
    start, end = span
    style = event_style.style(row)
    left = int(np.searchsorted(times, start, side="left"))
    right = int(np.searchsorted(times, end, side="right")) - 1
    edged = glyphs.edges and _draw_edges(cells, (start, end), (left, right), times, busy, style)
    if start >= times[0] and not edged:
        left = _mark_start(cells, left, right, style, glyphs, event_style)
    if right - left >= event_style.named_from:
        label = event_style.label(row, right - left)
        # Letters behind a word would be read as part of it.
        blank = (
            " " if label and event_style.needs_colour and _is_lettered(event_style, glyphs) else ""
        )
        put(cells, left, f"{label}{blank}"[: right - left], f"{style}-name")


def _mark_start(
    cells: list[Cell], left: int, right: int, style: str, glyphs: Glyphs, event_style: EventStyle
) -> int:
    """Mark the start of an event that follows another at once; returns the cell of its name."""
    if right <= left:
        return left
    if _is_lettered(event_style, glyphs):
        cells[left] = ("[", style)
        return left + 1
    if glyphs.edges and right - left >= event_style.marked_from:
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


def all_filled_steps(fractions: npt.NDArray[np.float64], steps: int) -> Int64:
    """``filled_steps`` of each fraction; ``steps`` is at least 2."""
    between = np.clip(np.rint(fractions * steps), 1, steps - 1)
    full = np.where(fractions >= 1, steps, between)
    found: Int64 = np.where(fractions <= 0, 0, full).astype(np.int64)
    return found


_Seen = tuple[Viewport, int, Matches | None]


class DrawnTracks:
    """Works out the cells of a track once for each view: most keys leave the view where it is.

    Of ten million events that was half of the time from such a key to its frame."""

    def __init__(self, trace: Trace, kinds: KindsOfTrace, glyphs: Glyphs) -> None:
        self._trace, self._kinds, self._glyphs = trace, kinds, glyphs
        self._last: WeakKeyDictionary[TimelineTrack, tuple[_Seen, tuple[Cell, ...]]] = (
            WeakKeyDictionary()
        )

    def cells(
        self, track: TimelineTrack, view: Viewport, columns: int, found: Matches | None = None
    ) -> list[Cell]:
        """The result of ``track_cells``, from the cache; it may be changed."""
        seen = (view, columns, found)
        last = self._last.get(track)
        if last is None or last[0] != seen:
            drawn = track_cells(self._trace, self._kinds, track, view, columns, self._glyphs, found)
            last = self._last[track] = (seen, tuple(drawn))
        return list(last[1])
