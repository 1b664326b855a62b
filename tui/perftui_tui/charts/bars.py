"""Bars and rows of one line: ramps that fill a cell step by step, shares of a bar, an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perftui_tui.look.rows import Row, joined


def apportion(values: Sequence[int], cells: int) -> list[int]:
    """``cells`` in proportion to ``values``: at least one for each non-zero one, largest first."""
    largest = sorted((i for i, v in enumerate(values) if v > 0), key=lambda i: -values[i])
    shares = [0] * len(values)
    for index in largest[:cells]:
        shares[index] = 1
    if cells == sum(shares) or not largest:
        return shares
    # What is left goes to the parts furthest below their exact share, one cell at a time.
    total = sum(values)
    exact = [value * cells for value in values]
    for index, value in enumerate(exact):
        shares[index] = max(shares[index], value // total)
    while (excess := sum(shares) - cells) != 0:
        step = -1 if excess > 0 else 1
        movable = [i for i, v in enumerate(values) if v > 0 and shares[i] + step >= 1]
        best = max(movable, key=lambda i: step * (exact[i] - shares[i] * total))
        shares[best] += step
    return shares


LOWER_EIGHTHS = " ▁▂▃▄▅▆▇█"
"""Fill a cell from below."""

LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Fill a cell from the left."""

ASCII_LEVELS = " .:#"
"""Fill a cell where the terminal's font has no blocks."""


def filled_steps(fraction: float, steps: int) -> int:
    """Number of ``steps`` to fill for ``fraction`` (clamped to 0..1).

    Nothing is filled only for 0 and everything only for 1, so that a little work never looks idle
    and a short gap never looks busy. Needs ``steps`` of at least 2; one step is on or off.
    """
    if fraction <= 0:
        return 0
    if fraction >= 1 or steps < 2:
        return steps
    return min(max(round(fraction * steps), 1), steps - 1)


def block_bar(fraction: float, width: int) -> str:
    """``fraction`` of ``width`` cells, filled from the left to an eighth of a cell."""
    steps = filled_steps(fraction, width * 8)
    full, rest = divmod(steps, 8)
    return ("█" * full + (LEFT_EIGHTHS[rest] if rest else "")).ljust(width)


MARGIN = 0.06
"""Share of the scale that is left free at either end."""

ONE, PAIR, MIDDLE, INSIDE, LOW, HIGH, AXIS = "┼", "·", "●", "━", "├", "┤", "─"

WIDEST = 100.0
"""Ratios beyond it, or as far below 1, are drawn at the end of the scale."""


def interval_rows(
    ratios: Sequence[float], interval: tuple[float, float, float] | None, cells: int
) -> tuple[Row, Row, Row]:
    """The pairs as dots, the interval (low, ratio, high) on an axis, and the scale below it.

    The axis is logarithmic: twice as fast is as far from 1 as half as fast. Without an interval
    there are only the dots."""
    shown = [1.0, *ratios, *(interval or ())]
    logs = [math.log(min(max(ratio, 1 / WIDEST), WIDEST)) for ratio in shown]
    span = max(max(logs) - min(logs), 0.02)
    begin, span = min(logs) - MARGIN * span, span * (1 + 2 * MARGIN)

    def at(ratio: float) -> int:
        log = math.log(min(max(ratio, 1 / WIDEST), WIDEST))
        return min(cells - 1, max(0, round((log - begin) / span * (cells - 1))))

    dots = [" "] * cells
    for ratio in ratios:
        dots[at(ratio)] = PAIR
    axis = [(AXIS, "dim")] * cells
    axis[at(1.0)] = (ONE, "bold")
    if interval is not None:
        low, ratio, high = map(at, interval)
        style = "good" if interval[0] > 1 else "bad" if interval[2] < 1 else "warn"
        for cell in range(low, high + 1):
            axis[cell] = (INSIDE, style)
        axis[low], axis[high] = (LOW, style), (HIGH, style)
        if low <= at(1.0) <= high:
            axis[at(1.0)] = (ONE, "bold")
        axis[ratio] = (MIDDLE, style)
    return (("".join(dots), "accent"),), joined(axis), _scale(at(1.0), cells, min(logs), max(logs))


def _scale(one: int, cells: int, least: float, most: float) -> Row:
    """``1x`` below the place of 1, and the ends of the scale where they leave room for it."""
    labels = [" "] * cells

    def put(text: str, start: int) -> None:
        start = min(max(0, start), cells - len(text))
        room = labels[max(0, start - 1) : start + len(text) + 1]
        if all(cell == " " for cell in room):
            labels[start : start + len(text)] = text

    put("1x", one)
    if most > 0:
        put(f"{math.exp(most):.2f}x", cells)
    if least < 0:
        put(f"{math.exp(least):.2f}x", 0)
    return (("".join(labels), "dim"),)
