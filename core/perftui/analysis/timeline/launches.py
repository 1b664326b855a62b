"""From a call to the device activity that it launched and back, for one row at a time.

``links.link`` joins all rows at once; this answers a key press on a trace of ten million rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kinds import Mask
from perftui.trace.model import NONE, Int64, Ints, Trace

_AT_ONCE = 1 << 14
"""Rows inside a call that are looked at in one go: the first launch is mostly among the first."""


@dataclass(frozen=True, eq=False)
class _ByCorrelation:
    """Rows in order of their correlation id, of equals in order of the trace."""

    ids: Ints
    rows: Int64

    @staticmethod
    def of(trace: Trace, among: Mask) -> _ByCorrelation:
        rows = np.flatnonzero(among & (trace.correlation != NONE))
        rows = rows[np.argsort(trace.correlation[rows], kind="stable")]
        return _ByCorrelation(trace.correlation[rows], rows)

    def all_of(self, number: int) -> Int64:
        # In the column's own width: else all of it would be converted.
        key = self.ids.dtype.type(number)
        low, high = (int(np.searchsorted(self.ids, key, side)) for side in ("left", "right"))
        return self.rows[low:high]

    def holds(self, numbers: Ints) -> Mask:
        places = np.searchsorted(self.ids, numbers)
        found: Mask = np.zeros(len(numbers), dtype=bool)
        if len(self.ids):
            safe = np.minimum(places, len(self.ids) - 1)
            found = (self.ids[safe] == numbers) & (numbers != NONE)
        return found


class Launches:
    """The launches of a trace, sorted once (1 s for ten million rows that all are launches)."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._work = _ByCorrelation.of(trace, kinds.device_activity(trace))
        self._calls = _ByCorrelation.of(trace, kinds.launches(trace))

    def launched(self, row: int) -> Int64:
        """The device activity that ``row``, or else the first launching call inside it, launched,
        by start: several rows for a graph. Empty where none is in the trace."""
        for rows in self._inside(row):
            joined = self._work.holds(self._trace.correlation[rows])
            if joined.any():
                launch = int(rows[int(np.argmax(joined))])
                found = self._work.all_of(int(self._trace.correlation[launch]))
                return found[np.argsort(self._trace.start[found], kind="stable")]
        return np.zeros(0, dtype=np.int64)

    def launching(self, row: int) -> int:
        """The call that launched the device activity ``row``; NONE where it is not in the trace."""
        number = int(self._trace.correlation[row])
        if number == NONE or not self._trace.tracks[int(self._trace.track[row])].is_device:
            return NONE
        calls = self._calls.all_of(number)
        return int(calls[0]) if len(calls) else NONE

    def _inside(self, row: int) -> Iterator[Int64]:
        """``row`` and the rows of its thread that begin inside it, in pieces."""
        trace = self._trace
        if trace.tracks[int(trace.track[row])].is_device:
            return
        stop = row + rows_inside(trace, row)
        for begin in range(row, stop, _AT_ONCE):
            yield np.arange(begin, min(begin + _AT_ONCE, stop), dtype=np.int64)


def rows_inside(trace: Trace, row: int) -> int:
    """How many rows of a thread begin in the call ``row``, with itself; they follow each other."""
    high = int(np.searchsorted(trace.track, trace.track[row], side="right"))
    end = np.int64(trace.start[row] + trace.duration[row])
    return max(int(np.searchsorted(trace.start[row:high], end, side="right")), 1)
