"""Numbers as a tired person reads them: two or three digits and a unit, and integers that keep
their sum; names of places, and names that were typed nearly right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def duration(ns: float) -> str:
    """``21 ms``, ``4.3 ms``, ``850 µs``, ``120 ns``."""
    for size, unit in _TIMES:
        # A value that would round up to a thousand of the smaller unit belongs to this one.
        if abs(ns) >= 0.9995 * size:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def rough_time(seconds: float) -> str:
    """How long something may take: ``40 s``, ``4 min``, ``1 h 20 min``; never finer than ten
    seconds, which nobody knows beforehand."""
    if seconds < 55:
        return f"{max(10, 10 * round(seconds / 10))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def rough_range(fewest: float, most: float) -> str:
    """Seconds as ``2 to 5 min``, ``50 s to 2 min``; ``2 min`` where both are the same."""
    low, high = rough_time(fewest), rough_time(most)
    if low == high:
        return low
    for unit in (" s", " min", " h"):
        if low.endswith(unit) and high.endswith(unit) and low.count(" ") == high.count(" ") == 1:
            return f"{low.removesuffix(unit)} to {high}"
    return f"{low} to {high}"


def size(count: float) -> str:
    """``78.1 GiB``, ``512 MiB``, ``12 B``."""
    for unit_size, unit in _SIZES:
        # A value that would round up to 1024 of the smaller unit belongs to this one.
        if abs(count) >= unit_size * (1 - 0.5 / 1024):
            value = count / unit_size
            return f"{value:.0f} {unit}" if abs(value) >= 99.95 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def rate(value: float, unit: str) -> str:
    """A rate with a decimal prefix, as hardware is sold: ``25 GB/s``, ``712 TFLOP/s``."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # A value that would round up to a thousand of the smaller unit belongs to this one.
        if abs(value) >= 0.9995 * factor:
            return f"{_digits(value / factor)} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def percent(share: float) -> str:
    """A share of 0 to 1 as ``60 %``, ``4.2 %`` below ten."""
    value = 100 * share
    return f"{value:.1f} %" if 0 < abs(value) < 9.95 else f"{value:.0f} %"


def several(count: int, noun: str) -> str:
    """``1 worker``, ``2 workers``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`` Did you mean report?``, by the one of ``names`` that is most like ``word``; empty where
    none is."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(names), 1)
    return f" Did you mean {near[0]}?" if near else ""


def source(file: str | None, line: int | None) -> str | None:
    """``train.py:31``, None where either is unknown."""
    return f"{file}:{line}" if file and line else None


_GENERATED = re.compile(r"(^|[/\\])(\w\w)[/\\]c\2\w{49}\.py$")


def is_generated(file: str) -> bool:
    """Whether torch.compile wrote the file: it is named by a digest, in a directory named by the
    first letters of that, wherever its cache is."""
    return _GENERATED.search(file) is not None


def middle(text: str, width: int) -> str:
    """The text in at most ``width`` characters; a longer one loses its middle, as names differ
    at the end as well as at the beginning."""
    if len(text) <= width:
        return text
    behind = max(width - 1, 0) * 2 // 5
    return f"{text[: max(width - 1 - behind, 0)]}…{text[len(text) - behind :]}"[:width]


def part_of_step(cost: int, step: int) -> str:
    """``21 ms of each 35 ms step (60 %)``."""
    return f"{duration(cost)} of each {duration(step)} step ({percent(cost / step)})"


def part_of_trace(cost: int, whole: int) -> str:
    """``21 ms of the recorded 3.5 s (0.6 %)``: where the trace marks no steps."""
    return f"{duration(cost)} of the recorded {duration(whole)} ({percent(cost / whole)})"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"


def whole_quotients(numerators: Sequence[int], denominator: int) -> list[int]:
    """Each of ``numerators`` (>= 0) over ``denominator`` (> 0), rounded to integers.

    Uses the largest-remainder (Hamilton) method: each is off by less than one, and together they
    are the quotient of the sum, rounded down.
    """
    quotients = [numerator // denominator for numerator in numerators]
    missing = sum(numerators) // denominator - sum(quotients)
    order = sorted(range(len(numerators)), key=lambda at: (-(numerators[at] % denominator), at))
    for at in order[:missing]:
        quotients[at] += 1
    return quotients


def apportioned(values: Sequence[int], units: int) -> list[int]:
    """``units`` shared out in proportion to ``values`` (>= 0), by largest remainder.

    The result sums to ``units`` exactly, unless all values are 0.
    """
    whole = sum(values)
    return whole_quotients([value * units for value in values], whole) if whole else list(values)
