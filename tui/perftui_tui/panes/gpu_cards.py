"""GPUs one below the other, a row each: use with its history, memory, power, heat, clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perftui.telemetry.gpu.names import gpu_name
from perftui_tui.charts.area import over_all_columns, sparkline, steady_bins
from perftui_tui.charts.blocks import block_bar
from perftui_tui.look.format import percent
from perftui_tui.look.rows import Row, Span, crop, row
from perftui_tui.panes.card_figures import FIGURES, Card, Figure
from perftui_tui.panes.ceilings import ceilings
from perftui_tui.panes.gpu import busy_word, gpu
from perftui_tui.panes.meter import NAME_WIDTH, STYLES
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import (
    STOPPED,
    gpus,
    latest,
    mean,
    samples,
    series,
    table_of,
)

if TYPE_CHECKING:
    from perftui.facts.gpu.own_gpus import OwnCeilings
    from perftui.run.table import Table

BAR_CELLS = 5
EDGE = "▏"
"""Where a full bar would end."""

LONGEST_HISTORY = 60
SHORTEST_HISTORY = 8


def gpu_cards(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row for each card, those first that the run uses; why there is none where so."""
    table = table_of(snapshot)
    prefixes = _known(table)
    if table is None or not prefixes:
        return [crop(row(("GPU".ljust(NAME_WIDTH), "bold"), (gpu(snapshot).absent, "dim")), cells)]
    shown = prefixes
    if len(shown) > height:
        first = _own_first(snapshot, table, prefixes)[: max(1, height - 1)]
        shown = [prefix for prefix in prefixes if prefix in first]
    rows = _drawn(snapshot, table, shown, cells)
    left = len(prefixes) - len(shown)
    if left and height > len(rows):
        rows.append(crop(row((f"{'':{NAME_WIDTH}}and {left} more GPUs", "dim")), cells))
    return rows


def count(snapshot: Snapshot) -> int:
    """How many GPUs are sampled."""
    return len(_known(table_of(snapshot)))


def _known(table: Table | None) -> list[str]:
    """What the columns of each GPU begin with whose use was sampled."""
    return [prefix for prefix in gpus(table) if series(table, f"{prefix}.utilization")]


def _own_first(snapshot: Snapshot, table: Table, prefixes: Sequence[str]) -> list[str]:
    """Those that the run uses first, or where that is not known that hold memory of it."""
    from perftui.facts.gpu.own_gpus import own_gpus

    own = snapshot.ask(own_gpus) or ()

    def is_other(prefix: str) -> bool:
        return prefix not in own if own else not mean(table, f"{prefix}.process_memory")

    return sorted(prefixes, key=is_other)


def _drawn(snapshot: Snapshot, table: Table, prefixes: Sequence[str], cells: int) -> list[Row]:
    use = [_use(table, prefix) for prefix in prefixes]
    left = cells - NAME_WIDTH - max(len(text) for text, _ in use) - 1
    columns, widths, fitting = _columns(snapshot, table, prefixes, left - SHORTEST_HISTORY)
    history = min(LONGEST_HISTORY, left - sum(width + 2 for width in widths[:fitting]))
    live = snapshot.phase.is_live
    rows = []
    for at, prefix in enumerate(prefixes):
        text, style = use[at]
        chart = _history(table, prefix, max(history, 1), live=live)
        spans: list[Span] = [(gpu_name(prefix).ljust(NAME_WIDTH), "bold"), (text, style), (" ", "")]
        spans.append((chart, {"bad": "chart-bad"}.get(style, "chart")))
        for column, width in zip(columns[:fitting], widths, strict=False):
            spans += [("  ", ""), *_figure(column[at], width)]
        rows.append(crop(tuple(spans), cells))
    return rows


def _columns(
    snapshot: Snapshot, table: Table, prefixes: Sequence[str], room: int
) -> tuple[list[list[Figure]], list[int], int]:
    """Figures of all cards, their widths, and how many fit: beside what was measured on this
    machine, unless a figure had to go for that."""
    from perftui.facts.gpu.own_gpus import gpu_processes

    def of(known: OwnCeilings | None) -> tuple[list[list[Figure]], list[int], int]:
        cards = [Card(table, prefix, known, others.get(prefix, ())) for prefix in prefixes]
        columns = [[read(card) for card in cards] for read in FIGURES]
        columns = [column for column in columns if any(figure.text for figure in column)]
        widths = [_width(column) for column in columns]
        return columns, widths, _fitting(widths, room)

    others = snapshot.ask(gpu_processes) or {}
    plain, known = of(None), ceilings(snapshot)
    measured = plain if known is None else of(known)
    return measured if measured[2] >= plain[2] else plain


def _fitting(widths: Sequence[int], room: int) -> int:
    """How many columns fit, the first ones first."""
    used = 0
    for number, width in enumerate(widths):
        used += width + 2
        if used > room:
            return number
    return len(widths)


def _width(column: Sequence[Figure]) -> int:
    bar = BAR_CELLS + len(EDGE) if any(figure.share is not None for figure in column) else 0
    return bar + max(len(figure.text) for figure in column)


def _figure(figure: Figure, width: int) -> list[Span]:
    if figure.share is None:
        return [(figure.text.ljust(width), figure.style)]
    style = "chart-warn" if figure.style == "warn" else "chart"
    text = figure.text.ljust(width - BAR_CELLS - len(EDGE))
    return [(block_bar(figure.share, BAR_CELLS), style), (EDGE, "dim"), (text, figure.style)]


def _use(table: Table, prefix: str) -> Span:
    now = latest(table, f"{prefix}.utilization")
    if now is None:
        return (STOPPED, "dim")
    word = busy_word(now)
    return (f"{percent(now):>5} {word:<3}", STYLES[word])


def _history(table: Table, prefix: str, width: int, *, live: bool) -> str:
    values = series(table, f"{prefix}.utilization")
    if live:
        values = steady_bins(values, max(0, samples(table) - len(values)), width)
    else:
        values = tuple(over_all_columns(values, width))
    return sparkline(values, width, 0.0, 100.0)
