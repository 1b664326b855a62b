"""A trace's rows as HTA (HolisticTraceAnalysis) has them, one disagreement with it at a time.

Without any disagreement these are our own rows: device activity, exact times, all steps.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from perftui.analysis import kinds
from perftui.trace.kineto.arguments import ArgumentReader
from perftui.trace.model import NONE, Int64, Trace
from tests.verify.corpus.collection import ROOT
from tests.verify.corpus.opened import Opened, as_doubles, opened
from tests.verify.corpus.outcome import Differs

Float64 = npt.NDArray[np.float64]

_STEP = re.compile(r"ProfilerStep#\d+")
_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_MEMORY = re.compile(r"(hip)?Mem(cpy|set)|dma")
_NO_COMPUTATION = re.compile(
    r"nccl|.*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|hip|hccl"
    r"|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution"
)
_OUTSIDE_STREAMS = frozenset({"Event Sync", "Context Sync"})


class _Arguments(msgspec.Struct):
    stream: Any = None


class _Event(msgspec.Struct):
    ph: Any = None
    cat: str | None = None
    args: _Arguments | None = None


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 - as the file spells it


@cache
def streams(name: str) -> Int64:
    """The stream among each row's arguments, NONE where there is none; read from the file anew."""
    it = opened(name)
    reader = it.trace.read_arguments
    assert isinstance(reader, ArgumentReader)
    raw = (ROOT / name).read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    found = [
        _number(event.args.stream if event.args else None)
        for event in msgspec.json.decode(text, type=_File).traceEvents
        if event.ph == "X" and (event.cat is None or event.cat.lower() != "trace")
    ]
    column: Int64 = np.array(found, dtype=np.int64)[reader.sequence]
    return column


def _number(value: Any) -> int:
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return NONE


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows that count as device activity, with times in us."""

    name: str
    differs: frozenset[Differs]

    @cached_property
    def it(self) -> Opened:
        return opened(self.name)

    @cached_property
    def trace(self) -> Trace:
        return self.it.trace

    @cached_property
    def stream(self) -> Int64:
        return streams(self.name)

    @cached_property
    def times(self) -> tuple[Float64, Float64]:
        """Start and duration of all rows."""
        trace = self.trace
        if not self.differs & {Differs.ROUNDED, Differs.DOUBLES}:
            return trace.start / 1000, trace.duration / 1000
        start = as_doubles(trace.start + trace.origin)
        duration = trace.duration / 1000
        if Differs.ROUNDED in self.differs:
            end = np.floor(start + duration)
            start = np.ceil(start)
            duration = end - start
        # HTA leaves rows without a category out, and counts from the first that it keeps.
        return start - start.min(), duration

    @cached_property
    def kept(self) -> kinds.Mask:
        """All rows but those that the step filter drops."""
        trace = self.trace
        steps = kinds.named(trace, _STEP.match)
        dropping = self.differs & {Differs.UNLINKED, Differs.LAST_STEP}
        if not dropping or len(np.unique(trace.name[steps])) < 2:
            return np.ones(len(trace), dtype=bool)
        outside = kinds.named(trace, _OUTSIDE_STREAMS.__contains__)
        on_device = ((self.stream >= 0) & (trace.correlation >= 0)) | outside
        start, duration = self.times
        marks = steps & ~on_device
        if Differs.LAST_STEP in dropping:
            early = start < start[marks].max()
        else:
            early = start <= (start + duration)[marks].max()
        launched = np.isin(trace.correlation, trace.correlation[early & ~on_device])
        kept: kinds.Mask = np.where(on_device, launched, early)
        return kept

    @cached_property
    def rows(self) -> Int64:
        if Differs.STREAM_ROWS in self.differs:
            busy = self.stream != NONE
        else:
            busy = kinds.device_activity(self.trace)
        return np.flatnonzero(busy & self.kept).astype(np.int64)

    def of(self, chosen: kinds.Mask) -> tuple[Float64, Float64]:
        """Merged starts and ends of the chosen rows (a mask of the whole trace)."""
        rows = self.rows[chosen[self.rows]]
        start, duration = self.times
        return merged(start[rows], (start + duration)[rows])

    @cached_property
    def communication(self) -> kinds.Mask:
        if Differs.NAMES in self.differs:
            return kinds.named(self.trace, _COMMUNICATION.match)
        return kinds.communication(self.trace)

    @cached_property
    def memory(self) -> kinds.Mask:
        if Differs.NAMES in self.differs:
            return kinds.named(self.trace, _MEMORY.match) & ~self.communication
        return self.trace.in_category("gpu_memcpy", "gpu_memset")

    @cached_property
    def computation(self) -> kinds.Mask:
        trace = self.trace
        kernels = trace.in_category("kernel") & ~self.communication
        if not self.differs & {Differs.NAMES, Differs.STREAM_ROWS}:
            return kernels
        others = kinds.named(trace, _NO_COMPUTATION.match) | self.communication | self.memory
        by_name: kinds.Mask = ~others
        return by_name if Differs.NAMES in self.differs else by_name | kernels


@cache
def frame(name: str, differs: frozenset[Differs]) -> Frame:
    return Frame(name, differs)


def merged(start: Float64, end: Float64) -> tuple[Float64, Float64]:
    """The union; an interval that ends before it starts, as rounding makes them, counts as HTA
    counts it."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    opens = np.append(True, start[1:] > np.maximum.accumulate(end)[:-1])
    first = np.flatnonzero(opens)
    return start[first], np.maximum.reduceat(end, first)
