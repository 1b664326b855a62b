"""One group of calls, or one kernel, opened: what it launched, who calls it, and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.grouping import first_longest, sums
from perftui.analysis.kinds import Mask
from perftui.analysis.model import KernelTable
from perftui.analysis.ops.call_tree import innermost, recursive
from perftui.analysis.ops.calls import Calls
from perftui.trace.categories import CPU_OP
from perftui.trace.model import NONE, Int64, Ints, Trace

MOST_PLACES = 5
"""Longest calls that are listed."""

NOBODY = "(no recorded caller)"
NO_CALL = "(no launching call in the trace)"


@dataclass(frozen=True)
class Part:
    """What one caller, kernel or stream has of the whole."""

    label: str
    count: int
    time: int
    row: int
    """The longest one, to go to."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Durations of some rows, ns."""

    count: int
    shortest: int
    median: int
    """The lower one of two in the middle."""
    longest: int
    total: int

    @classmethod
    def of(cls, durations: Int64) -> Spread:
        """The spread of ``durations``, one at least."""
        middle = (len(durations) - 1) // 2
        return cls(
            len(durations),
            int(durations.min()),
            int(np.partition(durations, middle)[middle]),
            int(durations.max()),
            int(durations.sum()),
        )


@dataclass(frozen=True, eq=False)
class Detail:
    """All that the trace holds of one group of calls, or of one kernel."""

    label: str
    trace: Trace
    rows: Int64
    """By start."""
    spread: Spread
    callers: tuple[Part, ...]
    """Most time first. Of calls, their times sum to the total of the group: a call inside another
    of its group is in that one's. Of a kernel, to its own."""
    inner: int
    """How many of the calls run inside another of the group."""
    kernels: tuple[Part, ...] = ()
    """What calls launched, with what they called: names by category."""
    places: tuple[Part, ...] = ()
    """Threads or streams that it runs on."""

    @property
    def is_one_operator(self) -> bool:
        """Whether all of it are calls of one operator, which have shapes."""
        kinds, names = self.trace.category[self.rows], self.trace.name[self.rows]
        same = bool((kinds == kinds[0]).all() and (names == names[0]).all())
        return same and self.trace.categories[int(kinds[0])] == CPU_OP

    @property
    def longest(self) -> list[int]:
        """Rows of the longest, longest first."""
        lasting = self.trace.duration[self.rows]
        return [int(self.rows[at]) for at in np.argsort(-lasting, kind="stable")[:MOST_PLACES]]


def open_group(trace: Trace, calls: Calls, label: str) -> Detail | None:
    """The calls of one group of ``calls``; None where there are none."""
    if label not in calls.labels:
        return None
    number = calls.labels.index(label)
    mask = np.zeros(len(trace), dtype=bool)
    mask[calls.rows] = calls.trace.name[calls.rows] == number
    rows = np.flatnonzero(mask)
    if not len(rows):
        return None
    inside = recursive(calls.trace, rows, calls.callers)
    outer = rows[~inside]
    by_start = rows[np.argsort(trace.start[rows], kind="stable")]
    return Detail(
        label=label,
        trace=trace,
        rows=by_start,
        spread=Spread.of(trace.duration[rows]),
        callers=_callers(calls, outer),
        inner=int(inside.sum()),
        kernels=_kernels(trace, calls, mask),
        places=_by_track(trace, rows),
    )


def groups_of(calls: Calls, rows: Int64) -> tuple[Part, ...]:
    """The groups that some calls of ``calls`` are in, with their durations, longest first."""
    return parts_of(calls.trace.name[rows], calls.trace.duration[rows], rows, calls.labels)


def _callers(calls: Calls, rows: Int64) -> tuple[Part, ...]:
    above = calls.callers[rows]
    group = np.where(above == NONE, len(calls.labels), calls.trace.name[above])
    return parts_of(group, calls.times.lasting[rows], rows, (*calls.labels, NOBODY))


def _kernels(trace: Trace, calls: Calls, mask: Mask) -> tuple[Part, ...]:
    around = innermost(trace, mask)
    linked = calls.launchers != NONE
    under = linked.copy()
    under[linked] = around[calls.launchers[linked]] != NONE
    rows = calls.links.activity[under]
    return parts_of(trace.name[rows], trace.duration[rows], rows, trace.names)


def _by_track(trace: Trace, rows: Int64) -> tuple[Part, ...]:
    labels = tuple(str(number) for number in range(len(trace.tracks)))
    return parts_of(trace.track[rows], trace.duration[rows], rows, labels)


def parts_of(group: Ints, lasting: Int64, rows: Int64, labels: tuple[str, ...]) -> tuple[Part, ...]:
    """What each group has of some rows, most time first; ``group`` numbers ``labels``."""
    if not len(rows):
        return ()
    found, dense = np.unique(group, return_inverse=True)
    total = sums(dense, lasting, len(found))
    counts = np.bincount(dense, minlength=len(found))
    longest = rows[first_longest(dense, lasting, len(found))]
    return tuple(
        Part(labels[int(found[at])], int(counts[at]), int(total[at]), int(longest[at]))
        for at in np.argsort(-total, kind="stable").tolist()
    )


def open_kernel(trace: Trace, calls: Calls, kernels: KernelTable, line: int) -> Detail | None:
    """One line of the kernel table: who launched it, by the groups of ``calls``."""
    links = calls.links
    name, category = kernels.names[line], kernels.categories[line]
    same = _numbers(trace.names, name)[trace.name[links.activity]]
    same &= _numbers(trace.categories, category)[trace.category[links.activity]]
    rows = links.activity[same]
    if not len(rows):
        return None
    launchers = calls.launchers[same]
    nobody = len(calls.labels)
    group = np.where(launchers == NONE, nobody, calls.trace.name[launchers])
    lasting = trace.duration[rows]
    parts = parts_of(
        group, lasting, np.where(launchers == NONE, rows, launchers), (*calls.labels, NO_CALL)
    )
    return Detail(
        label=name,
        trace=trace,
        rows=rows,
        spread=Spread.of(lasting),
        callers=parts,
        inner=0,
        places=_by_track(trace, rows),
    )


def _numbers(words: tuple[str, ...], word: str) -> Mask:
    return np.array([each == word for each in words], dtype=bool)
