"""Idle time: as labels on a track, and as the largest gap of each column."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from perftui.analysis.model import Gap
from perftui.analysis.timeline.track import TimelineTrack
from perftui.trace.model import NONE, Int64, Trace
from perftui.trace.text import printable
from perftui_tui.charts.blocks import ASCII_LEVELS, LOWER_EIGHTHS
from perftui_tui.look.units import format_ns
from perftui_tui.reading.step_breakdown import SHORT_NAMES
from perftui_tui.screens.timeline.model.cells import Cell, narrow, put
from perftui_tui.screens.timeline.model.viewport import Viewport

THRESHOLDS = (1_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
"""Nanoseconds from which idle time counts as a gap; the person moves along these."""

_STEPS_PER_DECADE = 2


def idle_around(track: TimelineTrack, time: int, view: Viewport) -> tuple[int, int]:
    """Start and end of the gap of ``track`` around ``time``; ``view`` has those of the trace."""
    index = track.index
    after = int(np.searchsorted(index.start, np.int64(time), side="right"))
    start = int(index.end[after - 1]) if after else view.first
    return start, int(index.start[after]) if after < len(index) else view.last


class DeviceGaps:
    """The gaps of each device by time. Those of one device do not overlap."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self._gaps: dict[int, list[Gap]] = {}
        for gap in sorted(gaps, key=lambda gap: gap.start):
            self._gaps.setdefault(gap.device, []).append(gap)

    def over(self, device: int, start: int, end: int) -> Gap | None:
        """The gap of ``device`` over more than half of ``start`` to ``end``, None without one.

        One stream may wait while others of the device work: that is no idle device."""
        gaps = self._gaps.get(device, [])
        # What covers more than half of an interval covers its middle.
        place = bisect_right(gaps, (start + end) // 2, key=lambda gap: gap.start) - 1
        if place < 0:
            return None
        gap = gaps[place]
        overlap = min(gap.end, end) - max(gap.start, start)
        return gap if 2 * overlap > end - start else None


def draw_gaps(
    cells: list[Cell],
    trace: Trace,
    track: TimelineTrack,
    view: Viewport,
    gaps: DeviceGaps,
    threshold: int,
) -> None:
    """Write each gap of at least ``threshold`` into the blank cells that it leaves on a track."""
    device = trace.tracks[track.track].device
    for first, last in _blank_runs(cells):
        if last - first < 2:
            continue
        start, end = idle_around(track, view.time((first + last) // 2, len(cells)), view)
        if end - start < threshold:
            continue
        width, gap = last - first + 1, gaps.over(device, start, end)
        row = gap.operator_row if gap else NONE
        inside = "" if row == NONE else narrow(printable(trace.name_of(row)))
        label = gap_label(end - start, gap.cause.value if gap else "", width, inside)
        put(cells, first, bracketed(label, width, start < view.start, end > view.end), "gap")


def gap_label(idle: int, cause: str, width: int, inside: str) -> str:
    """The longest label in ``width`` cells with its brackets; ``inside`` is the host's operator."""
    size = format_ns(idle)
    causes = (cause, *SHORT_NAMES.get(cause, ())) if cause else ()
    candidates = [f" idle {size} {cause} in {inside} "] if cause and inside else []
    candidates += [*(f" idle {size} {word} " for word in causes), f" idle {size} ", f" {size} "]
    return next((label for label in candidates if len(label) + 2 <= width), "")


def bracketed(label: str, width: int, open_left: bool, open_right: bool) -> str:
    """``label`` between lines to both ends; an open end goes on outside."""
    return ("─" if open_left else "├") + label.center(width - 2, "─") + ("─" if open_right else "┤")


def _blank_runs(cells: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """First and last cell of each run of blanks."""
    start = None
    for index, (glyph, _) in enumerate([*cells, ("x", "")]):
        if glyph == " " and start is None:
            start = index
        elif glyph != " " and start is not None:
            yield start, index - 1
            start = None


def largest_gap_row(largest: Int64, threshold: int, ascii_only: bool) -> str:
    """The largest gap of each column, from ``threshold`` two steps a decade."""
    ramp = ASCII_LEVELS if ascii_only else LOWER_EIGHTHS
    top = len(ramp) - 1
    return "".join(ramp[min(_level(gap, threshold), top)] for gap in largest.tolist())


def _level(gap: int, threshold: int) -> int:
    if gap < threshold:
        return 0
    return 1 + int(_STEPS_PER_DECADE * math.log10(gap / threshold))
