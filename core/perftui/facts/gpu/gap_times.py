"""The listed idle intervals of all devices as arrays, by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import Intervals, union
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.trace.model import Int64


@dataclass(frozen=True, eq=False)
class GapTimes:
    """Gaps that one cause explains for the most part, one element each, longest first."""

    device: Int64
    start: Int64
    end: Int64

    @property
    def total(self) -> int:
        """Their time in ns, of all devices together."""
        return int((self.end - self.start).sum())

    def of(self, device: int | None) -> Intervals:
        """When that device idled so."""
        mine = self.device == device
        return union(self.start[mine], self.end[mine])


@trace_fact
def gap_times(analysis: TraceAnalysis) -> Mapping[GapCause, GapTimes]:
    """The gaps of each cause that has any."""
    groups: dict[GapCause, list[tuple[int, int, int]]] = {}
    for gap in analysis.gaps:
        groups.setdefault(gap.cause, []).append((gap.device, gap.start, gap.end))
    return {cause: GapTimes(*np.array(each, np.int64).T) for cause, each in groups.items()}


@trace_fact
def recorded(analysis: TraceAnalysis) -> tuple[int, int]:
    """When the first event of the trace begins, and the last ends, ns; zeros without events."""
    trace = analysis.trace
    first = int(trace.start.min(initial=0))
    return first, int(trace.ends_of(slice(None)).max(initial=first))
