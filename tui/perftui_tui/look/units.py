"""Quantities as text: three significant digits, and no rounding that changes what is meant."""

from __future__ import annotations

import math

MISSING = "–"
"""Shown for a value that was not measured."""

_TIME_UNITS = ((1, "ns"), (10**3, "µs"), (10**6, "ms"), (10**9, "s"))
_BYTE_UNITS = tuple((1024**power, unit) for power, unit in enumerate(("B", "KiB", "MiB", "GiB")))
_COUNT_UNITS = ((10**6, "M"), (10**9, "G"), (10**12, "T"))
_SECOND = 10**9
_CLOCK_FROM = 100 * _SECOND
"""From here on minutes and seconds are read more easily than seconds alone."""

_EXACT_COUNTS_BELOW = 10**7


def significant(value: float) -> str:
    """``value`` with three significant digits, or all before the point; no exponent."""
    if abs(value) < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


def _scaled(value: float, units: tuple[tuple[int, str], ...], limit: float) -> str:
    """``value`` in the first unit where its rounded figure stays below ``limit``."""
    for size, unit in units[:-1]:
        if value / size < limit:
            return _with_unit(value, size, unit)
    return _with_unit(value, *units[-1])


def _with_unit(value: float, size: int, unit: str) -> str:
    whole = size == 1 and value == int(value)
    return f"{int(value)} {unit}" if whole else f"{significant(value / size)} {unit}"


def format_ns(nanoseconds: float | None) -> str:
    """A duration: ``531 ns``, ``24.2 ms``, ``2m 05s``, ``1h 02m``; a dash for None and NaN."""
    if nanoseconds is None or math.isnan(nanoseconds):
        return MISSING
    sign, size = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if round(size / _SECOND, 1) >= _CLOCK_FROM / _SECOND:
        return sign + _clock(round(size / _SECOND))
    return sign + _scaled(size, _TIME_UNITS, 999.5)


def _clock(seconds: int) -> str:
    """Minutes and seconds, or hours and minutes (cut, not rounded, as a clock does)."""
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"


def format_bytes(count: float | None) -> str:
    """A size in powers of 1024: ``512 B``, ``1.50 MiB``, ``80.0 GiB``; a dash where missing."""
    if count is None or math.isnan(count):
        return MISSING
    return ("-" if count < 0 else "") + _scaled(abs(count), _BYTE_UNITS, 1023.5)


def format_count(count: float | None) -> str:
    """A number of things: exact below ten million (``1,234,567``), then ``12.3 M``."""
    if count is None or math.isnan(count):
        return MISSING
    if abs(count) < _EXACT_COUNTS_BELOW:
        return f"{round(count):,}"
    return ("-" if count < 0 else "") + _scaled(abs(count), _COUNT_UNITS, 999.5)


def format_percent(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal; 1.0 is ``100 %``.

    Only nothing is ``0 %`` and only all is ``100 %``: what would round to them is ``<0.1 %`` and
    ``>99.9 %``.
    """
    if fraction is None or math.isnan(fraction):
        return MISSING
    if fraction in (0, 1):
        return f"{fraction * 100:.0f} %"
    if 0 < fraction < 0.0005:
        return "<0.1 %"
    if 0.9995 <= fraction < 1:
        return ">99.9 %"
    return f"{fraction * 100:.1f} %"
