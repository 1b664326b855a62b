"""The newest step of a trace in columns of equal time: its phases, and what was busy in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.host import main_track
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.model import Gap, Step, TraceAnalysis
from perftui.analysis.once import once
from perftui.analysis.steps.phases import find_phases
from perftui.trace.model import NONE, Trace

MOST_DEVICES = 8


@dataclass(frozen=True)
class BusyColumns:
    """How much of each column a device, or the training thread's operators, covered."""

    device: int
    """NONE for the training thread."""
    shares: tuple[float, ...]
    """0 to 1."""


@dataclass(frozen=True)
class StepColumns:
    """One step, cut into columns of equal time."""

    step: Step
    phases: tuple[str, ...]
    """Of each column the phase that covers most of it; empty where none covers any."""
    busy: tuple[BusyColumns, ...]
    """One for each device with work in the trace; without a device that of the training thread."""
    gaps: tuple[Gap, ...]
    """Those of the first device within the step, longest first."""

    def column_of(self, time: int) -> int:
        """The column that holds ``time``, ns since the trace's origin, the nearest outside it."""
        count = len(self.phases)
        at = (time - self.step.start) * count // max(self.step.duration, 1)
        return min(max(int(at), 0), count - 1)


def step_columns(analysis: TraceAnalysis, columns: int) -> StepColumns | None:
    """The newest whole step; None where none is marked, or of several ranks put together."""
    if not analysis.steps or analysis.ranks or columns < 1:
        return None
    # Device and host go by the same clock here, so that a gap stands below what the host does.
    step = max(analysis.steps, key=lambda one: one.start)
    edges = np.linspace(step.start, step.end, columns + 1).astype(np.int64)
    trace = analysis.trace
    busy = tuple(
        BusyColumns(device, tuple(_shares(intervals, edges).tolist()))
        for device, intervals in _working(trace).items()
    )
    first = busy[0].device if busy else NONE
    gaps = (one for one in analysis.gaps if one.device == first)
    within = tuple(one for one in gaps if one.start < step.end and one.end > step.start)
    return StepColumns(step, _phases(trace, edges), busy, within)


def _phases(trace: Trace, edges: npt.NDArray[np.int64]) -> tuple[str, ...]:
    found = find_phases(trace)
    names = ("", *found)
    nothing = np.zeros(len(edges) - 1)
    covered = np.stack([nothing, *(_shares(one, edges) for one in found.values())])
    return tuple(names[at] for at in covered.argmax(axis=0).tolist())


@once
def _working(trace: Trace) -> dict[int, Intervals]:
    """When each device had work; without any when the training thread was in an operator."""
    near = kinds.believable(trace) if len(trace) else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(kinds.device_activity(trace) & near)
    if not len(rows):
        mask = kinds.operators(trace) & (trace.track == main_track(trace)) & near
        return {NONE: union(trace.start[mask], trace.ends_of(mask))}
    devices = kinds.devices(trace)[rows]
    numbers = np.unique(devices).tolist()[:MOST_DEVICES]
    of_each = {int(number): rows[devices == number] for number in numbers}
    return {n: union(trace.start[mine], trace.ends_of(mine)) for n, mine in of_each.items()}


def _shares(intervals: Intervals, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Which share of each column is covered."""
    lengths = np.maximum(np.diff(edges), 1)
    shares: npt.NDArray[np.float64] = intervals.within(edges[:-1], edges[1:]) / lengths
    return shares
