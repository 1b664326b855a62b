"""What was open on a thread around a moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.host import Host
from perftui.analysis.kinds import Mask
from perftui.trace.model import NONE, Int64, Trace


@dataclass(frozen=True, eq=False)
class EnclosingOps:
    """Finds the operator or annotation that an interval of time belongs to."""

    trace: Trace
    host: Host
    _waits_of: dict[int, tuple[Int64, Int64, Int64]] = field(default_factory=dict, init=False)
    _reach_of: dict[int, Int64] = field(default_factory=dict, init=False)
    _loose_of: dict[int, tuple[Int64, Int64, Int64]] = field(default_factory=dict, init=False)

    def innermost(self, launch_row: int, start: int, end: int) -> int:
        """The innermost operator or range open over most of ``[start, end)``, or NONE.

        Looked for on the launching thread, and on the main thread if that has none.
        """
        for track in self._tracks(launch_row):
            nested, loose = self._open_over(track, start, end), self._range_over(track, start, end)
            if nested != NONE and loose != NONE:
                return max(nested, loose, key=lambda row: int(self.trace.start[row]))
            if max(nested, loose) != NONE:
                return max(nested, loose)
        return NONE

    def wait(self, launch_row: int, start: int, end: int) -> int:
        """The operator around the first wait for the device that reaches into ``[start, end)``, or
        that ends as it begins; the waiting call itself where it is in none; NONE without a wait.

        Of waits in one another, such as a call in ``aten::item``, the outermost counts.
        """
        for track in self._tracks(launch_row):
            rows, begins, ends = self._waits(track)
            index = int(np.searchsorted(ends, start))
            if index < len(rows) and begins[index] < end:
                return self._operator_around(int(rows[index]))
        return NONE

    def _tracks(self, launch_row: int) -> Iterable[int]:
        """The launching thread, then the main one, as far as they are known."""
        launching = NONE if launch_row == NONE else int(self.trace.track[launch_row])
        return [t for t in dict.fromkeys((launching, self.host.main_track)) if t != NONE]

    def _operator_around(self, row: int) -> int:
        operator, is_operator = row, kinds.operators(self.trace)
        while operator != NONE and not is_operator[operator]:
            operator = int(self.trace.parent[operator])
        return row if operator == NONE else operator

    def _waits(self, track: int) -> tuple[Int64, Int64, Int64]:
        """Rows, starts and ends of the outermost waits of a thread, by time."""
        if track not in self._waits_of:
            rows = np.flatnonzero((self.trace.track == track) & kinds.synchronising(self.trace))
            ends = self.trace.ends_of(rows)
            # Rows are in order of start, the longest first: an inner wait ends no later.
            outer = np.diff(np.maximum.accumulate(ends), prepend=-1) > 0
            rows = rows[outer]
            self._waits_of[track] = rows, self.trace.start[rows], ends[outer]
        return self._waits_of[track]

    @cached_property
    def _loose_ranges(self) -> Int64:
        """Ranges outside the call stack: those that overlap calls only partially, as steps and
        module ranges do in traces with stacks."""
        trace = self.trace
        rows = np.flatnonzero(kinds.ranges(trace) & (trace.parent == NONE))
        following = np.minimum(rows + 1, len(trace) - 1)
        overlapped = (following > rows) & (trace.track[following] == trace.track[rows])
        overlapped &= trace.start[following] < trace.ends_of(rows)
        overlapped &= trace.parent[following] != rows
        overlapping = np.zeros(len(rows), dtype=bool)
        for track in np.unique(trace.track[rows]).tolist():
            here = trace.track[rows] == track
            reach = _reach(self._ends(track))[rows[here] - self._bounds[track]]
            overlapping[here] = reach > trace.start[rows[here]]
        loose: Int64 = rows[overlapped | overlapping]
        return loose

    def _ends(self, track: int) -> Int64:
        return self.trace.ends_of(slice(self._bounds[track], self._bounds[track + 1]))

    def _stack_reach(self, track: int) -> Int64:
        """Before each row of a track, how far the rows of its call stack have reached."""
        if track not in self._reach_of:
            begin, stop = self._bounds[track], self._bounds[track + 1]
            loose = self._loose_ranges
            ends = self._ends(track)
            ends[loose[(begin <= loose) & (loose < stop)] - begin] = 0
            self._reach_of[track] = _reach(ends)
        return self._reach_of[track]

    def _range_over(self, track: int, start: int, end: int) -> int:
        """The last of the loose ranges to open that covers more than half of an interval."""
        if track not in self._loose_of:
            bounds = self._bounds[track : track + 2]
            begin, stop = np.searchsorted(self._loose_ranges, bounds)
            rows = self._loose_ranges[begin:stop]
            self._loose_of[track] = rows, self.trace.start[rows], self.trace.ends_of(rows)
        rows, opened, closed = self._loose_of[track]
        if not len(rows):
            return NONE
        overlap = np.minimum(closed, end) - np.maximum(opened, start)
        covering = (2 * overlap > end - start).nonzero()[0]
        return int(rows[covering[-1]]) if len(covering) else NONE

    @cached_property
    def _wanted(self) -> Mask:
        return kinds.operators(self.trace) | kinds.ranges(self.trace)

    @cached_property
    def _bounds(self) -> Int64:
        return np.searchsorted(self.trace.track, np.arange(len(self.trace.tracks) + 1))

    def _open_over(self, track: int, start: int, end: int) -> int:
        """What covers more than half of an interval covers its middle."""
        trace, middle = self.trace, start + (end - start) // 2
        begin, stop = self._bounds[track], self._bounds[track + 1]
        # An int64: for a Python int all of the column would be converted.
        after = trace.start[begin:stop].searchsorted(np.int64(middle), side="right")
        row = int(begin + after) - 1
        while row >= begin:
            opened = int(trace.start[row])
            overlap = min(end, opened + int(trace.duration[row])) - max(start, opened)
            if self._wanted[row] and 2 * overlap > end - start:
                return row
            caller = int(trace.parent[row])
            if caller == NONE:
                # A range outside the call stack hides what was open when it began.
                if self._stack_reach(track)[row - begin] <= middle:
                    return NONE
                caller = row - 1
            row = caller
        return NONE


def _reach(ends: Int64) -> Int64:
    """Before each of some ends the largest of those so far, 0 before the first."""
    reach = np.zeros(len(ends), dtype=np.int64)
    np.maximum.accumulate(ends[:-1], out=reach[1:])
    return reach
