"""What was open on a thread around a moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.host import Host
from perftui.trace.model import NONE, Int64, Trace


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Finds the operator or annotation that a stretch of time belongs to."""

    trace: Trace
    host: Host

    def innermost(self, launch_row: int, start: int, end: int) -> int:
        """The innermost operator or range open over most of ``[start, end)``, or NONE.

        Looked for on the launching thread, and on the main thread if that has none.
        """
        tracks = [self.host.main_track]
        if launch_row != NONE:
            tracks.insert(0, int(self.trace.track[launch_row]))
        for track in dict.fromkeys(tracks):
            row = self._open_over(track, start, end)
            if row != NONE:
                return row
        return NONE

    @cached_property
    def _wanted(self) -> list[bool]:
        wanted: list[bool] = (kinds.operators(self.trace) | kinds.ranges(self.trace)).tolist()
        return wanted

    @cached_property
    def _bounds(self) -> Int64:
        return np.searchsorted(self.trace.track, np.arange(len(self.trace.tracks) + 1))

    def _open_over(self, track: int, start: int, end: int) -> int:
        """What covers more than half of a stretch covers its middle."""
        if track == NONE:
            return NONE
        trace, middle = self.trace, start + (end - start) // 2
        begin, stop = self._bounds[track], self._bounds[track + 1]
        row = int(begin + np.searchsorted(trace.start[begin:stop], middle, side="right")) - 1
        while row >= begin and row != NONE:
            opened = int(trace.start[row])
            overlap = min(end, opened + int(trace.duration[row])) - max(start, opened)
            if self._wanted[row] and 2 * overlap > end - start:
                return row
            row = int(trace.parent[row])
        return NONE
