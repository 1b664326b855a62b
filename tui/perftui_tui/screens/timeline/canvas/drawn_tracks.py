"""The cells of each track as they were drawn last."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from perftui.analysis.timeline.track import TimelineTrack
from perftui.trace.model import Trace
from perftui_tui.screens.timeline.canvas.track_cells import Glyphs, track_cells
from perftui_tui.screens.timeline.model.cells import Cell
from perftui_tui.screens.timeline.model.event_kinds import KindsOfTrace
from perftui_tui.screens.timeline.model.matches import Matches
from perftui_tui.screens.timeline.model.viewport import Viewport

_Seen = tuple[Viewport, int, Matches | None]


class DrawnTracks:
    """Works out the cells of a track once for each view: most keys leave the view where it is.

    Of ten million events that was half of the time from such a key to its frame.
    """

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
