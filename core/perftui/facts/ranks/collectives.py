"""Collectives of the steady steps: their kinds, sizes and times."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, intersect, subtract, union
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import launch_of
from perftui.analysis.steps import BACKWARD
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact, trace_fact
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import DEVICE_ACTIVITY, MEMCPY, NONE, Int64, Mask, Trace, TraceError

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all-reduce", "all-gather", "reduce-scatter"

_KINDS = {"allreduce": ALL_REDUCE, "allgather": ALL_GATHER, "reducescatter": REDUCE_SCATTER}

_BYTES = {
    **dict.fromkeys(("double", "long", "long int"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("half", "bfloat16", "c10::half", "c10::bfloat16", "short"), 2),
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1),
}
"""Bytes of an element, by Kineto's type name."""

_ANNOTATION = "nccl:all_reduce"
"""The range around a launch whose tensor is input and output as a whole; others have parts."""

_LEVELS = 4
"""Most ranges and operators around a launch: the call, its annotation, its operators."""


def _described(trace: Trace, row: int, launch: int) -> tuple[str, int | None, int | None]:
    """Kind, size and number of ranks of the collective of the kernel at ``row`` launched at
    ``launch``: from its arguments, else its name (RCCL's kernels have none) and the events around
    the launch. The kind is empty for others; the size is that of the whole tensor in bytes, the
    larger of a rank's input and output."""
    args = _arguments(trace, row)
    kind = _kind(str(args.get("Collective name") or trace.name_of(row)))
    size = _counted(args)
    for _ in range(_LEVELS):
        if size is not None or launch == NONE:
            break
        launch = int(trace.parent[launch])
        if launch != NONE:
            around = _arguments(trace, launch)
            size = _counted(around)
            kind = kind or _kind(str(around.get("Collective name", "")))
            if size is None and trace.name_of(launch) == _ANNOTATION:
                size = _of_shapes(around)
    # All ranks of the training, if those of the collective are not recorded.
    info = trace.metadata.get("distributedInfo")
    counts = (args.get("Group size"), info.get("world_size") if isinstance(info, Mapping) else None)
    ranks = next((count for count in counts if isinstance(count, int) and count > 0), None)
    return kind, size, ranks


def _arguments(trace: Trace, row: int) -> Mapping[str, Any]:
    """Arguments of a row; empty if the file is gone."""
    try:
        return trace.read_arguments(row)
    except (OSError, TraceError, msgspec.DecodeError):
        return {}


def _kind(name: str) -> str:
    """The kind of collective of a call or kernel name; empty for others."""
    plain = name.replace("_", "").lower()
    return next((kind for word, kind in _KINDS.items() if word in plain), "")


def _counted(arguments: Mapping[str, Any]) -> int | None:
    """Bytes, from the number of elements."""
    width = _BYTES.get(str(arguments.get("dtype", "")).lower())
    counts = (arguments.get("In msg nelems"), arguments.get("Out msg nelems"))
    most = max((count for count in counts if isinstance(count, int)), default=0)
    return most * width if width and most else None


def _of_shapes(arguments: Mapping[str, Any]) -> int | None:
    """Bytes of the first tensor."""
    try:
        shape, kind = arguments["Input Dims"][0], arguments["Input type"][0]
        width = _BYTES.get(str(kind).lower())
        return math.prod(shape) * width if width and shape else None
    except (KeyError, IndexError, TypeError):
        return None


MOST_CALLS = 1_000
"""Number of first calls whose arguments are read; each takes 5 us and more."""

_SYNC_NORM = re.compile("SyncBatchNorm")
"""Part of operator names of synchronised batch normalisation, forward and backward."""

_NORM_LEVELS = 6
"""Most operators around the launch of a collective."""


@dataclass(frozen=True, eq=False)
class CollectiveCalls:
    """Collective kernels of the judged device by start; all columns are as long as ``rows``."""

    steps: int
    """Steps that they belong to; 1 for the whole of a trace without marked steps."""
    rows: Int64
    duration: Int64
    kind: tuple[str, ...]
    """``all-reduce`` and the like; empty for other kinds."""
    size: Int64
    """Bytes; NONE if not recorded."""
    ranks: Int64
    """Participating ranks; NONE if not recorded."""
    of_norm: Mask
    """Which calls belong to synchronised batch normalisation."""
    _times: tuple[Int64, Int64] = field(repr=False)
    _computing: Intervals = field(repr=False)

    def are(self, kind: str) -> Mask:
        """Mask of the calls of one kind."""
        return np.array([other == kind for other in self.kind], dtype=bool)

    def under_way(self, chosen: Mask) -> Intervals:
        """When any of the ``chosen`` calls was under way."""
        start, end = self._times
        return union(start[chosen], end[chosen])

    def exposed(self, chosen: Mask) -> int:
        """Mean ns per step in which a ``chosen`` call was under way and nothing computed."""
        return subtract(self.under_way(chosen), self._computing).total // self.steps


@trace_fact
def collective_calls(analysis: TraceAnalysis) -> CollectiveCalls:
    """The collectives that begin in the steady steps. Not applicable without collectives or a GPU
    in the trace. Unknown if the trace has no duration."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    collectives = kinds.communication(trace)
    if not steps.has_gpu or not collectives.any():
        raise NotApplicableError
    rows = np.flatnonzero(collectives & steps.on_device & steps.inside).astype(np.int64)
    if not len(rows):
        raise NotApplicableError
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    launch = launch_of(trace, rows)
    calls = [
        _described(trace, int(row), int(call))
        for row, call in zip(rows[:MOST_CALLS], launch[:MOST_CALLS], strict=True)
    ]
    calls += [("", None, None)] * (len(rows) - len(calls))
    return CollectiveCalls(
        max(steps.steps, 1),
        rows,
        trace.duration[rows].astype(np.int64),
        tuple(kind for kind, _, _ in calls),
        np.array([size or NONE for _, size, _ in calls], dtype=np.int64),
        np.array([ranks or NONE for _, _, ranks in calls], dtype=np.int64),
        kinds.under(trace, launch, kinds.named(trace, _SYNC_NORM.search), _NORM_LEVELS),
        (trace.start[rows], trace.ends_of(rows)),
        _computing(steps),
    )


def _computing(steps: TraceSteps) -> Intervals:
    trace = steps.analysis.trace
    rows = trace.in_category(*DEVICE_ACTIVITY) & steps.on_device & ~kinds.communication(trace)
    rows &= ~trace.in_category(MEMCPY)
    return kinds.busy(trace, rows)


MOST_RANKS = 64
"""Most ranks whose windows are read; each takes a fraction of a second, once."""


@trace_fact
def collective_time(analysis: TraceAnalysis) -> int:
    """Mean ns per steady step in which a collective was under way on the rank: kernels of the
    busiest device, or on the CPU what a library such as Gloo marks. It ends when the last rank has
    come and data is through, so a rank that comes early spends more. Unknown if the trace has no
    marked steps or no collectives."""
    steps = trace_steps(analysis)
    if steps is None or not steps.steps:
        raise UnknownError("the trace marks no steps")
    under_way = collectives(analysis)
    if not len(under_way):
        raise UnknownError("no collective is in the trace")
    return intersect(under_way, steps.times).total // steps.steps


@trace_fact
def collectives_a_step(analysis: TraceAnalysis) -> float:
    """Mean number of collectives that a steady step begins on the host; 0 without recorded
    calls."""
    steps = trace_steps(analysis)
    if steps is None or not steps.steps:
        return 0.0
    calls = kinds.collective_calls(analysis.trace) & steps.inside
    return np.count_nonzero(calls) / steps.steps


def collectives(analysis: TraceAnalysis) -> Intervals:
    """Time with any collective under way: on the busiest device, or without one on the library's
    threads."""
    trace, steps = analysis.trace, trace_steps(analysis)
    if steps is not None and steps.has_gpu:
        rows = kinds.communication(trace) & steps.on_device
    else:
        rows = kinds.host_collectives(trace)
    return kinds.busy(trace, rows)


@fact
def collectives_of_ranks(facts: Facts) -> Mapping[int, int]:
    """``collective_time`` of each rank's newest window. Unknown if fewer than two ranks have
    windows."""
    run = facts.run
    windows = {rank.place: rank.windows[-1] for rank in run.ranks if rank.windows} if run else {}
    times = {
        rank: _of_window(path, path.stat().st_mtime_ns)
        for rank, path in sorted(windows.items())[:MOST_RANKS]
        if path.exists()
    }
    valid = {rank: time for rank, time in times.items() if time is not None}
    if len(valid) < 2:
        raise UnknownError("no windows of several ranks show collectives")
    return valid


@lru_cache(maxsize=256)
def _of_window(path: Path, changed_ns: int) -> int | None:
    """``collective_time`` of a window; None if its file is unreadable or shows none. A run is
    reread several times a second, its windows are not: ``changed_ns`` tells apart a rewritten
    one."""
    from perftui.analysis.open_trace import open_trace

    del changed_ns
    try:
        return collective_time(open_trace(path))
    except (TraceError, OSError, UnknownError):
        return None


@trace_fact
def backward_passes(analysis: TraceAnalysis) -> tuple[float, float]:
    """Backward passes of a mean steady step, and those with a collective under way, from the ranges
    marked by perftui's agent. Unknown if the trace marks no steps or no backward passes."""
    steps, trace = trace_steps(analysis), analysis.trace
    rows = np.flatnonzero(kinds.marked(trace, BACKWARD))
    if steps is None or not steps.steps or not len(rows):
        raise UnknownError("the trace marks no backward passes")
    rows = rows[steps.inside[rows]]
    meets = collectives(analysis).within(trace.start[rows], trace.ends_of(rows)) > 0
    return len(rows) / steps.steps, int(meets.sum()) / steps.steps
