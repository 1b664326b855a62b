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
"""Assumed interval, ns, of a quantity sampled only once."""

_CPU = 0
"""PyTorch's device type number of the CPU."""


@dataclass(frozen=True)
class _Metric:
    """A metric of a card: its column without the prefix, and what it is called."""

    column: str
    name: str
    short: str
    top: str = ""
    """The column of its maximum."""
    is_mean: bool = False


_OF_GPU = (
    _Metric("utilization", "use", "use", is_mean=True),
    _Metric("memory_used", "memory", "mem", "memory_total"),
    _Metric("power", "power", "power", "power_limit"),
    _Metric("clock_sm", "clock", "clk", "clock_sm_max"),
)

_DISKS = ("data_disk.read", "disk.read", "processes.read")
"""Columns to try for bytes read a second; the first is the disk that holds the data set."""


@fact
def counters(facts: Facts) -> tuple[Counter, ...]:
    """Quantities with values during the trace, in drawing order.

    None for merged ranks: their machines and GPUs differ. Samples are placed by the wall clock; of
    a trace without one, only its own events are used."""
    analysis = facts.analysis
    if analysis is None or analysis.ranks or not len(analysis.trace):
        return ()
    origin, during = analysis.trace.wall_origin, trace_span(analysis)
    drawn = list(_allocated(analysis, during))
    if facts.run is not None and origin is not None:
        of_run = _OfRun(facts, origin, during)
        drawn = [*of_run.gpus(), *(drawn or of_run.allocated()), *of_run.disk(), *of_run.queue()]
    return tuple(drawn)


def _allocated(analysis: TraceAnalysis, during: tuple[int, int]) -> Iterator[Counter]:
    """Memory that PyTorch's allocators held, from the trace's memory events: these list every
    change, so a value holds until the next."""
    memory = analysis.trace.memory
    rows = np.flatnonzero(memory.allocated != NONE)
    pairs = list(zip(memory.device_type[rows], memory.device[rows], strict=True))
    devices = sorted({(int(kind), int(number)) for kind, number in pairs})
    gpus = [device for device in devices if device[0] != _CPU]
    # Beside a GPU the CPU's allocator holds a few bytes of scalars.
    for kind, number in gpus or devices:
        chosen = rows[(memory.device_type[rows] == kind) & (memory.device[rows] == number)]
        where = "CPU" if kind == _CPU else "GPU" if len(gpus) == 1 else f"GPU {number}"
        yield _of_changes(memory, chosen, where, during[1])


def _of_changes(memory: MemoryEvents, rows: Int64, where: str, last: int) -> Counter:
    at = memory.start[rows]
    end = np.append(at[1:], max(last, int(at[-1]) + 1))
    value = memory.allocated[rows].astype(np.float64)
    lasts = end > at
    return Counter(
        f"{where} allocated",
        "alloc" if " " not in where else f"{where} alloc",
        "B",
        "by PyTorch's allocator, from the memory events of the trace: every change",
        _round_top(float(value.max()), "B"),
        0,
        False,
        at[lasts],
        end[lasts],
        at[lasts],
        value[lasts],
    )


def _round_top(highest: float, unit: str) -> float:
    """Round up to two digits in the unit, for bytes only; other units keep ``highest``."""
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
        # As integers: float64 is only accurate to 256 ns at this size.
        self._times = times.astype(np.int64) - origin

    def gpus(self) -> Iterator[Counter]:
        """Use, memory, power and clock of each card of the rank; of all cards if unknown."""
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
        """Batches ready when each step began to fetch."""
        loader = training_loader(self._facts)
        top = float(loader.queue_depth) if loader is not None else 0.0
        source = "batches that were ready when a step requested one"
        yield from self._of_steps("batches_ready", "loader queue", "queue", "batches", source, top)

    def allocated(self) -> Iterator[Counter]:
        """Memory that PyTorch's allocator held at the ends of steps."""
        source = "by PyTorch's allocator, at the end of a step"
        yield from self._of_steps("allocated", "GPU allocated", "alloc", "B", source, 0.0)

    def _sampled(
        self, column: str, name: str, short: str, metric: _Metric, top: float
    ) -> Iterator[Counter]:
        if column not in self._samples:
            return
        described = next(field for field in self._samples.columns if field.name == column)
        top = 100.0 if described.unit == "%" else top
        # Samples are at even times; missing ones are NaN.
        value: Float64 = self._samples[column]
        rows = np.flatnonzero(np.isfinite(value))
        rows = rows[np.argsort(self._times[rows], kind="stable")]
        at, value = self._times[rows], value[rows]
        interval = usual_interval(at, _SAMPLING)
        placed = (*intervals(at, interval, is_mean=metric.is_mean), at, value)
        labels = (name, short, described.unit, described.source)
        yield from self._in_view(labels, placed, interval, top, is_mean=metric.is_mean)

    def _of_steps(
        self, column: str, name: str, short: str, unit: str, source: str, top: float
    ) -> Iterator[Counter]:
        """A value noted at a step's start is that step's, one noted at its end the next one's."""
        steps = self._facts.steps
        if column not in steps or not len(steps):
            return
        order = np.argsort(steps["start"], kind="stable")
        at, lasting = steps["start"][order] - self._origin, steps["duration"][order]
        if column != "batches_ready":
            at, lasting = at + lasting, np.append(lasting[1:], lasting[-1])
        start, end = intervals(at, lasting, is_mean=False)
        noted = steps[column][order]
        valid = noted >= 0
        if valid.any():
            value = noted[valid].astype(np.float64)
            interval = usual_interval(at[valid], _SAMPLING)
            placed = (start[valid], end[valid], at[valid], value)
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
        """The samples that cover some time of the trace, if any do."""
        start, end, at, value = samples
        first, last = self._during
        visible = (end > start) & (end > first) & (start < last)
        if visible.any():
            start, end, at, value = start[visible], end[visible], at[visible], value[visible]
            highest = max(top, float(value.max()))
            # A known maximum is the top, else a round number, which is easier to read.
            highest = highest if highest == top else _round_top(highest, labels[2])
            yield Counter(*labels, highest, interval, is_mean, start, end, at, value)


@trace_fact
def memory_over_time(analysis: TraceAnalysis) -> tuple[MemoryOverTime, ...]:
    """Memory of each device by category, GPUs first. Unknown if no allocation was recorded."""
    devices = memory_of_trace(analysis.trace)
    if not devices:
        raise UnknownError("no allocation was recorded")
    return devices
