"""The events that a search found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis.kernels.names import short_name
from perftui.analysis.timeline.track import edges
from perftui.trace.model import KERNEL, NONE, Int64, Trace


@dataclass(frozen=True, eq=False)
class Matches:
    """All rows whose name, or its short form, contains ``needle``."""

    needle: str
    is_named: npt.NDArray[np.bool_]
    """By the number of a name: whether it matches."""
    rows: Int64
    """By start."""
    starts: Int64
    longest: int
    """The row that lasts longest, the first of equals; NONE without any."""

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, row: int) -> int | None:
        """Which match ``row`` is, from 0; None where it is none."""
        found = np.flatnonzero(self.rows == row)
        return int(found[0]) if len(found) else None

    def beside(self, row: int, time: int, step: int) -> int:
        """The match after (1) or before (-1) ``row`` or ``time``, round the end; NONE without."""
        if not len(self):
            return NONE
        place = self.place(row)
        if place is None:
            behind = int(np.searchsorted(self.starts, np.int64(time)))
            place = behind if step > 0 else behind - 1
        else:
            place += step
        return int(self.rows[place % len(self)])

    def begin_in(self, start: int, end: int, columns: int) -> Int64:
        """How many matches begin in each column of ``[start, end)``."""
        counts: Int64 = np.diff(np.searchsorted(self.starts, edges(start, end, columns)))
        return counts


def find_matches(trace: Trace, needle: str) -> Matches:
    """Search names, of kernels the short ones too, for ``needle`` in any case; an empty one is in
    none."""
    low = needle.casefold()
    is_named = np.array([bool(low) and low in name.casefold() for name in trace.names], dtype=bool)
    kernels = np.bincount(trace.name[trace.in_category(KERNEL)], minlength=len(trace.names))
    for number in np.flatnonzero(kernels).tolist() if low else ():
        is_named[number] |= low in short_name(trace.names[number]).casefold()
    rows = np.flatnonzero(is_named[trace.name]) if is_named.any() else np.zeros(0, np.int64)
    starts = trace.start[rows]
    order = np.argsort(starts, kind="stable")
    longest = int(rows[trace.duration[rows].argmax()]) if len(rows) else NONE
    return Matches(needle, is_named, rows[order], starts[order], longest)
