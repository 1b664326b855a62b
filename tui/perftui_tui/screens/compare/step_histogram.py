"""How long steps take in two runs, as histograms over one scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import RenderResult
from textual.color import Color
from textual_plotext import PlotextPlot

from perftui_tui.charts.axis import round_ticks, usual_top

BINS = 40
TICK_CELLS, TICK_ROWS = 8, 3
"""Room for the number at a tick of either axis."""

RUNS = (("before", "part-input-wait", "dot"), ("after", "part-forward", "braille"))
"""Each run with its colour, a variable of the theme, and its marker, for those who see none."""


class StepHistogram(PlotextPlot):
    """Two distributions of step times in ms, each as a share of its run's steps."""

    BORDER_TITLE = "Step times"
    _tops = (1.0, 1.0)
    """Where the scales of both axes end, ms and per cent."""

    def show(self, before: Sequence[float], after: Sequence[float]) -> None:
        """Draw both; nothing is drawn for a run without steps."""
        plot = self.plt
        plot.clear_figure()
        top, highest = max((usual_top(one) for one in (before, after) if one), default=1.0), 0.0
        for values, (label, ground, marker) in zip((before, after), RUNS, strict=True):
            if values:
                middles, shares = histogram(values, top)
                highest = max(highest, *shares)
                colour = Color.parse(self.app.theme_variables[ground]).rgb
                plot.plot(middles, shares, label=label, marker=marker, fillx=True, color=colour)
        plot.xlabel("step time, ms")
        plot.ylabel("% of steps")
        plot.xlim(0, top)
        self._tops = (top, highest or 1.0)
        self.refresh()

    def render(self) -> RenderResult:
        """The plot at the size it has now."""
        top, highest = self._tops
        _set_ticks(self.plt.xticks, top, self.size.width // TICK_CELLS)
        _set_ticks(self.plt.yticks, highest, self.size.height // TICK_ROWS)
        return super().render()


def _set_ticks(
    set_ticks: Callable[[list[float], list[str]], object], top: float, room: int
) -> None:
    ticks = round_ticks(top, max(room, 1))
    set_ticks(ticks, [f"{tick:g}" for tick in ticks])


def histogram(values: Sequence[float], top: float) -> tuple[list[float], list[float]]:
    """Middles of ``BINS`` equal bins from 0 to ``top``, and the share of values in each, per cent.

    Values above ``top`` are counted in the last bin, so that the shares sum to 100.
    """
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(value / top * BINS))] += 1
    middles = [(at + 0.5) * top / BINS for at in range(BINS)]
    return middles, [100 * count / len(values) for count in counts]
