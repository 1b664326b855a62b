"""The charts of a run in full: a plot, and the keys that move in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan

import numpy as np
import numpy.typing as npt
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.color import Color
from textual.screen import ModalScreen
from textual_plotext import PlotextPlot

from perftui_tui.charts.cells import nice_step, usual_top
from perftui_tui.charts.run_charts import Chart, Floats
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.dialogs.help import key_row
from perftui_tui.keys.own_keys import bindings, keys_of, shown_key
from perftui_tui.look.format import MISSING, format_bytes, format_ns
from perftui_tui.look.rows import Row, Span, crop, row, spread, width, with_fitting
from perftui_tui.widgets.keys_footer import KeysFooter
from perftui_tui.widgets.row_view import RowView

MOST_POINTS = 4000
"""Points handed to plotext, which takes them one by one; a terminal has far fewer columns."""

COLOURS = ("part-forward", "part-input-wait", "part-backward", "part-optimizer", "part-other",
           "part-loader-start")  # fmt: skip
"""Variables of the theme for the lines, in their order."""

MARKERS = ("braille", "dot", "sd", "x", "+", "o")
ASCII_MARKERS = ("*", "o", "x", "+", "#", "@")
STACKED = ("█", "▒", "▓", "░", "▚", "·")
"""Series can be distinguished without colour; the last are for areas on top of each other."""

TICK_CELLS, TICK_ROWS = 14, 4

FRAME_ROWS = 4
"""Rows around a plot: its border, the numbers and the name of its axis."""


class Plot(PlotextPlot):
    """A plot in the colours of the app's theme."""

    def render(self) -> RenderResult:
        # With sixteen colours the terminal's own: its default would be drawn as black on black.
        self.set_reactive(Plot.theme, "clear" if self.app.current_theme.ansi else "auto")
        return super().render()

    def colour(self, variable: str) -> tuple[int, int, int] | int | str:
        """A colour of the theme as plotext takes it: RGB, or one of the terminal's own."""
        colour = Color.parse(self.app.theme_variables[variable])
        of_terminal = "default" if colour.ansi == -1 else colour.ansi
        return colour.rgb if of_terminal is None else of_terminal


class ChartPlot(Plot):
    """Draws one chart, or a part of it."""

    _chart: Chart | None = None
    _view = (0.0, 1.0)
    _at: int | None = None
    axis_cells = 1
    """Columns left of the plot, taken by the numbers of the axis."""

    def show(
        self, chart: Chart, view: tuple[float, float] | None = None, at: int | None = None
    ) -> None:
        """Draw the range of ``view``, by default all of it, and a cursor at point ``at``."""
        self._chart, self._view, self._at = chart, view or chart.whole, at
        self.refresh()

    def render(self) -> RenderResult:
        if self._chart is not None:
            self._draw(self._chart)
        return super().render()

    def _draw(self, chart: Chart) -> None:
        plot = self.plt
        plot.clear_figure()
        left, right = self._view
        inside = (chart.x >= left) & (chart.x <= right)
        cap, bottom = _range(chart, inside)
        # The legend stands above the values where that leaves half of the plot.
        legend, rows = len(chart.lines) + (chart.marked is not None), self.size.height - FRAME_ROWS
        top = bottom + (cap - bottom) * (rows / (rows - legend) if rows > 2 * legend else 1.0)
        markers = ASCII_MARKERS if RowView.ascii_only else STACKED if chart.is_stacked else MARKERS
        for number, line in enumerate(chart.drawn):
            known = inside & np.isfinite(line.values)
            x, y = downsampled(chart.x[known], np.minimum(line.values[known], cap))
            style = number if line.style is None else line.style
            plot.plot(
                x.tolist(),
                y.tolist(),
                label=line.label,
                marker=markers[style % len(markers)],
                color=self.colour(COLOURS[style % len(COLOURS)]),
                fillx=chart.is_distribution or chart.is_stacked,
            )
        self._draw_marks(chart, inside, bottom, cap)
        plot.xlim(left, right)
        plot.ylim(bottom, top)
        plot.xlabel(chart.x_label)
        # Between two steps there is none.
        least = 1.0 if chart.x_label == "step" else 0.0
        columns = self.size.width // TICK_CELLS
        _ticks(plot.xticks, left, right, columns, partial(x_text, chart), least=least)
        # Of bytes, the largest power of 1024 that is not larger than the highest value.
        power = max(0, int(np.log2(max(top, 1.0)) // 10)) if chart.text is format_bytes else 0
        room = self.size.height // TICK_ROWS
        labels = _ticks(plot.yticks, bottom, top, room, chart.text, 1024.0**power)
        self.axis_cells = max(map(len, labels), default=0) + 1

    def _draw_marks(
        self, chart: Chart, inside: npt.NDArray[np.bool_], bottom: float, top: float
    ) -> None:
        plot, warn = self.plt, self.colour("caution")
        if chart.marked is not None:
            label, marked = chart.marked
            chosen = marked & inside
            if chosen.any():
                x, y = downsampled(chart.x[chosen], np.minimum(chart.lines[0].values[chosen], top))
                plot.scatter(x.tolist(), y.tolist(), marker="x", color=warn, label=label)
        for _, level in chart.levels:
            if chart.is_distribution:
                plot.vline(level, color=self.colour("accent"))
            elif bottom <= level <= top:
                plot.hline(level, color=self.colour("accent"))
        if self._at is not None:
            plot.vline(float(chart.x[self._at]), color=self.colour("caution"))


def _range(chart: Chart, inside: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The highest and the lowest value to draw: of times those that are usual, where few that are
    more than twice as long would flatten them; what is longer is drawn at the top."""
    values = np.concatenate([line.values[inside] for line in chart.drawn])
    values = values[np.isfinite(values)]
    if not len(values):
        return 1.0, 0.0
    highest = float(values.max())
    usual = usual_top(values.tolist()) if chart.text is format_ns else highest
    highest = usual if highest > 2 * usual else highest
    return (1.05 * highest if highest > 0 else 1.0), min(0.0, float(values.min()))


def x_text(chart: Chart, value: float) -> str:
    """A place on the horizontal axis."""
    return format_ns(value) if chart.is_distribution else f"{value:,.10g}"


def _ticks(
    set_ticks: Callable[[list[float], list[str]], object],
    low: float,
    high: float,
    room: int,
    text: Callable[[float], str],
    unit: float = 1.0,
    least: float = 0.0,
) -> list[str]:
    """Set ticks round in ``unit`` and at least ``least`` apart; returns their texts."""
    step = max(least, unit * nice_step((high - low) / unit, max(room, 1)))
    first = int(np.ceil(low / step - 1e-9))
    ticks = [number * step for number in range(first, int(np.floor(high / step + 1e-9)) + 1)]
    labels = [text(tick) for tick in ticks]
    set_ticks(ticks, labels)
    return labels


def downsampled(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most ``MOST_POINTS``: the lowest and the highest point of each bin, in order."""
    if len(x) <= MOST_POINTS:
        return x, y
    edges = np.linspace(0, len(x), MOST_POINTS // 2 + 1).astype(np.int64)
    kept = [
        part
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        for part in sorted({begin + int(y[begin:end].argmin()), begin + int(y[begin:end].argmax())})
    ]
    return x[kept], y[kept]


CURSOR = "The line from top to bottom is the cursor: the row below the plot has its values."
FEWEST_POINTS = 4
"""Points in view: closer there is nothing more to see."""


class ChartScreen(ModalScreen[None]):
    """Shows one of ``charts``; the range in view and the cursor stay while it is changed."""

    BINDINGS = bindings("app.study")
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
        yield RowView(id="chart-title")
        yield ChartPlot(id="chart-plot")
        yield RowView(id="chart-value")
        yield KeysFooter(show_palette=False)

    def on_mount(self) -> None:
        self.action_whole()

    def on_resize(self) -> None:
        self._draw()

    @property
    def chart(self) -> Chart:
        return self._charts[self._chosen]

    def action_whole(self) -> None:
        self.view, self.at = self.chart.whole, len(self.chart.x) - 1
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        cells = self.size.width
        self.query_one("#chart-title", RowView).rows = [self._title(cells)]
        self.query_one("#chart-value", RowView).rows = [self._value(cells)]
        self.query_one(ChartPlot).show(self.chart, self.view, self.at)

    def _title(self, cells: int) -> Row:
        chart = self.chart
        left = row((f" {chart.title} ", "selected"), f"  {self._chosen + 1} of {len(self._charts)}")
        in_unit = format_ns if chart.is_distribution else chart.text
        spans: list[Span] = [(f"{label} {in_unit(level)}", "") for label, level in chart.levels]
        if chart.marked is not None:
            spans.append((f"x {chart.marked[0]}", "warn"))
        if chart.note:
            spans.append((chart.note, "dim"))
        inside = (chart.x >= self.view[0]) & (chart.x <= self.view[1])
        top, _ = _range(chart, inside)
        count = int((np.fmax.reduce([line.values[inside] for line in chart.drawn]) > top).sum())
        if count:
            spans.insert(0, (f"{count:,} above {chart.text(top)}", "warn"))
        return with_fitting(crop(left, cells), spans, cells)

    def _value(self, cells: int) -> Row:
        chart, at, (low, high) = self.chart, self.at, self.view
        unit = "" if chart.is_distribution else f"{chart.x_label.split()[0]} "
        # A hundredth of what is in view.
        decimals = max(0, 2 - int(np.log10(high - low)))
        places = [chart.x[at], low, high, chart.x[0], chart.x[-1]]
        where, *ends = (x_text(chart, round(float(one), decimals)) for one in places)
        spans: list[Span] = []
        for line in chart.lines:
            value = float(line.values[at])
            text = MISSING if isnan(value) else chart.text(value)
            spans.append((f"{line.label} {text}" if len(chart.lines) > 1 else text, ""))
        left = with_fitting(row((" │", "warn"), (f" {unit}{where}", "bold")), spans, cells)
        whole = f"of {ends[2]} to {ends[3]}" if ends[:2] != ends[2:] else "all"
        right = row((f"{ends[0]} to {ends[1]}, {whole} ", "dim"))
        return spread(left, right, cells) if width(left) + width(right) < cells else left

    # Moving about

    def action_change(self, step: int) -> None:
        self._chosen = (self._chosen + step) % len(self._charts)
        self.action_whole()

    def action_cursor(self, points: int) -> None:
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
        """Halve (1) or double (-1) the range in view around the cursor."""
        here, (left, right) = float(self.chart.x[self.at]), self.view
        factor = 0.5**step
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
        self.dismiss(None)

    def action_help(self) -> None:
        closes = Choice(("escape", shown_key("app.study.help"), "q", "f1"), "close")
        body: list[Row | Prose] = [Prose(CURSOR), (), *map(key_row, keys_of("app.study"))]
        self.app.push_screen(ChoiceDialog("Help: charts", body, (closes,)))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the point that was clicked, within the precision of the axis."""
        plot = self.query_one(ChartPlot)
        if plot.region.contains(event.screen_x, event.screen_y):
            margin = plot.axis_cells
            room = max(1, plot.size.width - margin - 1)
            share = min(max((event.screen_x - plot.region.x - margin) / room, 0.0), 1.0)
            left, right = self.view
            pointed = left + share * (right - left)
            self._go(int(np.abs(self.chart.x - pointed).argmin()))

    def on_mouse_scroll_up(self) -> None:
        self.action_zoom(1)

    def on_mouse_scroll_down(self) -> None:
        self.action_zoom(-1)
