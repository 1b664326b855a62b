"""GPUs one below the other, a row each: use with its history, memory, power, heat, clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perftui_tui.charts.area import sparkline, steady_bins
from perftui_tui.charts.blocks import LEFT_EIGHTHS, filled_steps
from perftui_tui.look.format import percent, rate
from perftui_tui.look.rows import Row, Span, crop, row
from perftui_tui.look.units import format_bytes
from perftui_tui.panes.gpu import busy_word, gpu
from perftui_tui.panes.meter import NAME_WIDTH, STYLES
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import (
    STOPPED,
    devices,
    latest,
    mean,
    samples,
    series,
    table_of,
)

if TYPE_CHECKING:
    from perftui.run.table import Table

BAR_CELLS = 5
LONGEST_HISTORY = 60
SHORTEST_HISTORY = 8

HOT = 83.0
"""Degrees Celsius from which data-centre cards of NVIDIA begin to slow down, by their manuals."""


@dataclass(frozen=True)
class Figure:
    """One figure of a card in all rows alike; ``text`` is empty where it is not sampled."""

    text: str
    style: str = "dim"
    share: float | None = None
    """What a small bar before the text is filled to, 0 to 1; None for no bar."""


Read = Callable[["Table", int], Figure]


def gpu_cards(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row for each card, those first that the run uses; why there is none where so."""
    table = table_of(snapshot)
    numbers = [n for n in devices(table) if series(table, f"gpu{n}.utilization")]
    if table is None or not numbers:
        return [crop(row(("GPU".ljust(NAME_WIDTH), "bold"), (gpu(snapshot).absent, "dim")), cells)]
    shown = _in_order(table, numbers)
    if len(shown) > height:
        shown = shown[: max(1, height - 1)]
    rows = _drawn(table, sorted(shown), cells, live=snapshot.phase.is_live)
    left = len(numbers) - len(shown)
    if left and height > len(rows):
        rows.append(crop(row((f"{'':{NAME_WIDTH}}and {left} more GPUs", "dim")), cells))
    return rows


def count(snapshot: Snapshot) -> int:
    """How many cards are sampled."""
    table = table_of(snapshot)
    return sum(bool(series(table, f"gpu{n}.utilization")) for n in devices(table))


def _in_order(table: Table, numbers: Sequence[int]) -> list[int]:
    """Those that hold memory of the run first."""
    return sorted(numbers, key=lambda n: (not mean(table, f"gpu{n}.process_memory"), n))


def _drawn(table: Table, numbers: Sequence[int], cells: int, *, live: bool) -> list[Row]:
    columns = [[read(table, number) for number in numbers] for read in FIGURES]
    columns = [column for column in columns if any(figure.text for figure in column)]
    widths = [_width(column) for column in columns]
    use = [_use(table, number) for number in numbers]
    left = cells - NAME_WIDTH - max(len(text) for text, _ in use) - 1
    fitting = _fitting(widths, left - SHORTEST_HISTORY)
    history = min(LONGEST_HISTORY, left - sum(width + 2 for width in widths[:fitting]))
    rows = []
    for at, number in enumerate(numbers):
        text, style = use[at]
        chart = _history(table, number, max(history, 1), live=live)
        spans: list[Span] = [(f"GPU {number}".ljust(NAME_WIDTH), "bold"), (text, style), (" ", "")]
        spans.append((chart, {"bad": "chart-bad"}.get(style, "chart")))
        for column, width in zip(columns[:fitting], widths, strict=False):
            spans += [("  ", ""), *_figure(column[at], width)]
        rows.append(crop(tuple(spans), cells))
    return rows


def _fitting(widths: Sequence[int], room: int) -> int:
    """How many columns fit, the first ones first."""
    used = 0
    for number, width in enumerate(widths):
        used += width + 2
        if used > room:
            return number
    return len(widths)


def _width(column: Sequence[Figure]) -> int:
    bar = BAR_CELLS + 1 if any(figure.share is not None for figure in column) else 0
    return bar + max(len(figure.text) for figure in column)


def _figure(figure: Figure, width: int) -> list[Span]:
    if figure.share is None:
        return [(figure.text.ljust(width), figure.style)]
    full = len(LEFT_EIGHTHS) - 1
    steps = filled_steps(min(max(figure.share, 0.0), 1.0), BAR_CELLS * full)
    bar = LEFT_EIGHTHS[-1] * (steps // full) + LEFT_EIGHTHS[steps % full].strip()
    style = "chart-warn" if figure.style == "warn" else "chart"
    text = f" {figure.text}".ljust(width - BAR_CELLS)
    return [(bar.ljust(BAR_CELLS), style), (text, figure.style)]


def _use(table: Table, number: int) -> Span:
    now = latest(table, f"gpu{number}.utilization")
    if now is None:
        return (STOPPED, "dim")
    word = busy_word(now)
    return (f"{percent(now):>5} {word:<3}", STYLES[word])


def _history(table: Table, number: int, width: int, *, live: bool) -> str:
    values = series(table, f"gpu{number}.utilization")
    if live:
        values = steady_bins(values, max(0, samples(table) - len(values)), width)
    return sparkline(values, width, 0.0, 100.0)


def _memory(table: Table, number: int) -> Figure:
    used, whole = (latest(table, f"gpu{number}.memory_{name}") for name in ("used", "total"))
    if used is None:
        return Figure("")
    if not whole:
        return Figure(f"mem {format_bytes(used)}")
    gib = 1024**3
    text = f"{used / gib:.1f}/{whole / gib:.0f} GiB"
    return Figure(f"{text:>13}", share=used / whole)


def _power(table: Table, number: int) -> Figure:
    now, limit = (latest(table, f"gpu{number}.{name}") for name in ("power", "power_limit"))
    if now is None:
        return Figure("")
    text = f"{now:.0f}/{limit:.0f} W" if limit else f"{now:.0f} W"
    return Figure(f"{text:>9}", share=now / limit if limit else None)


def _temperature(table: Table, number: int) -> Figure:
    now = latest(table, f"gpu{number}.temperature")
    if now is None:
        return Figure("")
    return Figure(f"{now:3.0f} °C", "warn" if now >= HOT else "dim")


def _clock(table: Table, number: int) -> Figure:
    now = latest(table, f"gpu{number}.clock_sm")
    return Figure("" if now is None else f"{now:4.0f} MHz")


def _tensor(table: Table, number: int) -> Figure:
    """Activity by the card's own counters, where it has them."""
    named = {"SM": "sm_activity", "tensor": "tensor_activity", "DRAM": "dram_activity"}
    known = {word: latest(table, f"gpu{number}.{name}") for word, name in named.items()}
    parts = [f"{word} {value:.0f} %" for word, value in known.items() if value is not None]
    return Figure("  ".join(parts))


def _traffic(table: Table, number: int) -> Figure:
    to, of = (latest(table, f"gpu{number}.pcie_{way}") for way in ("receive", "transmit"))
    if to is None or of is None:
        return Figure("")
    return Figure(f"PCIe {rate(to)} to  {rate(of)} from")


FIGURES: tuple[Read, ...] = (_memory, _power, _temperature, _clock, _tensor, _traffic)
"""In the order in which they get room."""
