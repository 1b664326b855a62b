"""The calls of a step against the roofs of the card: as a table, in words, and as a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from textual.app import RenderResult

from perftui import format as fmt
from perftui.analysis.kernels.category import Precision
from perftui.analysis.kernels.limits import Card
from perftui.facts.gpu.roofline import RoofedCall, Roofline
from perftui.trace.text import printable
from perftui_tui.dialogs.chart import Plot
from perftui_tui.look.format import MISSING, format_ns, format_percent, significant
from perftui_tui.tables.rows import (
    TIME_WIDTH,
    TableData,
    count_column,
    known_column,
    name_column,
    percent_column,
    text_column,
    time_column,
)
from perftui_tui.widgets.row_view import RowView

LETTERS = "abcdefghijklmnopqrstuvwxyz"

BEYOND = (
    "above 100 %: data was still in caches, or inputs were expanded and their strides not recorded"
)
"""Why a call can be faster than its roof."""

NOT_MEASURED = "perftui probe measures what this card reaches"


def roofline_table(found: Roofline) -> TableData:
    """A row for each operator with its sizes, those first that would save most at their roof."""
    calls = found.calls
    names = [printable(f"{one.operator} {one.sizes}") for one in calls]
    of_chart = letters(calls)
    marks = [of_chart.get(row, "") for row in range(len(calls))]
    is_beside = found.card.measured is not None and not found.card.is_measured
    reached = [one.reached_of_measured for one in calls]
    measured = [None if each is None else 100 * each for each in reached]
    bounds = [one.bound or MISSING for one in calls]
    counts = np.array([one.calls for one in calls], np.int64)
    flops, moved = [one.flop_rate for one in calls], [one.byte_rate for one in calls]
    columns = [
        name_column("op and sizes of its inputs", names, "groups"),
        text_column("chart", marks, 5, 5),
        text_column(
            "precision", [one.precision.value if one.flops else MISSING for one in calls], 14, 8
        ),
        replace(count_column("calls", counts), optional=9),
        known_column("FLOP/byte", [one.intensity for one in calls], significant, 7, 6),
        known_column("TFLOP/s", flops, lambda rate: significant(rate / 1e12), 7, 3),
        known_column("GB/s", moved, lambda rate: significant(rate / 1e9), 7, 4),
        text_column("bound by", bounds, 10, 2),
        percent_column(
            "of measured" if found.card.is_measured else "of roof",
            [100 * one.reached if one.roof else None for one in calls],
            1,
        ),
        *([percent_column("of measured", measured, 2)] if is_beside else []),
        time_column("time", np.array([one.time for one in calls], np.int64)),
        known_column("could save", [one.saved for one in calls], format_ns, TIME_WIDTH, unit="ns"),
    ]
    ids = [(one.operator, one.sizes, one.kernel) for one in calls]
    full = [f"{name}   {printable(one.kernel)}" for name, one in zip(names, calls, strict=True)]
    return TableData(full, tuple(columns), sort_column=len(columns) - 1, ids=ids)


def letters(calls: Sequence[RoofedCall]) -> dict[int, str]:
    """The letters by which the chart names some calls: those with arithmetic that would save most
    at their roof, as far as the letters reach."""
    drawn = [row for row, one in enumerate(calls) if one.intensity is not None]
    drawn.sort(key=lambda row: -(calls[row].saved or 0))
    return dict(zip(drawn, LETTERS, strict=False))


def about(found: Roofline) -> str:
    """What the table is about: which part of the step, which roofs, and what its figures mean."""
    share = format_percent(found.covered / found.whole if found.whole else 0.0)
    saved = "the measured roof" if found.card.measured else "the data sheet's roof"
    parts = [f"{share} of a step's GPU time   could save: at {saved}"]
    name = printable(found.card.name)
    if found.card.is_measured:
        parts.append(f"{name}, measured by perftui probe: {_peaks(found.peaks)}")
    else:
        parts.append(f"{name}, data sheet: {_peaks(found.peaks)}")
        beside = found.card.measured
        parts.append(NOT_MEASURED if beside is None else f"measured: {_peaks(beside)}")
    if any(one.reached > 1 for one in found.calls):
        parts.append(BEYOND)
    return "\n".join(parts)


def _peaks(card: Card) -> str:
    rates = (("float32", card.float32), ("TF32", card.tf32), ("16 bit", card.half))
    known = ", ".join(f"{name} {significant(rate)}" for name, rate in rates if rate)
    return f"{known} TFLOP/s, memory {significant(card.bandwidth / 1e3)} TB/s"


NOTHING = "no call with matrix products, convolutions or attention to draw"

TICK_CELLS, TICK_ROWS = 8, 2
"""Room for the number at a tick of either axis."""

MARGIN = 0.15
"""Powers of ten between the outermost points and the frame."""


class RooflineChart(Plot):
    """Roofs of the precisions that are used as lines, calls as the letters of the table."""

    BORDER_TITLE = "Roofline"
    _found: Roofline | None = None
    _selected: int | None = None

    def show(self, found: Roofline | None, selected: int | None) -> None:
        """Draw ``found`` with the call of that number marked; nothing for None."""
        if (found, selected) != (self._found, self._selected):
            self._found, self._selected = found, selected
            self.refresh()

    def render(self) -> RenderResult:
        if self._found is not None:
            self._draw(self._found)
        return super().render()

    def _draw(self, found: Roofline) -> None:
        plot = self.plt
        plot.clear_figure()
        calls = found.calls
        drawn = {row: letter for row, letter in letters(calls).items() if calls[row].flop_rate}
        if not drawn:
            plot.title(NOTHING)
            return
        left, right, bottom, top = limits([calls[row] for row in drawn], found)
        used = list(dict.fromkeys(calls[row].precision for row in drawn))
        sources = [("data sheet", found.peaks)] if not found.card.is_measured else []
        if found.card.measured is not None:
            sources.append(("measured", found.card.measured))
        markers = ("*", "o") if RowView.ascii_only else ("braille", "dot")
        for (source, card), marker, line in zip(
            sources, markers, ("part-forward", "part-input-wait"), strict=False
        ):
            for precision in used:
                points = roof(card, precision, left, right)
                if points:
                    x, y = zip(*points, strict=True)
                    label = f"{precision.value}, {source}"
                    plot.plot(x, y, marker=marker, color=self.colour(line), label=label)
        for row, letter in reversed(drawn.items()):
            colour = self.colour("caution" if row == self._selected else "accent")
            shown = f"[{letter}]" if row == self._selected else letter
            at = place_of(calls[row])
            # Without one of its own plotext takes white, whatever the canvas has.
            ground = self.colour("surface")
            plot.text(shown, *at, color=colour, background=ground, alignment="center")
        plot.xlim(left, right)
        plot.ylim(bottom, top)
        plot.xlabel("FLOP per byte")
        columns, rows = self.size.width // TICK_CELLS, self.size.height // TICK_ROWS
        across, up = ticks(left, right, columns), ticks(bottom, top, rows)
        plot.xticks([math.log10(at) for at in across], [f"{at:g}" for at in across])
        plot.yticks([math.log10(at) for at in up], [fmt.rate(at, "FLOP/s") for at in up])


def place_of(one: RoofedCall) -> tuple[float, float]:
    """Operations for each byte, and each second, as powers of ten; of a call with arithmetic."""
    return math.log10(one.intensity or 1.0), math.log10(one.flop_rate or 1.0)


def roof(card: Card, precision: Precision, left: float, right: float) -> list[tuple[float, float]]:
    """The corners of a roof between two places of the horizontal axis, all as powers of ten; none
    where the rate is not known."""
    rate = card.rate(precision) * 1e12
    if not rate:
        return []
    slope, flat = math.log10(card.bandwidth * 1e9), math.log10(rate)
    ridge = flat - slope
    places = sorted({left, min(max(ridge, left), right), right})
    return [(at, min(at + slope, flat)) for at in places]


def limits(calls: Sequence[RoofedCall], found: Roofline) -> tuple[float, float, float, float]:
    """Left, right, bottom and top as powers of ten: all calls and the ridge of each roof."""
    across = [math.log10(one.intensity) for one in calls if one.intensity]
    up = [math.log10(one.flop_rate) for one in calls if one.flop_rate]
    for card in filter(None, (found.peaks, found.card.measured)):
        for precision in {one.precision for one in calls}:
            rate = card.rate(precision)
            if rate:
                up.append(math.log10(rate * 1e12))
                across.append(math.log10(rate * 1e3 / card.bandwidth))
    return (min(across) - MARGIN, max(across) + MARGIN, min(up) - MARGIN, max(up) + MARGIN)


def ticks(low: float, high: float, room: int) -> list[float]:
    """Round values between two powers of ten: 1, 2 and 5 times a power, or only powers where there
    is ``room`` for fewer."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    every = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    shown = [at for at in every if low <= math.log10(at) <= high]
    if len(shown) <= room:
        return shown
    return [at for at in shown if math.log10(at) == round(math.log10(at))] or shown[:1]
