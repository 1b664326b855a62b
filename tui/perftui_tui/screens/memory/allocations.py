"""GPU memory by call site, and by category over time, stacked; from a snapshot or a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perftui.analysis.memory_categories import Category, MemoryOverTime
from perftui.facts.gpu.cards import gpu_memory
from perftui.format import apportioned
from perftui.trace.model import Int64
from perftui.trace.text import printable
from perftui_tui.charts.cells import block_bar
from perftui_tui.look.format import MISSING, format_bytes, format_count, format_ns, percent, share
from perftui_tui.look.rows import Row, Span, crop, fit, joined, packed, plain, row, spread, wrap
from perftui_tui.reading.memory import memory_curves

if TYPE_CHECKING:
    from perftui.report.snapshots_and_ncu import AllocationSite, DeviceMemory
    from perftui_tui.reading.snapshot import Snapshot

BLANK = -1
"""A cell above all parts."""


def stacked(parts: Int64, height: int, top: float) -> Int64:
    """The part in each cell, top row first, ``BLANK`` above them all.

    ``parts`` has a row for each part, the lowest first, and a column for each of the chart; the
    chart goes from 0 to ``top``. A cell has the part that its middle lies in. A column that holds
    anything shows its largest part at least."""
    middles = (np.arange(height)[::-1] + 0.5) * (top / height)
    sums = np.cumsum(parts, axis=0)
    cells: Int64 = (sums[:, np.newaxis, :] <= middles[np.newaxis, :, np.newaxis]).sum(axis=0)
    cells[cells == len(parts)] = BLANK
    is_missing = (cells[-1] == BLANK) & (sums[-1] > 0)
    cells[-1] = np.where(is_missing, parts.argmax(axis=0), cells[-1])
    return cells


def row_of(value: float, height: int, top: float) -> int:
    """The row, from the top, of the cell that ``value`` lies in or ends at."""
    filled = -(-value * height // top) if top > 0 else 0
    return height - min(max(int(filled), 1), height)


def highest_of_bins(parts: Int64, columns: int, live: bool) -> Int64:
    """``parts`` in at most ``columns`` columns, each the samples at the highest moment within it.

    While the series grows (``live``) a bin holds a power of two of samples and keeps its place;
    else all samples are spread over the whole width. There is one sample at least."""
    count = parts.shape[1]
    if live:
        size = 1
        while -(-count // size) > columns:
            size *= 2
        begin = np.arange(0, count, size)
        end = np.minimum(begin + size, count)
    else:
        edges = np.arange(columns + 1) * count // columns
        begin = np.minimum(edges[:-1], count - 1)
        end = np.maximum(edges[1:], begin + 1)
    level = parts.sum(axis=0)
    pairs = zip(begin.tolist(), end.tolist(), strict=True)
    shown = [first + int(np.argmax(level[first:last])) for first, last in pairs]
    return parts[:, shown]


AXIS_CELLS = 10
"""Room for ``1023 GiB`` and the axis."""

MIDDLE_FROM = 7
"""Rows from which on the middle of an axis has a figure too, where that is asked for."""


def stacked_cells(
    parts: Int64, height: int, top: float, glyphs: Mapping[int, Span]
) -> list[list[Span]]:
    """``stacked`` drawn, top row first: the part with number N as ``glyphs[N]``."""
    drawn = {**glyphs, BLANK: (" ", "")}
    return [[drawn[part] for part in line] for line in stacked(parts, height, top).tolist()]


def with_axis(cells: list[list[Span]], top: float, *, middle: bool = False) -> list[Row]:
    """Rows behind an axis from 0 to ``top`` bytes."""
    height = len(cells)
    labels = {height - 1: "0", 0: format_bytes(top)}
    if middle and height >= MIDDLE_FROM:
        labels[height // 2] = format_bytes(top * (height - height // 2) / height)
    return [row((_axis(labels.get(at, "")), "dim"), *joined(line)) for at, line in enumerate(cells)]


def below_axis(text: str) -> Row:
    """A row of words that begins where the columns do."""
    return row((" " * AXIS_CELLS + text, "dim"))


def _axis(label: str) -> str:
    return f"{label:>{AXIS_CELLS - 1}}" + ("┤" if label else "│")


HOW = "Which lines hold memory: perftui --memory-snapshot train.py, at the peak and at an error."
HOW_CATEGORIES = "What memory is for (activations, gradients, ...): perftui --memory train.py."
HOW_IN_TRACES = (
    "Recorded without memory: profile(profile_memory=True), or perftui --memory train.py."
)

BAR_CELLS = 12
SIZE_CELLS = 10
COUNT_CELLS = 8
SHORTEST_PLACE = 16
"""Letters of a path that are shown beside a long function: its file and line."""


def allocation_rows(snapshot: Snapshot, cells: int) -> list[Row]:
    """Each device: what is allocated, its peak, and the lines that allocated it; without a snapshot
    of the allocator what records it."""
    report = snapshot.allocations
    if report is None:
        # What would record more; for a training without a GPU only what it can have.
        has_run, has_curve = snapshot.run is not None, bool(memory_curves(snapshot))
        is_on_cpu = has_run and snapshot.train_steps > 0 and snapshot.ask(gpu_memory) is None
        advice = [] if is_on_cpu else wrap(HOW, cells, "dim")
        if not has_curve:
            advice += wrap(HOW_CATEGORIES if has_run else HOW_IN_TRACES, cells, "dim")
        return advice or wrap(
            "Allocations by call site are recorded for GPU memory only.", cells, "dim"
        )
    rows: list[Row] = []
    for memory in report.devices:
        rows += [*_device(memory, cells), ()]
    for note in report.notes:
        rows += wrap(note, cells, "warn")
    return rows or [row(("the snapshot has no allocations", "dim"))]


def _device(memory: DeviceMemory, cells: int) -> Iterator[Row]:
    least = "" if memory.whole else "at least "
    yield row(
        (f"GPU {memory.device}", "bold"),
        f"  {least}{format_bytes(memory.reserved)} reserved",
        f"   {least}{format_bytes(memory.allocated)} allocated",
    )
    for name, size in memory.parts.items():
        if size:
            size_text = row(format_bytes(size), (f"  {share(size, memory.reserved):>5}", "dim"))
            yield spread(row(("  ", ""), name), size_text, min(cells, 70))
    yield from _allocations("Held at the end, by line", memory.sites, cells)
    if (peak := memory.peak) is not None:
        when = "" if peak.absolute else " above the start of the history"
        if peak.after_ns is not None and peak.span_ns is not None:
            when += f", {format_ns(peak.after_ns)} into {format_ns(peak.span_ns)} of history"
        yield crop(row((f"Peak {format_bytes(peak.bytes)}{when}", "bold")), cells)
        yield from _allocations("Held at the peak, by line", peak.sites, cells)
    for failed in memory.failed:
        left = "" if failed.free is None else f", {format_bytes(failed.free)} free"
        yield row((f"out of memory: {format_bytes(failed.asked)} requested{left}", "bad"))
    if memory.unused > 0:
        largest = format_bytes(memory.largest_unused)
        text = f"Unused {format_bytes(memory.unused)}; largest free block {largest}"
        yield row((text, "dim"))


def _allocations(title: str, sites: Sequence[AllocationSite], cells: int) -> Iterator[Row]:
    """One row for each line, the share as figures and as a bar."""
    if not sites:
        return
    whole = sum(site.bytes for site in sites)
    room = max(12, cells - SIZE_CELLS - COUNT_CELLS - 7 - BAR_CELLS - 2)
    head = row((plain(fit(row(title), room)), "dim"), (f"{'blocks':>{COUNT_CELLS}}", "dim"))
    yield (*head, (f"{'size':>{SIZE_CELLS}}", "dim"), (f"{'share':>7}", "dim"))
    for site in sites:
        yield row(
            plain(fit(row(_source(site, room - 2)), room)),
            f"{format_count(site.count):>{COUNT_CELLS}}",
            f"{format_bytes(site.bytes):>{SIZE_CELLS}}",
            f"{share(site.bytes, whole):>7}",
            (f" {block_bar(site.bytes / max(whole, 1), BAR_CELLS)}", "chart"),
        )


def _source(site: AllocationSite, room: int) -> str:
    """``function  file:line``, cut at the beginning of the path, then at the function's end."""
    if site.file is None:
        return printable(f"  {site.what}")
    place, what = f"{site.file}:{site.line}", f"  {site.what}"
    shortest = min(len(place), SHORTEST_PLACE)
    if len(what) > room - shortest - 2:
        what = what[: max(3, room - shortest - 3)] + "…"
    spare = room - len(what) - 2
    if len(place) > spare:
        place = "…" + place[-max(1, spare - 1) :]
    return printable(f"{what}  {place}")


GLYPHS: dict[Category, tuple[str, str]] = {
    Category.BEFORE: ("░", "dim"),
    Category.PARAMETERS: ("█", "fill-forward"),
    Category.OPTIMIZER: ("▓", "fill-optimizer"),
    Category.GRADIENTS: ("▒", "fill-backward"),
    Category.ACTIVATIONS: ("▞", "fill-input_wait"),
    Category.TEMPORARY: ("╲", "fill-loader_start"),
    Category.OTHER: ("┼", "fill-other"),
}
"""What fills each category, and its style: they differ without colour."""

RESERVED = "─"
"""Drawn at the height of what the allocator has reserved."""

PEAK = "▲"
"""Stands under the column of the peak."""

NOT_TOLD = "What memory is for is unknown: the recording has no stacks, or no block addresses."
AT_LEAST = "What was held before the recording is unknown: these sizes are lower bounds."


def category_chart(snapshot: Snapshot, cells: int, height: int, *, legend: bool) -> Sequence[Row]:
    """The first curve over the whole width, and below it the categories at the peak."""
    curve = next(iter(memory_curves(snapshot)), None)
    if curve is None:
        return []
    memory, columns = curve.memory, max(1, cells - AXIS_CELLS)
    below = legend_rows(memory, cells) if legend else []
    rows = max(1, height - 1 - len(below))
    shown = memory.columns(columns)
    reserved = 0 if memory.reserved is None else int(memory.reserved.max())
    top = max(int(memory.level.max()), reserved, 1)
    glyphs = {int(category): glyph for category, glyph in GLYPHS.items()}
    drawn = stacked_cells(shown.parts, rows, top, glyphs)
    if shown.reserved is not None:
        for column, held in enumerate(shown.reserved.tolist()):
            at = row_of(held, rows, top)
            if drawn[at][column][0] == " ":
                drawn[at][column] = (RESERVED, "dim")
    return [*with_axis(drawn, top, middle=True), _time_row(memory, columns, shown.peak), *below]


def _time_row(memory: MemoryOverTime, columns: int, peak: int) -> Row:
    """Where the peak is, and as far as there is room the first and the last time."""
    first, last = ("0", format_ns(memory.span)) if memory.timed else ("first event", "last event")
    at = f" at {format_ns(int(memory.time[memory.peak] - memory.time[0]))}" if memory.timed else ""
    words = f"peak {format_bytes(int(memory.level[memory.peak]))}{at}"
    mark, begin = f"{PEAK} {words}", peak
    if begin + len(mark) > columns:
        mark, begin = f"{words} {PEAK}", peak - len(words) - 1
    if begin < 0:
        mark, begin = PEAK, peak
    end = begin + len(mark)
    left = first if begin > len(first) else ""
    right = last if columns - end > len(last) else ""
    line = f"{left:<{begin}}{mark}{right:>{columns - end}}"
    return below_axis(line)


def legend_rows(memory: MemoryOverTime, cells: int) -> list[Row]:
    """Each category at the peak, its size and share, in three rows at most."""
    items = []
    for (category, size, _), tenths in _at_peak(memory):
        glyph, style = GLYPHS[category]
        text = f" {category.label} {format_bytes(size)} {percent(tenths / 10)}"
        items.append(row((glyph * 2, style), text))
    return [crop(each, cells) for each in packed(items, cells)][:3]


def _at_peak(memory: MemoryOverTime) -> list[tuple[tuple[Category, int, int | None], int]]:
    """Category, bytes and blocks at the peak, with tenths of a per cent that sum to all."""
    found = [(each.category, each.bytes, each.blocks) for each in memory.at_peak()]
    return list(zip(found, apportioned([size for _, size, _ in found], 1000), strict=True))


def peak_rows(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """A table of the categories at the peak of the first curve, and the peaks of the others."""
    curves = memory_curves(snapshot)
    if not curves:
        return []
    memory = curves[0].memory
    level = int(memory.level[memory.peak])
    rows = [_columns("", "size", "share", "blocks", cells, "dim")]
    for (category, size, blocks), tenths in _at_peak(memory):
        count = MISSING if blocks is None else format_count(blocks)
        name = row((GLYPHS[category][0] * 2, GLYPHS[category][1]), f" {category.label}")
        part = f"{tenths / 10:.1f} %" if tenths else "<0.1 %"
        figures = _columns(name, format_bytes(size), part, count, cells)
        room = max(0, cells - NAME_CELLS - FIGURES_CELLS - 2)
        bar = (block_bar(size / max(level, 1), room), GLYPHS[category][1])
        rows.append(crop((*figures, *row("  ", bar)), cells))
    rows.append(_columns("   total", format_bytes(level), "100.0 %", "", cells, "bold"))
    if memory.reserved is not None:
        held = format_bytes(int(memory.reserved[memory.peak]))
        line = row((RESERVED * 2, "dim"), " reserved at the peak")
        rows.append(_columns(line, held, "", "", cells))
    if not memory.has_categories:
        rows += wrap(NOT_TOLD, cells, "dim")
    if not memory.absolute:
        rows += wrap(AT_LEAST, cells, "dim")
    for curve in curves[1:]:
        peak = format_bytes(int(curve.memory.level.max()))
        text = f"{curve.device} over {curve.source}: peak {peak}"
        rows.append(crop(row((text, "dim")), cells))
    return rows


NAME_CELLS = 28
"""Room for the longest name of a category and what fills it."""

FIGURES_CELLS = 26


def _columns(
    name: str | Row, size: str, share: str, blocks: str, cells: int, style: str = ""
) -> Row:
    figures = row((f"{size:>10}{share:>8}{blocks:>8}", style))
    left = row((name, style)) if isinstance(name, str) else name
    return crop((*fit(left, max(8, min(NAME_CELLS, cells - FIGURES_CELLS))), *figures), cells)
