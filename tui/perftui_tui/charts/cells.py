"""Bars, intervals, areas and axes drawn with characters."""

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
        shares[max(movable, key=lambda i: step * (exact[i] - shares[i] * total))] += step
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
    and a short gap never looks busy. Needs ``steps`` of at least 2; one step is on or off."""
    if fraction <= 0:
        return 0
    if fraction >= 1 or steps < 2:
        return steps
    return min(max(round(fraction * steps), 1), steps - 1)


def block_bar(fraction: float, width: int) -> str:
    """``fraction`` of ``width`` cells, filled from the left to an eighth of a cell."""
    full, rest = divmod(filled_steps(fraction, width * 8), 8)
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


def resample(values: Sequence[float], width: int) -> list[float]:
    """``values`` in ``width`` columns, each the maximum of its share: peaks survive, dips may not.

    Fewer values than columns take one column each at the right, where the newest belongs, with NaN
    before them. NaN stands for a missing value; a column is NaN only if all of its share is."""
    count = len(values)
    if count <= width:
        return [math.nan] * (width - count) + list(values)
    edges = [column * count // width for column in range(width + 1)]
    shares = (values[edges[c] : edges[c + 1]] for c in range(width))
    return [max((v for v in share if not math.isnan(v)), default=math.nan) for share in shares]


def column_steps(value: float, high: float, steps: int) -> int:
    """Steps to fill for ``value`` of ``high``: 0 where it is missing, at least 1 from 0 down."""
    if math.isnan(value):
        return 0
    return max(filled_steps(value / high if high > 0 else 0.0, steps), 1)


def sparkline(values: Sequence[float], width: int, high: float) -> str:
    """An area chart of one row, from 0 to ``high``; NaN is blank, other values are clamped."""
    shown = resample(values, width)
    return "".join(LOWER_EIGHTHS[column_steps(v, high, len(LOWER_EIGHTHS) - 1)] for v in shown)


def steady_bins(values: Sequence[float], first: int, columns: int) -> tuple[float, ...]:
    """``values`` in exactly ``columns`` bins, from the left; NaN where the series has not come to.

    ``first`` is the number of the first value in the whole series. A bin holds a power of two of
    values, begins at a multiple of its size in the whole series, and is their maximum. One more
    value then changes one column, until the bins are full and their size doubles; bins that
    followed the end of the series would change every column each second, and over SSH each changed
    row costs bytes."""
    if not values or columns < 1:
        return (math.nan,) * max(0, columns)
    size = 1
    while (first + len(values) - 1) // size - first // size >= columns:
        size *= 2
    bins = [math.nan] * columns
    origin = first // size
    for number, value in enumerate(values, first):
        at = number // size - origin
        bins[at] = value if math.isnan(bins[at]) else max(bins[at], value)
    return tuple(bins)


def charted(values: Sequence[float], total: int, columns: int, *, live: bool) -> Sequence[float]:
    """The newest of ``total`` values in ``columns``: while the series grows, in bins that keep
    their place; else in all columns: few are repeated, many reduced to the maximum of each
    column's share. Nothing for no values of a finished series."""
    if live:
        return steady_bins(values, max(0, total - len(values)), columns)
    if len(values) >= columns:
        return resample(values, columns)
    return [values[column * len(values) // columns] for column in range(columns)] if values else []


DOTS = 4
"""Dots of a cell from bottom to top."""

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_FIRST = 0x2800


def braille_area(values: Sequence[float], width: int, height: int, high: float) -> list[str]:
    """Rows, top first, of an area chart from 0 to ``high``; NaN is blank, others are clamped.

    More values than two a cell are binned by their maximum."""
    rows = []
    steps = [column_steps(value, high, height * DOTS) for value in resample(values, 2 * width)]
    for row in reversed(range(height)):
        dots = [min(max(step - row * DOTS, 0), DOTS) for step in steps]
        pairs = zip(dots[::2], dots[1::2], strict=True)
        # A blank takes one byte, an empty pattern three.
        cells = (chr(_FIRST + _LEFT[a] + _RIGHT[b]) if a or b else " " for a, b in pairs)
        rows.append("".join(cells))
    return rows


_TICK = "╷"
_LABEL_CELLS = 12
"""Room for one tick: its mark, a label of up to eight characters and a blank or two."""

_PLAIN_LABEL = 8
"""A longer label repeats digits that do not change on screen: an offset is shown instead."""

_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 5 times a power of ten that cuts ``span`` into at most ``count``."""
    if span <= 0 or count < 1:
        return 1.0
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def usual_top(values: Sequence[float]) -> float:
    """The top of a scale from 0 on which a slow first step does not flatten all others.

    A tenth above what 98 % of the ``values``, of which there is one at least, stay below, and of
    few all but the highest; never 0."""
    ordered = sorted(values)
    return 1.1 * ordered[int(0.98 * (len(ordered) - 1))] or 1.0


def exact_ns(nanoseconds: int) -> str:
    """All digits of a time, in the largest unit that is not larger than it: ``71.585 ms``."""
    size = abs(nanoseconds)
    scale, unit = next(((s, u) for s, u in _UNITS if size >= s), _UNITS[-1])
    whole, rest = divmod(size, scale)
    digits = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0") if rest else ""
    return f"{'-' if nanoseconds < 0 else ''}{whole}{'.' if digits else ''}{digits} {unit}"


def time_ticks(start: int, end: int, width: int) -> list[tuple[int, int]]:
    """(column, time in ns) of the round times in ``start`` to ``end`` over ``width`` columns."""
    span = end - start
    if span <= 0 or width < 1:
        return []
    step = max(round(nice_step(span, max(width // _LABEL_CELLS, 1))), 1)
    first = -(-start // step) * step
    return [((time - start) * width // span, time) for time in range(first, end, step)]


def ruler(start: int, end: int, width: int) -> str:
    """One row of exactly ``width`` cells: a mark and a label at each round time.

    Where labels share their leading digits, the first has the time in full and the others the
    distance from it: ``71.585 ms +20 µs +40 µs``."""
    cells = [" "] * max(width, 0)
    ticks = time_ticks(start, end, width)
    free_from = 0
    labels = [exact_ns(time) for _, time in ticks]
    if any(len(label) > _PLAIN_LABEL for label in labels):
        labels[1:] = [f"+{exact_ns(time - ticks[0][1])}" for _, time in ticks[1:]]
    for (column, _), label in zip(ticks, labels, strict=True):
        text = _TICK + label
        if column >= free_from and column + len(text) <= width:
            cells[column : column + len(text)] = text
            free_from = column + len(text) + 1
    return "".join(cells)
