"""Charts over a whole run: steps, memory and machine, each with its series and units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perftui.analysis.memory_categories import Category
from perftui.facts.gpu.cards import gpu_memory
from perftui.facts.step.steps import DEVICE_COLUMNS, DEVICE_PHASES, timed_steps
from perftui.run.columns import phase_name
from perftui.run.table import Table
from perftui.telemetry.gpu.names import gpu_name
from perftui_tui.look.format import format_bytes, format_ns, per_second, percent, rate
from perftui_tui.reading.memory import MemoryCurve, memory_curves
from perftui_tui.reading.snapshot import SLOW_RATIO, Snapshot
from perftui_tui.reading.telemetry import gpus, whole_table_of

Floats = npt.NDArray[np.float64]

BINS = 60
"""Bins of a distribution."""

TAIL = 1.5
"""A distribution ends this many times the distance from its median to its p95 above the median."""

CATEGORY_POINTS = 2000
"""Columns of a chart of memory by category."""

PHASES = ("input_wait", "loader_start", "forward", "backward", "optimizer", "other")
PHASE_STYLES = (1, 5, 0, 2, 3, 4)


@dataclass(frozen=True, eq=False)
class Series:
    """One series over the points of its chart."""

    label: str
    values: Floats
    """NaN where it is not known."""
    style: int | None = None
    """Number of its colour and marker; by default that of its place."""


@dataclass(frozen=True, eq=False)
class Chart:
    """One chart: ``lines`` over ascending ``x``."""

    name: str
    """Unique, by which a pane opens it."""
    title: str
    x: Floats
    x_label: str
    lines: tuple[Series, ...]
    text: Callable[[float], str]
    """Text of a value."""
    levels: tuple[tuple[str, float], ...] = ()
    """Values that are drawn across: quantiles, a limit."""
    marked: tuple[str, npt.NDArray[np.bool_]] | None = None
    """Points that stand out, and what they are called."""
    note: str = ""
    is_distribution: bool = False
    is_stacked: bool = False
    """Whether the lines are parts of a whole, each drawn above those before it."""

    @cached_property
    def drawn(self) -> tuple[Series, ...]:
        """The lines as they are drawn, one behind the other: stacked ones the highest first."""
        if not self.is_stacked:
            return self.lines
        sums = np.cumsum([line.values for line in self.lines], axis=0)
        stack = zip(self.lines, sums, strict=True)
        return tuple(replace(line, values=values) for line, values in stack)[::-1]

    @property
    def whole(self) -> tuple[float, float]:
        """The range of the horizontal axis; never empty."""
        left, right = float(self.x[0]), float(self.x[-1])
        return left, right if right > left else left + 1


def charts_of(snapshot: Snapshot) -> tuple[Chart, ...]:
    """All charts of ``snapshot``, the steps first."""
    return tuple(chart for make in (_of_steps, _of_memory, _of_machine) for chart in make(snapshot))


def _of_steps(snapshot: Snapshot) -> Iterator[Chart]:
    steps = snapshot.train
    durations = durations_of(snapshot)
    if not len(durations):
        return
    index = index_of(snapshot, len(durations))
    p50, p95 = quantile_of(durations, 50), quantile_of(durations, 95)
    levels = (("p50", p50), ("p95", p95))
    slow = durations >= SLOW_RATIO * p50
    note = aggregates_note(snapshot)
    count = int(slow.sum())
    label = f"{count} slow {'step' if count == 1 else 'steps'} (from {SLOW_RATIO:g}x p50)"
    marked = (label, slow) if count else None
    line = (Series("step time", durations),)
    yield Chart("step", "Step time", index, "step", line, format_ns, levels, marked, note)
    yield _distribution(durations, levels, note)
    if steps is None:
        return
    yield from _throughput(steps)
    yield _parts(steps, index, note)
    yield from _on_device(steps)
    waits = 100 * steps["input_wait"] / np.maximum(steps["duration"], 1)
    share = (Series("data loader wait", waits.astype(np.float64)),)
    yield Chart("loader", "Data loader wait, share of the step", index, "step", share, percent,
                note=note)  # fmt: skip


def durations_of(snapshot: Snapshot) -> Floats:
    """ns of each training step, as far as steps are recorded one by one."""
    if snapshot.train is not None:
        return np.asarray(snapshot.train["duration"], np.float64)
    return np.array(snapshot.step_ms) * 1e6


def index_of(snapshot: Snapshot, count: int) -> Floats:
    """The numbers of those ``count`` steps."""
    if snapshot.train is not None:
        return np.asarray(snapshot.train["index"], np.float64)
    return np.arange(count, dtype=np.float64)


def aggregates_note(snapshot: Snapshot) -> str:
    """A note that some steps are known as aggregates only; empty where none are."""
    return "" if snapshot.train is None else _not_drawn(snapshot.train_steps - len(snapshot.train))


def _not_drawn(summed: int) -> str:
    return f"{summed:,} steps in between are stored as aggregates, not drawn" if summed > 0 else ""


def quantile_of(values: Floats, quantile: int) -> float:
    """The nearest rank, a real step's duration."""
    ordered = np.sort(values)
    return float(ordered[max(-(-quantile * len(ordered) // 100), 1) - 1])


def binned(*runs: Floats) -> tuple[Floats, list[Floats], float, list[int]]:
    """The middles of bins over all of ``runs``, and the steps of each run in them.

    Also the end of the last one, and how many steps of each run lie above it: they are counted
    there, so that a few outliers do not flatten the others."""
    low = float(min(durations.min() for durations in runs))
    tops = []
    for run in runs:
        # Of few steps p95 is the longest, which may be the outlier.
        p50, p95 = quantile_of(run, 50), quantile_of(np.sort(run)[: max(len(run) - 1, 1)], 95)
        tops.append(min(float(run.max()), max(p50 + TAIL * (p95 - p50), 1.05 * p95)))
    edges = np.linspace(low, max(low + 1, *tops), BINS + 1)
    top = float(edges[-1])
    counts = [np.histogram(np.minimum(run, top), edges)[0].astype(np.float64) for run in runs]
    return (edges[:-1] + edges[1:]) / 2, counts, top, [int((run > top).sum()) for run in runs]


def _distribution(durations: Floats, levels: tuple[tuple[str, float], ...], note: str) -> Chart:
    middles, (counts,), top, (beyond,) = binned(durations)
    above = f"{beyond:,} longer than {format_ns(top)} are in the last bar" if beyond else ""
    return Chart(
        "distribution",
        "Distribution of step times",
        middles,
        "step time",
        (Series("steps", counts),),
        lambda count: f"{count:,.0f} step{'s'[: round(count) != 1]}",
        levels,
        note="; ".join(part for part in (above, note) if part),
        is_distribution=True,
    )


def _throughput(steps: Table) -> Iterator[Chart]:
    ends = (steps["start"] + steps["duration"]).astype(np.float64) / 1e9
    begin = float(steps["start"][0]) / 1e9
    span = float(ends[-1]) - begin
    if len(ends) < 2 or span <= 0:
        return
    bins = min(200, max(2, len(ends) // 4))
    counts, edges = np.histogram(ends, bins, (begin, float(ends[-1])))
    rates = counts / (span / bins)
    middles = (edges[:-1] + edges[1:]) / 2 - begin
    yield Chart(
        "throughput",
        "Throughput",
        middles,
        "seconds since the first step",
        (Series("steps/s", rates),),
        lambda value: f"{per_second(value)} steps/s",
        (("mean", len(ends) / span),),
        note=f"counted in intervals of {format_ns(1e9 * span / bins)}",
    )


def _parts(steps: Table, index: Floats, note: str) -> Chart:
    lines = tuple(
        Series(phase_name(phase), steps[phase].astype(np.float64), style)
        for phase, style in zip(PHASES, PHASE_STYLES, strict=True)
        if phase in steps and int(steps[phase].sum()) > 0
    )
    names = "parts", "Parts of each step"
    return Chart(*names, index, "step", lines, format_ns, note=note, is_stacked=True)


def _on_device(steps: Table) -> Iterator[Chart]:
    timed = timed_steps(steps)
    if timed is None:
        return
    lines = tuple(
        Series(phase_name(phase), timed[column].astype(np.float64))
        for phase, column in zip(DEVICE_PHASES, DEVICE_COLUMNS, strict=True)
    )
    left_out = len(steps) - len(timed)
    note = f"{left_out:,} steps in between were not timed on the GPU" if left_out else ""
    index = timed["index"].astype(np.float64)
    yield Chart("device", "Phases on the GPU", index, "step", lines, format_ns, note=note)


def _of_memory(snapshot: Snapshot) -> Iterator[Chart]:
    use = snapshot.ask(gpu_memory)
    if use is not None:
        sizes = (("allocated", use.allocated), ("reserved", use.reserved))
        lines = tuple(Series(label, values.astype(np.float64)) for label, values in sizes)
        peak = (("peak", float(use.peak_allocated)),)
        index = use.step.astype(np.float64)
        yield Chart("memory", "GPU memory at the end of each step", index, "step", lines,
                    format_bytes, peak, note=_not_drawn(use.summed))  # fmt: skip
    for number, curve in enumerate(memory_curves(snapshot)):
        yield _by_category(curve, f"category{number + 1}" if number else "category")


def _by_category(curve: MemoryCurve, name: str) -> Chart:
    """Bytes of each category, at the highest moment of each of many columns."""
    memory = curve.memory
    shown = memory.columns(CATEGORY_POINTS)
    unit = 1e6 if memory.timed else 1.0
    middles = np.arange(CATEGORY_POINTS, dtype=np.float64) + 0.5
    x = middles * (memory.span / CATEGORY_POINTS / unit)
    lines = [
        Series(category.label, shown.parts[category].astype(np.float64))
        for category in Category
        if shown.parts[category].any()
    ]
    if shown.reserved is not None:
        lines.append(Series("reserved", shown.reserved.astype(np.float64)))
    title = f"{curve.device} memory by category over {curve.source}"
    since = "ms since the recording began" if memory.timed else "events"
    peak = (("peak of all", float(memory.level.max())),)
    return Chart(name, title, x, since, tuple(lines), format_bytes, peak)


def _of_machine(snapshot: Snapshot) -> Iterator[Chart]:
    table = whole_table_of(snapshot)
    if table is None or not len(table) or "time" not in table:
        return
    for prefix in gpus(table):
        name, title = "gpu" if prefix == "gpu0" else prefix, gpu_name(prefix)
        yield from _metric(table, name, f"{title} busy", percent,
                           {"busy": f"{prefix}.utilization"})  # fmt: skip
        yield from _metric(table, f"{prefix}.memory", f"{title} memory, all processes",
                           format_bytes, {"in use": f"{prefix}.memory_used"})  # fmt: skip
    yield from _metric(table, "cpu", "CPU of the machine", percent, {"busy": "cpu.utilization"})
    yield from _metric(table, "disk", "Disk", rate, {"read": "disk.read", "write": "disk.write"})
    yield from _metric(table, "network", "Network", rate,
                       {"received": "network.receive", "sent": "network.transmit"})  # fmt: skip
    yield from _metric(table, "rss", "Memory of the processes (RSS)", format_bytes,
                       {"resident": "processes.rss"})  # fmt: skip


def _metric(
    table: Table, name: str, title: str, text: Callable[[float], str], columns: dict[str, str]
) -> Iterator[Chart]:
    """A chart of the named columns, of those that were sampled."""
    lines = tuple(
        Series(label, table[column])
        for label, column in columns.items()
        if column in table and bool(np.isfinite(table[column]).any())
    )
    if lines:
        seconds = (table["time"] - table["time"][0]) / 1e9
        label = "seconds since the first sample"
        yield Chart(name, title, seconds, label, lines, text)


BEFORE, AFTER = 1, 0
"""Styles of the two runs."""


def comparison_charts(before: Snapshot, after: Snapshot) -> tuple[Chart, ...]:
    """Both runs on one scale; nothing where one of them has no step.

    First the share of each run's steps in bins of equal length, the last of which has what lies far
    above; then each step over its number, where a run that was shorter ends earlier."""
    runs = ("before", _beside(before, after)), ("after", _beside(after, before))
    durations = [durations_of(run) for _, run in runs]
    if not all(map(len, durations)):
        return ()
    titled = zip(("before p50", "after p50"), durations, strict=True)
    levels = tuple((name, quantile_of(times, 50)) for name, times in titled)
    notes = [f"{name}: {note}" for name, run in runs if (note := aggregates_note(run))]
    middles, counts, top, beyond = binned(*durations)
    longer = f"{beyond[0]:,} before and {beyond[1]:,} after exceed {format_ns(top)}"
    above = [f"{longer}, in the last bar"] if any(beyond) else []
    indices = [index_of(run, len(times)) for (_, run), times in zip(runs, durations, strict=True)]
    steps = np.union1d(*indices)
    aligned = [np.full(len(steps), np.nan) for _ in runs]
    for values, own, times in zip(aligned, indices, durations, strict=True):
        values[np.searchsorted(steps, own)] = times
    return (
        Chart(
            *("compare", "Step times of both runs", middles, "step time"),
            _pair(*(100 * count / count.sum() for count in counts)),
            lambda share: f"{share:.1f} %",
            levels,
            note="; ".join([*above, *notes]),
            is_distribution=True,
        ),
        Chart(
            *("compare-steps", "Each step of both runs", steps, "step"),
            _pair(*aligned),
            format_ns,
            levels,
            note="; ".join(notes),
        ),
    )


def _beside(shown: Snapshot, other: Snapshot) -> Snapshot:
    """What is compared of a run beside a trace: the steps of its window."""
    if shown.run is None or other.run is not None:
        return shown
    steps = shown.analysis.steps if shown.analysis else ()
    return replace(shown, train=None, step_ms=tuple(step.duration / 1e6 for step in steps))


def _pair(before: Floats, after: Floats) -> tuple[Series, Series]:
    return Series("before", before, BEFORE), Series("after", after, AFTER)
