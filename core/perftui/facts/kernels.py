"""Kernels of the busiest device in the steady steps: how long those of a kind take, where they come
from, and how they were launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.analysis.links import matching
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.gap_places import source_line
from perftui.facts.place import Place
from perftui.facts.trace_complete import no_kernels
from perftui.facts.trace_steps import TraceSteps, inside, trace_steps
from perftui.trace.categories import CPU_OP, DEVICE_ACTIVITY, KERNEL, LAUNCHES
from perftui.trace.model import NONE, Int64, Trace


@dataclass(frozen=True, eq=False)
class Kernels:
    """Rows of the kernels, ordered by start."""

    steps: TraceSteps
    rows: Int64

    def of(self, accepts: Callable[[str], bool]) -> Kernels:
        """Those of them whose names ``accepts`` accepts."""
        trace = self.steps.analysis.trace
        names = [at for at, name in enumerate(trace.names) if accepts(name)]
        chosen = np.isin(trace.name[self.rows], np.array(names, dtype=np.int64))
        return Kernels(self.steps, self.rows[chosen])

    @property
    def time(self) -> int:
        """What a mean step spends in them, ns: the union where several run at once. In a trace
        that marks no steps, all of it."""
        trace = self.steps.analysis.trace
        covered = union(trace.start[self.rows], trace.ends_of(self.rows)).total
        return covered // max(self.steps.steps, 1)

    def longest(self, most: int) -> list[tuple[str, int, Place]]:
        """By name, the one that takes longest first: its time in a mean step, ns, and where the
        longest of its calls was launched."""
        trace = self.steps.analysis.trace
        found = []
        for name in np.unique(trace.name[self.rows]).tolist():
            mine = self.rows[trace.name[self.rows] == name]
            time = Kernels(self.steps, mine).time
            longest = int(mine[np.argmax(trace.duration[mine])])
            found.append((trace.names[name], time, self._launched_at(longest)))
        return sorted(found, key=lambda one: (-one[1], one[0]))[:most]

    def _launched_at(self, row: int) -> Place:
        """The operator that launched a kernel, and the line above it where stacks were recorded."""
        trace = self.steps.analysis.trace
        launches = trace.in_category(*LAUNCHES)
        above = int(matching(trace.correlation, np.array([row]), launches)[0])
        while above != NONE and trace.categories[int(trace.category[above])] != CPU_OP:
            above = int(trace.parent[above])
        file, line = source_line(trace, above)
        start = int(trace.start[row])
        return Place(
            start=start,
            end=start + int(trace.duration[row]),
            trace_row=row,
            operator=trace.name_of(above) if above != NONE else None,
            file=file,
            line=line,
        )


@trace_fact
def kernels(analysis: TraceAnalysis) -> Kernels:
    """The kernels of the busiest device that begin in the steady steps.

    Raises:
        UnknownError: the trace shows none.
    """
    steps = trace_steps(analysis)
    if steps is None or not steps.has_gpu:
        raise UnknownError(no_kernels(analysis))
    trace = analysis.trace
    chosen = trace.in_category(KERNEL) & steps.on_device & inside(trace.start, steps)
    rows = np.flatnonzero(chosen).astype(np.int64)
    return Kernels(steps, rows[np.argsort(trace.start[rows], kind="stable")])


@dataclass(frozen=True)
class Launches:
    """How kernels reached a device."""

    kernels_per_step: int
    median_ns: int
    """Median duration of a kernel."""
    empty_queue: float | None
    """Share of linked launches that found the device with nothing running; None without links."""


@trace_fact
def launches(analysis: TraceAnalysis) -> Launches | None:
    """Of the busiest device in the steady steps; None where it ran no kernel there."""
    found = kernels(analysis)
    durations = np.sort(analysis.trace.duration[found.rows])
    if not len(durations):
        return None
    return Launches(
        kernels_per_step=len(durations) // max(found.steps.steps, 1),
        median_ns=int(durations[(len(durations) - 1) // 2]),
        empty_queue=_empty_queue(analysis.trace, found),
    )


def _empty_queue(trace: Trace, found: Kernels) -> float | None:
    """Share of launches of those kernels during which every earlier activity of their device was
    over.

    Activities of a device are ordered by start; the running maximum of their ends is when the
    device, over all its streams, has nothing left of what came before.
    """
    # Marks that the profiler copies onto the device's tracks span whole steps: they are no work.
    work = trace.in_category(*DEVICE_ACTIVITY) & found.steps.on_device
    rows = np.flatnonzero(work).astype(np.int64)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    ends = np.maximum.accumulate(trace.ends_of(rows))
    earlier = np.concatenate(([np.iinfo(np.int64).min], ends[:-1]))
    chosen = np.isin(rows, found.rows)
    launch = matching(trace.correlation, rows[chosen], trace.in_category(*LAUNCHES))
    known = launch != NONE
    if not known.any():
        return None
    return float(np.mean(earlier[chosen][known] <= trace.start[launch[known]]))
