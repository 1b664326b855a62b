"""Memory by category over time, stacked, with what each category has at the peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perftui.analysis.memory import Category
from perftui.facts.rounding import apportioned
from perftui_tui.charts.stacked import row_of
from perftui_tui.look.format import percent
from perftui_tui.look.rows import Row, crop, fit, row, width, wrap
from perftui_tui.look.units import MISSING, format_bytes, format_count, format_ns
from perftui_tui.reading.memory import MemoryCurve, memory_curves
from perftui_tui.screens.memory.stack import AXIS_CELLS, below_axis, stacked_cells, with_axis

if TYPE_CHECKING:
    from perftui.analysis.memory import MemoryOverTime
    from perftui_tui.reading.snapshot import Snapshot

GLYPHS: dict[Category, tuple[str, str]] = {
    Category.BEFORE: ("░", "memory-before"),
    Category.PARAMETERS: ("█", "memory-parameters"),
    Category.OPTIMIZER: ("▓", "memory-optimizer"),
    Category.GRADIENTS: ("▒", "memory-gradients"),
    Category.ACTIVATIONS: ("▞", "memory-activations"),
    Category.TEMPORARY: ("╲", "memory-temporary"),
    Category.OTHER: ("┼", "memory-other"),
}
"""What fills each category, and its style: they differ without colour."""

RESERVED = "─"
"""Drawn at the height of what the allocator has reserved."""

PEAK = "▲"
"""Stands under the column of the peak."""

LEGEND_ROWS = 3
"""Rows of the legend at most."""

NOT_TOLD = "What memory is for is unknown: the recording has no stacks, or no block addresses."
AT_LEAST = "What was held before the recording is unknown: these sizes are lower bounds."


def title_of(curve: MemoryCurve, cells: int) -> str:
    """What the chart shows, as far as it fits."""
    short = f"{curve.device} memory by category"
    whole = f"{short} over {curve.source}"
    return whole if len(whole) + 4 <= cells else short


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
    chart = with_axis(drawn, top, middle=True)
    return [*chart, _time_row(memory, columns, shown.peak), *below]


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
    """Each category at the peak, its size and share, in so many rows as there are for it."""
    rows: list[Row] = []
    line: Row = ()
    for (category, size, _), tenths in _at_peak(memory):
        glyph, style = GLYPHS[category]
        text = f" {category.label} {format_bytes(size)} {percent(tenths / 10)}"
        item = row((glyph * 2, style), text)
        if line and width(line) + width(item) + 3 > cells:
            rows.append(line)
            line = ()
        line = (*line, ("   ", ""), *item) if line else item
    return [crop(each, cells) for each in (*rows, line) if each][:LEGEND_ROWS]


def _at_peak(
    memory: MemoryOverTime,
) -> list[tuple[tuple[Category, int, int | None], int]]:
    """Category, bytes and blocks at the peak, with tenths of a per cent that sum to all."""
    found = [(each.category, each.bytes, each.blocks) for each in memory.at_peak()]
    return list(zip(found, apportioned([size for _, size, _ in found], 1000), strict=True))


def _share(tenths: int) -> str:
    return f"{tenths / 10:.1f} %" if tenths else "<0.1 %"


def peak_rows(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """A table of the categories at the peak of the first curve, and the peaks of the others."""
    curves = memory_curves(snapshot)
    if not curves:
        return []
    memory = curves[0].memory
    rows = [_columns("", "size", "share", "blocks", cells, "dim")]
    for (category, size, blocks), tenths in _at_peak(memory):
        count = MISSING if blocks is None else format_count(blocks)
        name = row((GLYPHS[category][0] * 2, GLYPHS[category][1]), f" {category.label}")
        figures = _columns(name, format_bytes(size), _share(tenths), count, cells)
        rows.append(crop((*figures, *_bar(tenths, GLYPHS[category][1], cells)), cells))
    rows.append(_columns("   total", *_in_all(memory), cells, "bold"))
    if memory.reserved is not None:
        held = format_bytes(int(memory.reserved[memory.peak]))
        line = row((RESERVED * 2, "dim"), " reserved at the peak")
        rows.append(_columns(line, held, "", "", cells))
    if not memory.has_categories:
        rows += wrap(NOT_TOLD, cells, "dim")
    if not memory.absolute:
        rows += wrap(AT_LEAST, cells, "dim")
    return [*rows, *_others(curves[1:], cells)]


def _in_all(memory: MemoryOverTime) -> tuple[str, str, str]:
    return format_bytes(int(memory.level[memory.peak])), "100.0 %", ""


def _others(curves: Sequence[MemoryCurve], cells: int) -> Iterator[Row]:
    for curve in curves:
        peak = format_bytes(int(curve.memory.level.max()))
        text = f"{curve.device} over {curve.source}: peak {peak}"
        yield crop(row((text, "dim")), cells)


NAME_CELLS = 28
"""Room for the longest name of a category and what fills it."""

FIGURES_CELLS = 26


def _columns(
    name: str | Row, size: str, share: str, blocks: str, cells: int, style: str = ""
) -> Row:
    figures = row((f"{size:>10}{share:>8}{blocks:>8}", style))
    left = row((name, style)) if isinstance(name, str) else name
    return crop((*fit(left, max(8, min(NAME_CELLS, cells - FIGURES_CELLS))), *figures), cells)


def _bar(tenths: int, style: str, cells: int) -> Row:
    """The share as a bar in what the figures leave."""
    room = cells - NAME_CELLS - FIGURES_CELLS - 2
    filled = max(1, round(room * tenths / 1000)) if room > SHORTEST_BAR else 0
    return row("  ", ("█" * filled, style))


SHORTEST_BAR = 4
