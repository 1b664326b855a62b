"""How long steps take in two runs, as histograms over one scale."""

from __future__ import annotations

from collections.abc import Sequence

from textual.color import Color
from textual_plotext import PlotextPlot

BINS = 40
QUANTILE = 0.98
"""Where the scale ends: a slow first step must not squeeze all others into one bin."""


BEFORE, AFTER = "part-input-wait", "part-forward"
"""Variables of the theme for the two runs."""


class StepHistogram(PlotextPlot):
    """Two distributions of step times in ms, each as a share of its run's steps."""

    def show(self, before: Sequence[float], after: Sequence[float]) -> None:
        """Draw both; nothing is drawn for a run without steps."""
        plot = self.plt
        plot.clear_figure()
        top = max((_quantile(values) for values in (before, after) if values), default=1.0)
        for values, label, ground in ((before, "before", BEFORE), (after, "after", AFTER)):
            if values:
                edges, shares = histogram(values, top)
                colour = Color.parse(self.app.theme_variables[ground]).rgb
                plot.plot(edges, shares, label=label, marker="braille", fillx=True, color=colour)
        plot.xlabel("step time, ms")
        plot.ylabel("% of steps")
        plot.xlim(0, top)
        self.refresh()


def _quantile(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(QUANTILE * len(ordered)))] * 1.1


def histogram(values: Sequence[float], top: float) -> tuple[list[float], list[float]]:
    """Middles of ``BINS`` equal bins from 0 to ``top``, and the share of values in each, per cent.

    Values above ``top`` are counted in the last bin, so that the shares sum to 100.
    """
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(value / top * BINS))] += 1
    middles = [(at + 0.5) * top / BINS for at in range(BINS)]
    return middles, [100 * count / len(values) for count in counts]
