"""Quantities as text: three significant digits, and no rounding that changes what is meant."""

from __future__ import annotations

import math
import time
from pathlib import Path

MISSING = "–"
"""Shown for a value that was not measured."""

_TIME_UNITS = ((1, "ns"), (10**3, "µs"), (10**6, "ms"), (10**9, "s"))
_BYTE_UNITS = tuple((1024**power, unit) for power, unit in enumerate(("B", "KiB", "MiB", "GiB")))
_COUNT_UNITS = ((10**6, "M"), (10**9, "G"), (10**12, "T"))
_SECOND = 10**9


def significant(value: float) -> str:
    """``value`` with three significant digits, or all before the point; no exponent."""
    if abs(value) < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


def _scaled(value: float, units: tuple[tuple[int, str], ...], limit: float) -> str:
    """``value`` in the first unit where its rounded figure stays below ``limit``."""
    size, unit = next((each for each in units if value / each[0] < limit), units[-1])
    is_whole = size == 1 and value == int(value)
    return f"{int(value)} {unit}" if is_whole else f"{significant(value / size)} {unit}"


def format_ns(nanoseconds: float | None) -> str:
    """A duration: ``531 ns``, ``24.2 ms``, ``2m 05s``, ``1h 02m``; a dash for None and NaN."""
    if nanoseconds is None or math.isnan(nanoseconds):
        return MISSING
    sign, size = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    # From here on minutes and seconds are read more easily than seconds alone.
    if round(size / _SECOND, 1) >= 100:
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
    if abs(count) < 10**7:
        return f"{round(count):,}"
    return ("-" if count < 0 else "") + _scaled(abs(count), _COUNT_UNITS, 999.5)


def counted(count: int, one: str, many: str = "") -> str:
    """``1 event``, ``2 events``, ``12.3 M events``; ``many`` where it is not ``one`` and an s."""
    return f"{format_count(count)} {one if count == 1 else many or one + 's'}"


def format_percent(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal; 1.0 is ``100 %``.

    Only nothing is ``0 %`` and only all is ``100 %``: what would round to them is ``<0.1 %`` and
    ``>99.9 %``."""
    if fraction is None or math.isnan(fraction):
        return MISSING
    if fraction in (0, 1):
        return f"{fraction * 100:.0f} %"
    if 0 < fraction < 0.0005:
        return "<0.1 %"
    return ">99.9 %" if 0.9995 <= fraction < 1 else f"{fraction * 100:.1f} %"


def part_of_step(ns: float) -> str:
    """A time of a part of a step, in ms to be compared: ``118 ms``, ``0.03 ms``, never a false 0;
    from ten seconds ``34.8 s``."""
    figure = "<0.01" if 0 < ns < 5_000 else significant(ns / 1e6)
    return f"{figure} ms" if ns < 10 * _SECOND else format_ns(ns)


def per_second(count: float) -> str:
    """A rate per second: three digits, ``2.91`` or ``0.0123``, and from 1000 on all: ``1,234``."""
    return f"{count:.3g}" if abs(count) < 999.5 else f"{count:,.0f}"


def rate(bytes_per_second: float) -> str:
    """Bytes a second in decimal units, as disks and networks are sold: ``212 MB/s``."""
    for unit in ("B/s", "kB/s", "MB/s"):
        if abs(bytes_per_second) < 999.5:
            return f"{bytes_per_second:.0f} {unit}"
        bytes_per_second /= 1000
    return f"{significant(bytes_per_second)} GB/s"


def of_ceiling(now: float, most: float) -> str:
    """A rate beside the highest that was measured, in its unit: ``1.20 of 3.10 GB/s measured``."""
    size, unit = (1e9, "GB/s") if most >= 0.9995e9 else (1e6, "MB/s")
    return f"{significant(now / size)} of {significant(most / size)} {unit} measured"


def share(part: float, whole: float) -> str:
    """``part`` of ``whole`` in per cent; a dash where there is no whole."""
    return percent(100 * part / whole) if whole else MISSING


def percent(value: float) -> str:
    """A value of 0 to 100: ``38 %``; below one half ``<1 %``, never a false 0."""
    return "<1 %" if 0 < value < 0.5 else f"{value:.0f} %"


def date_and_time(ns: int) -> str:
    """``2026-11-27 17:18``: local time of ``ns`` since the epoch."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ns / 1e9))


def elapsed(ns: int) -> str:
    """A duration as a clock: ``7:12``, ``1:07:12``."""
    seconds = max(0, ns) // 1_000_000_000
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def exported(name: str, seconds: float, written: int) -> str:
    """Progress of ``nsys export``: ``nsys exports a.nsys-rep 0:07 12.0 MiB``."""
    return f"nsys exports {name} {elapsed(int(seconds * 1e9))} {format_bytes(written)}"


def quantity(value: float | str, unit: str) -> str:
    """A fact's value in its unit (``ns``, ``%``, ``B``, ``B/s``, ``count``, or text)."""
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "unknown"
    by_unit = {"ns": format_ns, "B": format_bytes, "B/s": rate}
    if unit in by_unit:
        return by_unit[unit](value)
    if unit == "%":
        return f"{value:.0f} %" if value >= 10 or value == int(value) else f"{value:.1f} %"
    number = format_count(value) if float(value).is_integer() else f"{value:,.2f}"
    return number if unit in ("", "count") else f"{number} {unit}"


def short_path(path: Path) -> str:
    """A path from the user's home, as ``~/runs``, where it lies there."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
