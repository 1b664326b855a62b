"""A chart over the whole screen: choose one, move the cursor, look closer."""

from __future__ import annotations

from math import isnan
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen

from perftui_tui.charts.run_charts import Chart, nearest
from perftui_tui.dialogs.chart.plot import ChartPlot, x_text
from perftui_tui.keys.keymap import bindings
from perftui_tui.look.rows import Row, Span, crop, row, spread, width, with_fitting
from perftui_tui.look.units import MISSING, format_ns
from perftui_tui.widgets.keys_footer import KeysFooter
from perftui_tui.widgets.row_view import RowView

ZOOM = 0.5
"""The part of the range in view that stays when zooming in."""

FEWEST_POINTS = 4
"""Points in view: closer there is nothing more to see."""


class ChartScreen(ModalScreen[None]):
    """Shows one of ``charts``; the range in view and the cursor stay while it is changed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("app.study")
    DEFAULT_CSS = """
    ChartScreen { background: $background; }
    ChartScreen #chart-title, ChartScreen #chart-value {
        height: 1; background: $panel; overflow: hidden hidden;
    }
    ChartScreen ChartPlot { height: 1fr; }
    """

    def __init__(self, charts: tuple[Chart, ...], name: str = "") -> None:
        super().__init__()
        self._charts = charts
        names = [one.name for one in charts]
        self._chosen = names.index(name) if name in names else 0
        self.at = 0
        """The point under the cursor."""
        self.view = (0.0, 1.0)
        """The range in view, in units of the horizontal axis."""

    def compose(self) -> ComposeResult:
        """Which chart it is, the chart, the value under the cursor, the keys."""
        yield RowView(id="chart-title")
        yield ChartPlot(id="chart-plot")
        yield RowView(id="chart-value")
        yield KeysFooter(show_palette=False)

    def on_mount(self) -> None:
        """Show all of it, the cursor at the end."""
        self.action_whole()

    def on_resize(self) -> None:
        """Draw at the new size."""
        self._draw()

    @property
    def chart(self) -> Chart:
        """The chart that is shown."""
        return self._charts[self._chosen]

    def action_whole(self) -> None:
        """Show the whole chart, the cursor at the end."""
        x = self.chart.x
        left, right = float(x[0]), float(x[-1])
        self.view = (left, right if right > left else left + 1)
        self.at = len(x) - 1
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        cells = self.size.width
        self.query_one("#chart-title", RowView).rows = [self._title(cells)]
        self.query_one("#chart-value", RowView).rows = [self._value(cells)]
        self.query_one(ChartPlot).show(self.chart, *self.view, self.at)

    def _title(self, cells: int) -> Row:
        chart = self.chart
        left = row((f" {chart.title} ", "selected"), f"  {self._chosen + 1} of {len(self._charts)}")
        spans: list[Span] = [
            (f"{label} {chart_level(chart, level)}", "") for label, level in chart.levels
        ]
        if chart.marked is not None:
            spans.append((f"x {chart.marked[0]}", "warn"))
        if chart.note:
            spans.append((chart.note, "dim"))
        return with_fitting(crop(left, cells), spans, cells)

    def _value(self, cells: int) -> Row:
        chart, at = self.chart, self.at
        unit = "" if chart.is_distribution else f"{chart.x_label.split()[0]} "
        where = unit + x_text(chart, float(chart.x[at]))
        values = "   ".join(
            f"{line.label if len(chart.lines) > 1 else ''} {_text(chart, float(line.values[at]))}"
            for line in chart.lines
        )
        left = row((f" {where} ", "bold"), f" {values.strip()}")
        low, high = self.view
        first, last = float(chart.x[0]), float(chart.x[-1])
        ends = [x_text(chart, one, digits=6) for one in (low, high, first, last)]
        whole = f"of {ends[2]} to {ends[3]}" if low > first or high < last else "all"
        right = row((f"{ends[0]} to {ends[1]}, {whole} ", "dim"))
        fits = width(left) + width(right) < cells
        return spread(left, right, cells) if fits else crop(left, cells)

    # Moving about

    def action_change(self, step: int) -> None:
        """The next chart, or the one before."""
        self._chosen = (self._chosen + step) % len(self._charts)
        self.action_whole()

    def action_cursor(self, points: int) -> None:
        """Move the cursor by points, and the view with it."""
        self._go(self.at + points)

    def action_edge(self, end: int) -> None:
        """The cursor to the first (0) or the last (1) point."""
        self._go((len(self.chart.x) - 1) * end)

    def _go(self, at: int) -> None:
        x = self.chart.x
        self.at = min(max(at, 0), len(x) - 1)
        here, (left, right) = float(x[self.at]), self.view
        if not left <= here <= right:
            half = (right - left) / 2
            self._set_view(here - half, here + half)
        self._draw()

    def action_zoom(self, step: int) -> None:
        """Look closer (1) around the cursor, or from further away (-1)."""
        here, (left, right) = float(self.chart.x[self.at]), self.view
        factor = ZOOM**step
        self._set_view(here - (here - left) * factor, here + (right - here) * factor)
        self._draw()

    def _set_view(self, left: float, right: float) -> None:
        x = self.chart.x
        first, last = float(x[0]), float(x[-1])
        shortest = (last - first) * FEWEST_POINTS / max(len(x), FEWEST_POINTS) or 1.0
        if right - left < shortest:
            middle = float(x[self.at])
            left, right = middle - shortest / 2, middle + shortest / 2
        shift = max(first - left, 0.0) - max(right - last, 0.0)
        left, right = max(left + shift, first), min(right + shift, last)
        self.view = (left, right if right > left else left + 1)

    def action_close(self) -> None:
        """Back to the screen."""
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the point that was clicked, within the precision of the axis."""
        plot = self.query_one(ChartPlot)
        if plot.region.contains(event.screen_x, event.screen_y):
            margin = plot.axis_cells
            room = max(1, plot.size.width - margin - 1)
            share = min(max((event.screen_x - plot.region.x - margin) / room, 0.0), 1.0)
            left, right = self.view
            self._go(nearest(self.chart.x, left + share * (right - left)))

    def on_mouse_scroll_up(self) -> None:
        """Look closer."""
        self.action_zoom(1)

    def on_mouse_scroll_down(self) -> None:
        """Look from further away."""
        self.action_zoom(-1)


def _text(chart: Chart, value: float) -> str:
    return MISSING if isnan(value) else chart.text(value)


def chart_level(chart: Chart, value: float) -> str:
    """A level of the chart, in the unit of its axis."""
    return format_ns(value) if chart.is_distribution else chart.text(value)
