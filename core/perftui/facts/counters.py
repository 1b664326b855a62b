"""Quantities over the time of a trace: what the recorder sampled meanwhile, what the training noted
at its steps, and what the trace itself holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perftui.analysis.memory_categories import MemoryOverTime, memory_of_trace
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.timeline.track import Counter, Float64, intervals, usual_interval
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, UnknownError, fact, finite, samples, trace_fact
from perftui.facts.gpu.cards import own_gpus
from perftui.facts.gpu.idle import trace_span
from perftui.telemetry.gpu.names import gpu_name, gpu_prefixes
from perftui.trace.model import NONE, Int64, MemoryEvents

_SAMPLING = 1_000_000_000
"""Interval, ns, of a quantity with a single sample, which does not show it."""

_CPU = 0
"""The CPU among the device types of PyTorch."""


@dataclass(frozen=True)
class _Metric:
    """A metric of a card: its column without the prefix, and what it is called."""

    column: str
    name: str
    short: str
    top: str = ""
    """The column of the most it can be."""
    is_mean: bool = False


_OF_GPU = (
    _Metric("utilization", "use", "use", is_mean=True),
    _Metric("memory_used", "memory", "mem", "memory_total"),
    _Metric("power", "power", "power", "power_limit"),
    _Metric("clock_sm", "clock", "clk", "clock_sm_max"),
)

_DISKS = ("data_disk.read", "disk.read", "processes.read")
"""Where bytes read a second are looked for; the first is the disk that holds the data set."""


@fact
def counters(facts: Facts) -> tuple[Counter, ...]:
    """What is known over the time of the trace, in drawing order; only what has a value in it.

    Of several ranks put together nothing: their machines and GPUs differ. Samples are placed by
    the wall clock; where the trace does not give its own, only what it holds itself is known.
    """
    analysis = facts.analysis
    if analysis is None or analysis.ranks or not len(analysis.trace):
        return ()
    origin, during = analysis.trace.wall_origin, trace_span(analysis)
    found = list(_allocated(analysis, during))
    if facts.run is not None and origin is not None:
        of_run = _OfRun(facts, origin, during)
        found = [*of_run.gpus(), *(found or of_run.allocated()), *of_run.disk(), *of_run.queue()]
    return tuple(found)


def _allocated(analysis: TraceAnalysis, during: tuple[int, int]) -> Iterator[Counter]:
    """What PyTorch's allocators held, from the trace's memory events: every change is there, and
    so a value holds until the next."""
    memory = analysis.trace.memory
    known = np.flatnonzero(memory.allocated != NONE)
    pairs = list(zip(memory.device_type[known], memory.device[known], strict=True))
    devices = sorted({(int(kind), int(number)) for kind, number in pairs})
    gpus = [each for each in devices if each[0] != _CPU]
    # Beside a GPU the CPU's allocator holds a few bytes of scalars.
    for kind, number in gpus or devices:
        chosen = known[(memory.device_type[known] == kind) & (memory.device[known] == number)]
        where = "CPU" if kind == _CPU else "GPU" if len(gpus) == 1 else f"GPU {number}"
        yield _of_changes(memory, chosen, where, during[1])


def _of_changes(memory: MemoryEvents, rows: Int64, where: str, last: int) -> Counter:
    at = memory.start[rows]
    end = np.append(at[1:], max(last, int(at[-1]) + 1))
    value = memory.allocated[rows].astype(np.float64)
    kept = end > at
    return Counter(
        f"{where} allocated",
        "alloc" if " " not in where else f"{where} alloc",
        "B",
        "by PyTorch's allocator, from the memory events of the trace: every change",
        _round_top(float(value.max()), "B"),
        0,
        False,
        at[kept],
        end[kept],
        at[kept],
        value[kept],
    )


def _round_top(highest: float, unit: str) -> float:
    """The next number of bytes with two digits in its unit; of other units ``highest`` itself."""
    base = {"B": 1024, "B/s": 1000}.get(unit)
    if base is None or highest <= 0:
        return highest
    size = 1.0
    while highest / size >= base:
        size *= base
    step = size * 10.0 ** (math.floor(math.log10(highest / size)) - 1)
    step = max(step, 1.0)
    return math.ceil(highest / step) * step


class _OfRun:
    """Samples and steps of a run, on the clock of a trace whose 0 is at ``origin``."""

    def __init__(self, facts: Facts, origin: int, during: tuple[int, int]) -> None:
        self._facts, self._origin, self._during = facts, origin, during
        self._samples = samples(facts)
        times = self._samples["time"] if "time" in self._samples else np.zeros(0)
        # As whole numbers: between floats of this size lie 256 ns.
        self._times = times.astype(np.int64) - origin

    def gpus(self) -> Iterator[Counter]:
        """Use, memory, power and clock of each card that the rank uses, or of all there are."""
        every = gpu_prefixes(column.name for column in self._samples.columns)
        used = own_gpus.or_none(self._facts)
        shown = [prefix for prefix in every if used is None or prefix in used]
        for prefix in shown:
            where = gpu_name(prefix) if len(every) > 1 else "GPU"
            for metric in _OF_GPU:
                top = float(finite(self._samples, f"{prefix}.{metric.top}").max(initial=0.0))
                name, short = f"{where} {metric.name}", f"{where} {metric.short}"
                if len(shown) == 1:
                    short = "GPU" if metric.name == "use" else metric.short
                yield from self._sampled(f"{prefix}.{metric.column}", name, short, metric, top)

    def disk(self) -> Iterator[Counter]:
        """Bytes read a second."""
        column = next((name for name in _DISKS if name in self._samples), None)
        if column is not None:
            metric = _Metric(column, "", "", is_mean=True)
            yield from self._sampled(column, "disk read", "disk", metric, 0.0)

    def queue(self) -> Iterator[Counter]:
        """Batches that lay ready when each step began to fetch."""
        loader = training_loader(self._facts)
        top = float(loader.queue_depth) if loader is not None else 0.0
        source = "batches that were ready when a step requested one"
        yield from self._of_steps("batches_ready", "loader queue", "queue", "batches", source, top)

    def allocated(self) -> Iterator[Counter]:
        """Memory of PyTorch's allocator at the ends of steps."""
        source = "by PyTorch's allocator, at the end of a step"
        yield from self._of_steps("allocated", "GPU allocated", "alloc", "B", source, 0.0)

    def _sampled(
        self, column: str, name: str, short: str, metric: _Metric, top: float
    ) -> Iterator[Counter]:
        if column not in self._samples:
            return
        described = next(one for one in self._samples.columns if one.name == column)
        top = 100.0 if described.unit == "%" else top
        # Samples at even times; those that are missing are NaN.
        value: Float64 = self._samples[column]
        known = np.flatnonzero(np.isfinite(value))
        known = known[np.argsort(self._times[known], kind="stable")]
        at, value = self._times[known], value[known]
        interval = usual_interval(at, _SAMPLING)
        placed = (*intervals(at, interval, is_mean=metric.is_mean), at, value)
        labels = (name, short, described.unit, described.source)
        yield from self._in_view(labels, placed, interval, top, is_mean=metric.is_mean)

    def _of_steps(
        self, column: str, name: str, short: str, unit: str, source: str, top: float
    ) -> Iterator[Counter]:
        """What a step notes stands for that step, or for the next where it is noted at the end."""
        steps = self._facts.steps
        if column not in steps or not len(steps):
            return
        order = np.argsort(steps["start"], kind="stable")
        at, lasting = steps["start"][order] - self._origin, steps["duration"][order]
        if column != "batches_ready":
            at, lasting = at + lasting, np.append(lasting[1:], lasting[-1])
        start, end = intervals(at, lasting, is_mean=False)
        noted = steps[column][order]
        known = noted >= 0
        if known.any():
            value = noted[known].astype(np.float64)
            interval = usual_interval(at[known], _SAMPLING)
            placed = (start[known], end[known], at[known], value)
            yield from self._in_view((name, short, unit, source), placed, interval, top)

    def _in_view(
        self,
        labels: tuple[str, str, str, str],
        samples: tuple[Int64, Int64, Int64, Float64],
        interval: int,
        top: float,
        *,
        is_mean: bool = False,
    ) -> Iterator[Counter]:
        """The samples that stand for any time of the trace; nothing where none does."""
        start, end, at, value = samples
        first, last = self._during
        kept = (end > start) & (end > first) & (start < last)
        if kept.any():
            start, end, at, value = start[kept], end[kept], at[kept], value[kept]
            highest = max(top, float(value.max()))
            # What can be at most is known, and else a round number is easier to read.
            highest = highest if highest == top else _round_top(highest, labels[2])
            yield Counter(*labels, highest, interval, is_mean, start, end, at, value)


@trace_fact
def memory_over_time(analysis: TraceAnalysis) -> tuple[MemoryOverTime, ...]:
    """Memory of each device by category, GPUs first, as far as the trace records allocations."""
    found = memory_of_trace(analysis.trace)
    if not found:
        raise UnknownError("no allocation was recorded")
    return found
