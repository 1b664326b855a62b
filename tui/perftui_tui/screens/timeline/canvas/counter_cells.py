"""One counter of the timeline as cells: how high it was in each column, with values in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perftui.analysis.timeline.track import Counter, Sample
from perftui_tui.charts.area import column_steps
from perftui_tui.charts.blocks import ASCII_LEVELS, LOWER_EIGHTHS
from perftui_tui.screens.timeline.canvas.track_cells import Glyphs
from perftui_tui.screens.timeline.model.cells import BLANK, Cell, narrow, put
from perftui_tui.screens.timeline.model.counter_track import rounded, value_text
from perftui_tui.screens.timeline.model.viewport import Viewport

DRAWN, HELD, VALUE = "counter", "muted", "step"
"""Styles: a column near a sample, one of a view without any, and words."""

NO_SAMPLE = "no sample"

_BESIDE = 2
"""Cells of a sample that are left free of its value, to be seen."""


def counter_cells(counter: Counter, view: Viewport, columns: int, glyphs: Glyphs) -> list[Cell]:
    """Each column as high as the mean over what is known of it; blank where nothing is.

    A sample that has room has its value in words. Where no sample was taken in the view, what is
    drawn is from outside it: dim, and with words that say so.
    """
    ramp = ASCII_LEVELS if glyphs.ascii_only else LOWER_EIGHTHS
    means = counter.means(view.start, view.end, columns)
    is_near = is_sampled(counter, view)
    style = DRAWN if is_near else HELD
    levels = [column_steps(mean, 0, counter.top, len(ramp) - 1) for mean in means.tolist()]
    cells = [(ramp[level], style) if level else BLANK for level in levels]
    for sample in _in_view(counter, view, columns):
        first, last = _columns(sample, view, columns)
        value = value_text(sample.value, counter.unit)
        texts = (value,) if is_near else (f"{value}, {sampling(counter)}", value)
        text = next((each for each in texts if len(each) + _BESIDE <= last - first + 1), "")
        put(cells, first, narrow(text), VALUE if is_near else HELD)
    _name_blanks(cells)
    return cells


def is_sampled(counter: Counter, view: Viewport) -> bool:
    """Whether the view has a sample of its own, or the counter has every change."""
    return not counter.interval or counter.is_sampled_in(view.start, view.end)


def sampling(counter: Counter) -> str:
    """How often it was sampled, in words."""
    return f"sampled every {rounded(counter.interval)}" if counter.interval else "every change"


def _in_view(counter: Counter, view: Viewport, columns: int) -> Iterator[Sample]:
    """The samples in view; none where they are too many to have words."""
    first = int(np.searchsorted(counter.end, np.int64(view.start), side="right"))
    behind = int(np.searchsorted(counter.start, np.int64(view.end), side="left"))
    if behind - first <= columns:
        yield from (counter.sample(place) for place in range(first, behind))


def _columns(sample: Sample, view: Viewport, columns: int) -> tuple[int, int]:
    """The first and the last column that a sample has for itself."""
    first = view.column(max(sample.start, view.start), columns)
    last = view.column(min(sample.end, view.end) - 1, columns)
    # A column in the middle of which it begins is partly that of the sample before.
    begins = view.start + first * view.span // columns
    return first + (begins < sample.start), last


def _name_blanks(cells: list[Cell]) -> None:
    """Write into wide blanks that nothing is known there."""
    start = 0
    for at in range(len(cells) + 1):
        if at == len(cells) or cells[at] != BLANK:
            if at - start >= len(NO_SAMPLE) + 2 * _BESIDE:
                put(cells, start + _BESIDE, NO_SAMPLE, HELD)
            start = at + 1
