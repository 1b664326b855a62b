"""A chart drawn by plotext: axes, the range in view, a cursor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from textual.app import RenderResult
from textual.color import Color
from textual_plotext import PlotextPlot

from perftui_tui.charts.axis import nice_step
from perftui_tui.charts.run_charts import Chart, Floats
from perftui_tui.look.units import format_ns
from perftui_tui.widgets.row_view import RowView

MOST_POINTS = 4000
"""Points handed to plotext, which takes them one by one; a terminal has far fewer columns."""

COLOURS = ("part-forward", "part-input-wait", "part-backward", "part-optimizer", "part-other",
           "part-loader-start")  # fmt: skip
"""Variables of the theme for the lines, in their order."""

MARKERS = ("braille", "dot", "sd", "x", "+", "o")
ASCII_MARKERS = ("*", "o", "x", "+", "#", "@")
"""Series can be distinguished without colour."""

TICK_CELLS, TICK_ROWS = 14, 4

FRAME_ROWS = 4
"""Rows around a plot: its border, the numbers and the name of its axis."""


class ChartPlot(PlotextPlot):
    """Draws one chart between ``left`` and ``right``."""

    _chart: Chart | None = None
    _view = (0.0, 1.0)
    _at = 0
    axis_cells = 1
    """Columns left of the plot, taken by the numbers of the axis."""

    def show(self, chart: Chart, left: float, right: float, at: int) -> None:
        """Draw the range from ``left`` to ``right``, and the cursor at point ``at``."""
        self._chart, self._view, self._at = chart, (left, right), at
        self.refresh()

    def render(self) -> RenderResult:
        """The plot at the size it has now."""
        if self._chart is not None:
            self._draw(self._chart)
        return super().render()

    def _draw(self, chart: Chart) -> None:
        plot = self.plt
        plot.clear_figure()
        left, right = self._view
        inside = (chart.x >= left) & (chart.x <= right)
        top, bottom = _range(chart, inside)
        top = bottom + (top - bottom) * _headroom(chart, self.size.height)
        markers = ASCII_MARKERS if RowView.ascii_only else MARKERS
        for number, line in enumerate(chart.lines):
            known = inside & np.isfinite(line.values)
            x, y = downsampled(chart.x[known], line.values[known])
            style = number if line.style is None else line.style
            plot.plot(
                x.tolist(),
                y.tolist(),
                label=line.label,
                marker=markers[style % len(markers)],
                color=self._colour(COLOURS[style % len(COLOURS)]),
                fillx=chart.is_distribution,
            )
        self._draw_marks(chart, inside, bottom, top)
        plot.xlim(left, right)
        plot.ylim(bottom, top)
        plot.xlabel(chart.x_label)
        # Between two steps there is none.
        least = 1.0 if chart.x_label == "step" else 0.0
        columns = self.size.width // TICK_CELLS
        _ticks(plot.xticks, left, right, columns, partial(x_text, chart), least=least)
        unit = _binary_unit(top) if chart.is_bytes else 1.0
        room = self.size.height // TICK_ROWS
        labels = _ticks(plot.yticks, bottom, top, room, chart.text, unit)
        self.axis_cells = max(map(len, labels), default=0) + 1

    def _draw_marks(
        self, chart: Chart, inside: npt.NDArray[np.bool_], bottom: float, top: float
    ) -> None:
        """Draw highlighted points, the levels, and the cursor."""
        plot, warn = self.plt, self._colour("caution")
        if chart.marked is not None:
            label, marked = chart.marked
            chosen = marked & inside
            if chosen.any():
                x, y = downsampled(chart.x[chosen], chart.lines[0].values[chosen])
                plot.scatter(x.tolist(), y.tolist(), marker="x", color=warn, label=label)
        for _, level in chart.levels:
            if chart.is_distribution:
                plot.vline(level, color=self._colour("accent"))
            elif bottom <= level <= top:
                plot.hline(level, color=self._colour("accent"))
        plot.vline(float(chart.x[self._at]), color=self._colour("caution"))

    def _colour(self, variable: str) -> tuple[int, int, int]:
        return Color.parse(self.app.theme_variables[variable]).rgb


def _range(chart: Chart, inside: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The highest and the lowest value to draw: from zero, unless that would flatten everything."""
    values = np.concatenate([line.values[inside] for line in chart.lines])
    values = values[np.isfinite(values)]
    if not len(values):
        return 1.0, 0.0
    highest = float(values.max())
    return (1.05 * highest if highest > 0 else 1.0), min(0.0, float(values.min()))


def _headroom(chart: Chart, rows: int) -> float:
    """How many times higher than its values a plot is, for its legend to stand above them."""
    legend = len(chart.lines) + (chart.marked is not None)
    plot = rows - FRAME_ROWS
    return plot / (plot - legend) if plot > 3 * legend else 1.0


def x_text(chart: Chart, value: float, digits: int = 10) -> str:
    """A place on the horizontal axis."""
    return format_ns(value) if chart.is_distribution else f"{value:,.{digits}g}"


def _binary_unit(value: float) -> float:
    """The largest power of 1024 that is not larger than ``value``."""
    return float(1024 ** max(0, int(np.log2(max(value, 1.0)) // 10)))


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
