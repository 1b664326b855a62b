"""Traces of the collection as the tests measure them, opened once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from perftui.analysis import kinds
from perftui.analysis.analyse import analyse
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import Links, link
from perftui.trace.formats import load_trace
from perftui.trace.model import NONE, Int64, Trace
from tests.verify.corpus.collection import ROOT


@dataclass(frozen=True, eq=False)
class Device:
    """Device activity of a trace, all devices together as the expected values have it."""

    trace: Trace
    links: Links
    kept: kinds.Mask

    @cached_property
    def rows(self) -> Int64:
        return self.links.activity[self.kept]

    def covered(self, chosen: kinds.Mask) -> Intervals:
        rows = self.rows[chosen[self.rows]]
        return union(self.trace.start[rows], self.trace.end[rows])

    @cached_property
    def busy(self) -> Intervals:
        return self.covered(kinds.device_activity(self.trace))

    @cached_property
    def span(self) -> int:
        return int(self.trace.end[self.rows].max() - self.trace.start[self.rows].min())

    @cached_property
    def is_communication(self) -> kinds.Mask:
        return kinds.communication(self.trace)

    @cached_property
    def communication(self) -> Intervals:
        return self.covered(self.is_communication)

    @cached_property
    def kernels(self) -> Intervals:
        return self.covered(self.trace.in_category("kernel") & ~self.is_communication)

    @cached_property
    def computing(self) -> Intervals:
        sets = self.trace.in_category("gpu_memset")
        return self.covered((self.trace.in_category("kernel") & ~self.is_communication) | sets)

    @cached_property
    def kernel_rows(self) -> Int64:
        return self.rows[self.trace.in_category("kernel")[self.rows]]


@dataclass(frozen=True, eq=False)
class Opened:
    trace: Trace
    analysis: TraceAnalysis
    links: Links

    @cached_property
    def device(self) -> Device:
        return Device(self.trace, self.links, np.ones(len(self.links.activity), dtype=bool))

    @cached_property
    def linked(self) -> Device:
        return Device(self.trace, self.links, self.links.launch != NONE)

    @cached_property
    def as_doubles(self) -> Opened:
        """With absolute times held as doubles of microseconds, as many tools do.

        In recent files that rounds each to 0.25 us."""
        start = as_doubles(self.trace.start + self.trace.origin)
        end = start + self.trace.duration / 1000
        begin, stop = (
            np.rint((times - start.min()) * 1000).astype(np.int64) for times in (start, end)
        )
        trace = replace(self.trace, start=begin, duration=stop - begin)
        return Opened(trace, self.analysis, self.links)

    def total(self, attribute: str) -> int:
        return sum(getattr(each, attribute) for each in self.analysis.activity)


def as_doubles(nanoseconds: Int64) -> npt.NDArray[np.float64]:
    """Microseconds as reading their decimals gives them."""
    return (nanoseconds // 1000).astype(np.float64) + (nanoseconds % 1000) / 1000


@cache
def opened(name: str) -> Opened:
    trace = load_trace(ROOT / name)
    return Opened(trace, analyse(trace), link(trace))
