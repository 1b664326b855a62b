"""Details of one group of calls, or one kernel: what it launched, who calls it, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import first_longest, mask_of, sums
from perftui.analysis.model import KernelTable, OpTable
from perftui.analysis.ops.calls import Calls, callers_of, innermost, recursive
from perftui.trace.model import CPU_OP, NONE, PYTHON, Int32, Int64, Ints, Mask, Trace

MOST_PLACES = 5
"""Number of longest calls listed."""

NOBODY = "(no recorded caller)"
NO_CALL = "(no launching call in the trace)"


@dataclass(frozen=True)
class Part:
    """The part of one caller, kernel or stream."""

    label: str
    count: int
    time: int
    row: int
    """Row of the longest call, to jump to."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Spread of durations, ns."""

    count: int
    shortest: int
    median: int
    """The lower one of two in the middle."""
    longest: int
    total: int

    @classmethod
    def of(cls, durations: Int64) -> Spread:
        """The spread of ``durations`` (at least one)."""
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
    """Everything in the trace about one group of calls, or one kernel."""

    label: str
    trace: Trace
    rows: Int64
    """By start."""
    spread: Spread
    callers: tuple[Part, ...]
    """Most time first. For calls, times sum to the group's total: a call inside another of its
    group is in that one's time. For a kernel, to its own time."""
    inner: int
    """Number of calls inside another one of the group."""
    kernels: tuple[Part, ...] = ()
    """Kernels launched by the calls and what they called, by name."""
    places: tuple[Part, ...] = ()
    """Threads or streams that it runs on."""

    @property
    def is_one_operator(self) -> bool:
        """Whether all calls are of a single operator, which has shapes."""
        kinds, names = self.trace.category[self.rows], self.trace.name[self.rows]
        same = bool((kinds == kinds[0]).all() and (names == names[0]).all())
        return same and self.trace.categories[int(kinds[0])] == CPU_OP

    @property
    def longest(self) -> list[int]:
        """Rows of the longest calls, longest first."""
        lasting = self.trace.duration[self.rows]
        return [int(self.rows[at]) for at in np.argsort(-lasting, kind="stable")[:MOST_PLACES]]


def open_group(trace: Trace, calls: Calls, label: str) -> Detail | None:
    """The calls of one group of ``calls``; None without any."""
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
    above = calls.callers[outer]
    group = np.where(above == NONE, len(calls.labels), calls.trace.name[above])
    around, linked = innermost(trace, mask), calls.launchers != NONE
    under = linked.copy()
    under[linked] = around[calls.launchers[linked]] != NONE
    kernels = calls.links.activity[under]
    return Detail(
        label=label,
        trace=trace,
        rows=by_start,
        spread=Spread.of(trace.duration[rows]),
        callers=parts_of(group, calls.times.lasting[outer], outer, (*calls.labels, NOBODY)),
        inner=int(inside.sum()),
        kernels=parts_of(trace.name[kernels], trace.duration[kernels], kernels, trace.names),
        places=_by_track(trace, rows),
    )


def _by_track(trace: Trace, rows: Int64) -> tuple[Part, ...]:
    labels = tuple(str(number) for number in range(len(trace.tracks)))
    return parts_of(trace.track[rows], trace.duration[rows], rows, labels)


def parts_of(group: Ints, lasting: Int64, rows: Int64, labels: tuple[str, ...]) -> tuple[Part, ...]:
    """Count and time of some rows by group, most time first; ``group`` indexes ``labels``."""
    if not len(rows):
        return ()
    numbers, dense = np.unique(group, return_inverse=True)
    total = sums(dense, lasting, len(numbers))
    counts = np.bincount(dense, minlength=len(numbers))
    longest = rows[first_longest(dense, lasting, len(numbers))]
    return tuple(
        Part(labels[int(numbers[at])], int(counts[at]), int(total[at]), int(longest[at]))
        for at in np.argsort(-total, kind="stable").tolist()
    )


def open_kernel(trace: Trace, calls: Calls, kernels: KernelTable, line: int) -> Detail | None:
    """One row of the kernel table, with its launching groups of ``calls``."""
    activity, name = calls.links.activity, kernels.names[line]
    same = trace.in_category(kernels.categories[line])[activity]
    same &= kinds.named(trace, name.__eq__)[activity]
    rows = activity[same]
    if not len(rows):
        return None
    launchers = calls.launchers[same]
    group = np.where(launchers == NONE, len(calls.labels), calls.trace.name[launchers])
    lasting, callers = trace.duration[rows], np.where(launchers == NONE, rows, launchers)
    return Detail(
        label=name,
        trace=trace,
        rows=rows,
        spread=Spread.of(lasting),
        callers=parts_of(group, lasting, callers, (*calls.labels, NO_CALL)),
        inner=0,
        places=_by_track(trace, rows),
    )


_BACKWARD = re.compile(
    r"torch/_tensor\.py\(\d+\): backward"
    r"|torch/autograd/\w+\.py\(\d+\): (_engine_run_)?(backward|grad)"
    r"|<built-in (method|function) run_backward"
)
"""Frames in which a thread waits for the backward pass it has begun."""


def calling_frames(trace: Trace, lines: Mask) -> Int32:
    """The innermost of the frames ``lines`` around each row, or NONE.

    Work on autograd's own threads is attributed to the line that began the backward pass, which
    waits for it meanwhile.
    """
    around = innermost(trace, lines)
    # The outermost frames of backward calls made by a line of the user's.
    frames = trace.in_category(PYTHON) & kinds.named(trace, _BACKWARD.match)
    above = callers_of(trace, innermost(trace, frames))
    begun = np.flatnonzero(frames & (above == NONE) & (around != NONE))
    # Rows of the threads that autograd runs operators on.
    engine = mask_of(len(trace.tracks), trace.track[kinds.of_autograd(trace)])
    outside = np.flatnonzero(kinds.operators(trace) & (around == NONE) & engine[trace.track])
    if not len(begun) or not len(outside):
        return around
    # Processes of each rank, for merged ranks.
    numbers: dict[tuple[int, str], int] = {}
    ids = [numbers.setdefault((track.rank, track.process), len(numbers)) for track in trace.tracks]
    process = np.array(ids, dtype=np.int64)
    for number in np.unique(process[trace.track[outside]]).tolist():
        calls = begun[process[trace.track[begun]] == number]
        rows = outside[process[trace.track[outside]] == number]
        if not len(calls):
            continue
        calls = calls[np.argsort(trace.start[calls], kind="stable")]
        at = np.searchsorted(trace.start[calls], trace.start[rows], side="right") - 1
        within = (at >= 0) & (trace.start[rows] < trace.ends_of(calls)[np.maximum(at, 0)])
        around[rows[within]] = around[calls[at[within]]]
    return around


OUTSIDE = "(in no module)"
"""Operators outside modules: those of the backward pass, the optimizer and the script."""


def module_calls(trace: Trace) -> Calls | None:
    """Calls of modules, with operators outside them as another group; None without modules."""
    modules = kinds.module_calls(trace)
    if not modules.any():
        return None
    # Calls within a module are part of it, so only operators outside are separate.
    outside = kinds.operators(trace) & (innermost(trace, modules) == NONE)
    shown = [kinds.module_of(name) for name in trace.names]
    group = np.where(modules, trace.name, len(shown)).astype(np.int32)
    return Calls.of_labels(trace, modules | outside, group, [*shown, OUTSIDE])


def module_table(trace: Trace) -> OpTable:
    """A row for each module, named by its place in the model, and one for what ran outside.

    A module's own time is that of its calls without inner modules, including Python; its device
    time is what was launched meanwhile. Own times of one thread sum to its time in modules and
    operators. Empty if no module is marked.
    """
    calls = module_calls(trace)
    if calls is None:
        return OpTable.empty()
    table = calls.table()
    is_outside = np.array([name == OUTSIDE for name in table.names], dtype=bool)
    # Work outside modules comes last; modules within it are not part of it.
    order = np.argsort(is_outside, kind="stable")
    columns = {column.name: getattr(table, column.name) for column in fields(OpTable)}
    columns["cpu_total"] = np.where(is_outside, table.cpu_self, table.cpu_total)
    columns["device_total"] = np.where(is_outside, table.device_self, table.device_total)
    names = tuple(table.names[row] for row in order.tolist())
    return OpTable(names, *(columns[column.name][order] for column in fields(OpTable)[1:]))
