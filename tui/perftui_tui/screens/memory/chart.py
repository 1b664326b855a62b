"""GPU memory by step: allocated under reserved, and its peak. Without a GPU the processes' RSS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perftui.facts.gpu.memory import gpu_memory
from perftui.telemetry.gpu.names import gpu_name
from perftui_tui.charts.area import over_all_columns, sparkline, steady_bins
from perftui_tui.charts.stacked import highest_of_bins
from perftui_tui.look.format import share
from perftui_tui.look.rows import Row, Span, crop, fit, row, spread, width, wrap
from perftui_tui.look.units import format_bytes
from perftui_tui.reading.memory import memory_curves
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.telemetry import gpus, latest, table_of
from perftui_tui.screens.memory.host import processes_chart
from perftui_tui.screens.memory.stack import AXIS_CELLS, below_axis, stacked_cells, with_axis

if TYPE_CHECKING:
    from perftui.facts.gpu.memory import MemoryUse
    from perftui.report.memory import MemoryReport, Peak

NO_GPU_MEMORY = (
    "No GPU memory was recorded: PyTorch did not use CUDA in this run. Shown is the memory of the "
    "training's processes."
)


def memory_title(snapshot: Snapshot) -> str:
    """What the chart shows."""
    if snapshot.phase is Phase.TRACE or snapshot.run is None:
        return "Memory"
    on_gpu = snapshot.ask(gpu_memory)
    return "GPU memory by step" if on_gpu else "Memory of the training's processes (RSS)"


def memory_now(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """Two rows: allocated memory and its peak, then the card's memory and failed allocations."""
    use = snapshot.ask(gpu_memory)
    if snapshot.is_memory_alone and snapshot.allocations is not None:
        return _devices(snapshot.allocations, cells)
    if use is None:
        return _curves(snapshot, cells) or wrap(_why_none(snapshot), cells, "dim")
    step = f" reached by step {use.peak_step:,}" if use.peak_step >= 0 else ""
    allocations = row(
        ("Allocated ", "dim"),
        (format_bytes(int(use.allocated[-1])), "bold"),
        ("   reserved ", "dim"),
        (format_bytes(int(use.reserved[-1])), "bold"),
        ("   peak ", "dim"),
        (format_bytes(use.peak_allocated), "bold"),
        (step, "dim"),
    )
    second: list[Span] = []
    for span in (*_trouble(use), *_cards(snapshot)):
        second += [span, ("   ", "")]
    return [crop(allocations, cells), crop(row(*second), cells)]


def _devices(allocations: MemoryReport, cells: int) -> list[Row]:
    """The sums of a snapshot, two devices at most: the rest is in the list."""
    rows = (
        row(
            (f"GPU {one.device}: ", "dim"),
            (format_bytes(one.allocated), "bold"),
            (" allocated of ", "dim"),
            (format_bytes(one.reserved), "bold"),
            (" reserved", "dim"),
            _most_allocated(one.peak),
        )
        for one in allocations.devices[:2]
    )
    return [crop(one, cells) for one in rows]


def _most_allocated(peak: Peak | None) -> str:
    """Counted as the program asked for it: it may be less than is allocated now."""
    return f"   peak {format_bytes(peak.bytes)} held" if peak and peak.absolute else ""


def _curves(snapshot: Snapshot, cells: int) -> list[Row]:
    """The peaks of what a trace recorded, without a run: two devices at most."""
    if snapshot.run is not None:
        return []
    rows = []
    for curve in memory_curves(snapshot)[:2]:
        memory = curve.memory
        least = "" if memory.absolute else "at least "
        line = row(
            (f"{curve.device}: ", "dim"),
            (f"{least}{format_bytes(int(memory.level.max()))}", "bold"),
            (" allocated at the peak", "dim"),
        )
        if memory.reserved is not None:
            reserved = format_bytes(int(memory.reserved.max()))
            line = (*line, ("   ", ""), (reserved, "bold"), (" reserved at most", "dim"))
        rows.append(crop(line, cells))
    return rows


def _why_none(snapshot: Snapshot) -> str:
    if snapshot.run is None:
        return "This trace has no memory by step: perftui train.py records it."
    if not snapshot.train_steps:
        return "No step yet: memory is read at the end of each step."
    return NO_GPU_MEMORY


def _trouble(use: MemoryUse) -> list[Span]:
    """Retries and failures of allocations, as far as they are counted."""
    spans: list[Span] = []
    for count, one, several, style in (
        (use.retries, "retry", "retries", "warn"),
        (use.failures, "failure", "failures", "bad"),
    ):
        if count is None:
            spans.append((f"{several} not counted", "dim"))
        elif count:
            spans.append((f"{count:,} {one if count == 1 else several}", style))
        else:
            spans.append((f"no {several}", "good"))
    return spans


def _cards(snapshot: Snapshot) -> list[Span]:
    """What each card has in use, by all processes."""
    table = table_of(snapshot)
    spans: list[Span] = []
    for prefix in gpus(table):
        used = latest(table, f"{prefix}.memory_used")
        whole = latest(table, f"{prefix}.memory_total")
        if used is not None and whole:
            text = f"{gpu_name(prefix)}: {format_bytes(used)} of {format_bytes(whole)}"
            spans.append((f"{text} ({share(used, whole)})", ""))
    return spans


LAYERS = (("█", "chart"), ("▒", "chart"), ("░", "dim"))
"""Allocated, the peak so far above it, and what is reserved beyond that."""


def memory_chart(snapshot: Snapshot, cells: int, height: int) -> Sequence[Row]:
    """Allocated as an area, below its peak so far and what is reserved; without a GPU the
    processes' RSS."""
    use = snapshot.ask(gpu_memory)
    if use is None:
        return processes_chart(snapshot, cells, height)
    columns, rows = max(1, cells - AXIS_CELLS), max(1, height - 2)
    live = snapshot.phase.is_live
    bins = [
        highest_of_bins(values[np.newaxis], columns, live)[0]
        for values in (use.allocated, use.most, np.maximum(use.most, use.reserved))
    ]
    parts = np.diff(np.stack(bins), axis=0, prepend=0)
    top = max(use.peak_allocated, use.peak_reserved, 1)
    drawn = with_axis(stacked_cells(parts, rows, top, dict(enumerate(LAYERS))), top)
    return [*drawn, _steps(use, len(bins[0])), _legend(use, cells)]


def steps_line(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """What is allocated at the end of each step, in one row."""
    use = snapshot.ask(gpu_memory)
    if use is None:
        return []
    top = format_bytes(use.peak_allocated)
    name, scale = row(("By step ", "dim")), row((f" 0 to {top}", "dim"))
    columns = max(1, cells - width(name) - width(scale))
    values = _columns(use.allocated.tolist(), columns, snapshot.phase.is_live)
    line = sparkline(values, columns, 0, max(use.peak_allocated, 1))
    return [crop((*name, (line, "chart"), *scale), cells)]


def _columns(values: Sequence[float], columns: int, live: bool) -> Sequence[float]:
    """Bins that keep their place while the run grows, else the whole width."""
    return steady_bins(values, 0, columns) if live else over_all_columns(values, columns)


def _steps(use: MemoryUse, columns: int) -> Row:
    """The first and the last step under what is drawn of them."""
    first, last = f"step {int(use.step[0]):,}", f"{int(use.step[-1]):,}"
    room = columns - len(first)
    return below_axis(first + (f"{last:>{room}}" if room > len(last) else ""))


def _legend(use: MemoryUse, cells: int) -> Row:
    words = ("allocated", "peak so far", "reserved")
    spans: list[Span] = []
    for layer, word in zip(LAYERS, words, strict=True):
        spans += [layer, (f" {word}   ", "")]
    note = f"{use.summed:,} steps in between are stored as aggregates" if use.summed else ""
    return fit(spread(tuple(spans), row((note, "dim")), cells), cells)
