"""A meter: now, history, limit, and a word. Six of them make the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual import events

from perftui_tui.charts.cells import braille_area, charted, resample, sparkline
from perftui_tui.look.rows import Row, Span, crop, fit, joined, row, spread, with_fitting, wrap
from perftui_tui.look.rows import width as width_of
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.widgets.row_view import RowView

NAME_WIDTH = 10
READING_WIDTH = 20
LONGEST_NOTES = 76
FIRST_CELLS = 35
"""Of ``perftui 0.25 to 1.5 %, limit 0.25 %``: beside a row of 80 cells what it took fits whole."""

SHORTEST_CHART = 8
AXIS_WIDTH = 6
MARK = "!"

STYLES = {"": "", "OK": "good", "EVEN": "good", "UNEVEN": "warn", "COPIES": "warn"} | dict.fromkeys(
    ("LOW", "HIGH", "FULL"), "bad"
)
"""The words, each with its style."""


@dataclass(frozen=True)
class Meter:
    """What one pane shows. ``values`` are drawn from 0 to ``high``, oldest first.

    ``absent`` is why there is nothing to show, where that is so."""

    name: str
    reading: str = ""
    word: str = ""
    """One of ``STYLES``."""
    values: tuple[float, ...] = ()
    high: float = 100.0
    limit: str = "100 %"
    """The top of the scale, as text."""
    beside: Sequence[Span] = ()
    """What a line has before its notes, in styles of their own; a chart leaves it out."""
    notes: tuple[str, ...] = ()
    absent: str = ""
    is_missing: bool = False
    """Whether the run does not have what it is about: then others take its place."""
    total: int = 0
    """Values of the whole series, of which ``values`` are the newest."""
    marked: tuple[bool, ...] = ()
    """Which of ``values`` stand out, empty for none: a chart marks their columns."""

    @property
    def chart_style(self) -> str:
        """Whether the chart is highlighted, as its status word is."""
        return {"warn": "chart-warn", "bad": "chart-bad"}.get(STYLES[self.word], "chart")


def draw_line(meter: Meter, cells: int, *, live: bool = False) -> list[Row]:
    """One row: name, reading and word, sparkline, notes; ``live`` while the series grows."""
    name = meter.name.ljust(NAME_WIDTH)
    if meter.absent:
        return [crop(row((name, "bold"), (meter.absent, "dim")), cells)]
    reading = fit(_reading(meter), READING_WIDTH)
    left = cells - NAME_WIDTH - READING_WIDTH
    room = min(max(left * 3 // 5, FIRST_CELLS + 1), left - SHORTEST_CHART, LONGEST_NOTES)
    notes = with_fitting((), [*meter.beside, *_dim(meter.notes)], room - 1, "  ")
    chart_width = max(SHORTEST_CHART, left - max(room, 0))
    values = charted(meter.values, meter.total, chart_width, live=live)
    chart = sparkline(values, chart_width, meter.high)
    drawn = row((name, "bold"), *reading, (chart, meter.chart_style), (" ", ""), *notes)
    return [crop(drawn, cells)]


def draw_chart(meter: Meter, cells: int, height: int, *, live: bool = False) -> list[Row]:
    """An area chart with its scale, two values a cell, and the reading in the last row."""
    if meter.absent:
        return [(), *wrap(meter.absent, cells, "dim")]
    chart_width, chart_height = max(1, cells - AXIS_WIDTH), max(1, height - 1)
    values = charted(meter.values, meter.total, 2 * chart_width, live=live)
    chart = braille_area(values, chart_width, chart_height, meter.high)
    rows = [
        row((_axis(meter, y, chart_height), "dim"), (line, meter.chart_style))
        for y, line in enumerate(chart)
    ]
    if any(meter.marked):
        # A mark over the columns that have a highlighted value; the bins are those of the values.
        marked = charted([*map(float, meter.marked)], meter.total, 2 * chart_width, live=live)
        binned = resample(marked, 2 * chart_width)
        halves = zip(chart[0], binned[::2], binned[1::2], strict=True)
        top = [
            (MARK, "warn") if left > 0 or right > 0 else (cell, meter.chart_style)
            for cell, left, right in halves
        ]
        rows[0] = (rows[0][0], *joined(top))
    reading = _reading(meter)
    notes = with_fitting((), _dim(meter.notes), cells - width_of(reading) - 2, "  ")
    return [*rows, spread(reading, notes, cells)]


def _dim(notes: Sequence[str]) -> list[Span]:
    return [(note, "dim") for note in notes]


def _reading(meter: Meter) -> Row:
    word: Span = (meter.word, STYLES[meter.word])
    return row(meter.reading, " " if meter.reading else "", word)


def _axis(meter: Meter, y: int, height: int) -> str:
    label = meter.limit if y == 0 else "0" if y == height - 1 else ""
    return f"{label[: AXIS_WIDTH - 1]:>{AXIS_WIDTH - 1}}" + ("┤" if label else "│")


Draw = Callable[[Snapshot, int, int], Sequence[Row]]


class SnapshotPane(RowView):
    """Draws ``draw`` whenever it is shown a snapshot or its size changes.

    ``chart`` names the chart that a click opens; empty for none."""

    def __init__(self, draw: Draw, *, chart: str = "", **given: Any) -> None:
        super().__init__(**given)
        self._chart = chart
        self._draw = draw
        self._snapshot: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Draw ``snapshot``; nothing is repainted that it does not change."""
        self._snapshot = snapshot
        self.draw(partial(self._draw, snapshot))

    async def on_click(self, event: events.Click) -> None:  # noqa: ARG002 - anywhere on it
        if self._chart:
            await self.run_action(f"app.study('{self._chart}')")
