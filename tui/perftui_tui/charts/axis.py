"""Ticks at round values, and the time ruler."""

from __future__ import annotations

import math
from collections.abc import Sequence

_TICK = "╷"
_LABEL_CELLS = 12
"""Room for one tick: its mark, a label of up to eight characters and a blank or two."""

_PLAIN_LABEL = 8
"""A longer label repeats digits that do not change on screen: an offset is shown instead."""

_USUAL_SHARE = 0.98
"""Share of the values for which a scale is made."""

_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 5 times a power of ten that cuts ``span`` into at most ``count``."""
    if span <= 0 or count < 1:
        return 1.0
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def round_ticks(top: float, count: int) -> list[float]:
    """Ticks from 0 up to ``top``: at most ``count`` steps of 1, 2 or 5 times a power of ten."""
    step = nice_step(top, count)
    return [number * step for number in range(math.floor(top / step + 1e-9) + 1)]


def usual_top(values: Sequence[float]) -> float:
    """The top of a scale from 0 on which a slow first step does not flatten all others.

    A tenth above what 98 % of the ``values``, of which there is one at least, stay below; never 0.
    """
    ordered = sorted(values)
    return 1.1 * ordered[min(len(ordered) - 1, int(_USUAL_SHARE * len(ordered)))] or 1.0


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
    distance from it: ``71.585 ms   +20 µs   +40 µs``.
    """
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
