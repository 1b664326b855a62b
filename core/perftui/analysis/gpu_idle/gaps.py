"""The longest idle intervals of a device, each with its cause and what was going on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Idle, main_track
from perftui.analysis.intervals import Intervals
from perftui.analysis.kinds import track_bounds
from perftui.analysis.model import Gap, GapCause
from perftui.trace.model import NONE, Int64, Mask, Trace


@dataclass(frozen=True, eq=False)
class EnclosingOps:
    """Finds the operator or annotation that a time interval belongs to."""

    trace: Trace
    _waits_of: dict[int, tuple[Int64, Int64, Int64]] = field(default_factory=dict, init=False)
    _reach_of: dict[int, Int64] = field(default_factory=dict, init=False)

    def innermost(self, launch_rows: Int64, start: Int64, end: Int64) -> Int64:
        """For each ``[start, end)``, the innermost operator or range open for most of it, or NONE.

        Searched for on the launching thread, then on the main thread.
        """
        launching = np.where(launch_rows == NONE, NONE, self.trace.track[launch_rows])
        rows = np.full(len(start), NONE, dtype=np.int64)
        for threads in launching, np.full_like(launching, main_track(self.trace)):
            for thread in np.unique(threads[(rows == NONE) & (threads != NONE)]).tolist():
                here = np.flatnonzero((rows == NONE) & (threads == thread))
                nested = self._open_over(thread, start[here], end[here])
                loose = self._range_over(thread, start[here], end[here])
                inner = self.trace.start[loose] > self.trace.start[nested]
                rows[here] = np.where((loose != NONE) & (inner | (nested == NONE)), loose, nested)
        return rows

    def wait(self, launch_row: int, start: int, end: int) -> int:
        """The operator around the wait for the device that causes most of ``[start, end)``: by its
        time in it, or of the one under way at its start by all its time; the waiting call itself
        outside operators; NONE without a wait.

        Of nested waits, such as a call in ``aten::item``, the outermost counts.
        """
        for track in self._tracks(launch_row):
            rows, begins, ends = self._waits(track)
            first, last = int(np.searchsorted(ends, start)), int(np.searchsorted(begins, end))
            if first < last:
                lasting = np.minimum(ends[first:last], end) - begins[first:last]
                row = operator = int(rows[first + int(np.argmax(lasting))])
                is_operator = kinds.operators(self.trace)
                while operator != NONE and not is_operator[operator]:
                    operator = int(self.trace.parent[operator])
                return row if operator == NONE else operator
        return NONE

    def _tracks(self, launch_row: int) -> Iterable[int]:
        """The launching thread, then the main one, as far as they are known."""
        launching = NONE if launch_row == NONE else int(self.trace.track[launch_row])
        return [t for t in dict.fromkeys((launching, main_track(self.trace))) if t != NONE]

    def _waits(self, track: int) -> tuple[Int64, Int64, Int64]:
        """Rows, starts and ends of a thread's outermost waits, by time."""
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
        """Ranges outside the call stack: those that only partially overlap calls, as steps and
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
            reach = _reach(self._ends(track))[rows[here] - track_bounds(trace)[track]]
            overlapping[here] = reach > trace.start[rows[here]]
        loose: Int64 = rows[overlapped | overlapping]
        return loose

    def _ends(self, track: int) -> Int64:
        return self.trace.ends_of(slice(*track_bounds(self.trace)[track : track + 2]))

    def _stack_reach(self, track: int) -> Int64:
        """For each row of a track, the latest end of call stack rows before it."""
        if track not in self._reach_of:
            begin, stop = track_bounds(self.trace)[track : track + 2]
            loose = self._loose_ranges
            ends = self._ends(track)
            ends[loose[(begin <= loose) & (loose < stop)] - begin] = 0
            self._reach_of[track] = _reach(ends)
        return self._reach_of[track]

    def _range_over(self, track: int, start: Int64, end: Int64) -> Int64:
        """The last loose range to open that covers more than half of each interval, or NONE."""
        found = np.full(len(start), NONE, dtype=np.int64)
        first, last = np.searchsorted(
            self._loose_ranges, track_bounds(self.trace)[track : track + 2]
        )
        loose = self._loose_ranges[first:last]
        if len(loose):
            opened, closed = self.trace.start[loose], self.trace.ends_of(loose)
            for index, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
                overlap = np.minimum(closed, stop) - np.maximum(opened, begin)
                covering = loose[2 * overlap > stop - begin]
                found[index] = covering[-1] if len(covering) else NONE
        return found

    @cached_property
    def _wanted(self) -> Mask:
        return kinds.operators(self.trace) | kinds.ranges(self.trace)

    def _open_over(self, track: int, start: Int64, end: Int64) -> Int64:
        """The innermost call stack row over more than half of each interval, or NONE: it covers the
        middle."""
        trace, middle = self.trace, start + (end - start) // 2
        begin, stop = track_bounds(trace)[track : track + 2]
        rows = begin + np.searchsorted(trace.start[begin:stop], middle, side="right") - 1
        result = np.full(len(start), NONE, dtype=np.int64)
        active = np.flatnonzero(rows >= begin)
        while len(active):
            here = rows[active]
            covered = np.minimum(end[active], trace.start[here] + trace.duration[here])
            covered -= np.maximum(start[active], trace.start[here])
            over = self._wanted[here] & (2 * covered > end[active] - start[active])
            result[active[over]] = here[over]
            # A range outside the call stack hides rows that were open when it began.
            hides = self._stack_reach(track)[here - begin] > middle[active]
            callers = trace.parent[here]
            rows[active] = np.where((callers == NONE) & hides, here - 1, callers)
            active = active[~over & (rows[active] >= begin)]
        return result


def _reach(ends: Int64) -> Int64:
    """The maximum of all preceding ``ends``, 0 for the first."""
    reach = np.zeros(len(ends), dtype=np.int64)
    np.maximum.accumulate(ends[:-1], out=reach[1:])
    return reach


MOST = 10_000
"""Most gaps listed; all of them count in the budget. A large trace has millions."""


def lists_all(gaps: Iterable[Gap], device: int | None) -> bool:
    """Whether all gaps of that device are among ``gaps``, not only its longest."""
    return sum(gap.device == device for gap in gaps) < MOST


SHORTEST = 1_000
"""ns below which an idle interval is not listed: the device itself takes so long between
kernels."""


def list_gaps(
    device: int, idle: Idle, enclosing: EnclosingOps, phases: Mapping[str, Intervals]
) -> list[Gap]:
    """Idle intervals, including those before the first and after the last activity, longest first.

    The cause of a gap is the one that covers most of it.
    """
    lengths = idle.intervals.end - idle.intervals.start
    listed = np.flatnonzero(lengths >= SHORTEST)
    chosen = listed[np.argsort(-lengths[listed], kind="stable")[:MOST]]
    start, end = idle.intervals.start[chosen], idle.intervals.end[chosen]
    causes = list(idle.causes)
    shares = np.stack([idle.causes[cause].within(start, end) for cause in causes])
    names = _phase_names(phases, start, end)
    largest = np.argmax(shares, axis=0).tolist()
    operators = enclosing.innermost(idle.launch_row[chosen], start, end).tolist()
    gaps = []
    for index, position in enumerate(chosen.tolist()):
        cause, launch = causes[largest[index]], int(idle.launch_row[position])
        begin, stop = int(start[index]), int(end[index])
        gap = Gap(
            device=device,
            start=begin,
            end=stop,
            previous_row=int(idle.previous_row[position]),
            next_row=int(idle.next_row[position]),
            cause=cause,
            launch_row=launch,
            operator_row=operators[index],
            phase=names[index],
            wait_row=enclosing.wait(launch, begin, stop)
            if cause is GapCause.SYNCHRONISATION
            else NONE,
        )
        gaps.append(gap)
    return gaps


def not_listed(idle: Idle) -> str:
    """A note on idle intervals that ``list_gaps`` leaves out; empty if it lists all."""
    lengths = idle.intervals.end - idle.intervals.start
    short = lengths[lengths < SHORTEST]
    notes = []
    if len(lengths) - len(short) > MOST:
        notes.append(f"only the {MOST} longest gaps of a device are listed")
    if len(short):
        gaps = fmt.several(len(short), "gap")
        notes.append(
            f"{gaps} below {fmt.duration(SHORTEST)}, {fmt.duration(int(short.sum()))} in all, "
            f"{'is' if len(short) == 1 else 'are'} not listed"
        )
    return "; ".join(notes)


def _phase_names(phases: Mapping[str, Intervals], start: Int64, end: Int64) -> list[str]:
    """The phase that covers most of each gap; empty if none touches it."""
    names = ["", *phases]
    covered = [phase.within(start, end) for phase in phases.values()]
    # 1 ns for "none", so that it wins over phases that cover nothing.
    shares = np.stack([np.ones(len(start), dtype=np.int64), *(2 * share for share in covered)])
    return [names[index] for index in np.argmax(shares, axis=0).tolist()]
