"""Disk and network: bytes a second, from the machine's counters."""

from __future__ import annotations

from perftui_tui.look.format import percent, rate
from perftui_tui.panes.meter import Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import (
    STOPPED,
    highest,
    latest,
    samples,
    series,
    table_of,
    total,
    why_absent,
)

SMALLEST_SCALE = 1e6
"""Bytes a second: the scale never zooms into less, where noise would look like load."""

FULL_BUSY = 80.0
"""Per cent of the time the disk had work: above it requests wait for each other."""


def disk(snapshot: Snapshot) -> Meter:
    """Reads and writes of all disks together."""
    table = table_of(snapshot)
    read, written = series(table, "disk.read"), series(table, "disk.write")
    both = total(read, written)
    if not both:
        return Meter("Disk", absent=why_absent(snapshot))
    busy = latest(table, "disk.utilization")
    word, style = ("", "")
    if busy is not None:
        word, style = ("FULL", "bad") if busy >= FULL_BUSY else ("OK", "good")
    notes = _flow("write", latest(table, "disk.write"))
    if busy is not None:
        notes.append(f"busy {percent(busy)}")
    top = highest(both, SMALLEST_SCALE)
    return Meter(
        "Disk",
        _reading("read", latest(table, "disk.read"), read),
        word,
        style,
        both,
        high=top,
        limit=_scale(top),
        notes=tuple(notes),
        total=samples(table),
    )


def network(snapshot: Snapshot) -> Meter:
    """What all network interfaces but loopback carry."""
    table = table_of(snapshot)
    received, sent = series(table, "network.receive"), series(table, "network.transmit")
    both = total(received, sent)
    if not both:
        return Meter("Network", absent=why_absent(snapshot))
    top = highest(both, SMALLEST_SCALE)
    return Meter(
        "Network",
        _reading("in", latest(table, "network.receive"), received),
        "",
        "",
        both,
        high=top,
        limit=_scale(top),
        notes=tuple(_flow("out", latest(table, "network.transmit"))),
        total=samples(table),
    )


def _reading(name: str, now: float | None, known: tuple[float, ...]) -> str:
    return next(iter(_flow(name, now)), STOPPED if known else "")


def _flow(name: str, now: float | None) -> list[str]:
    return [] if now is None else [f"{name} {rate(now)}"]


def _scale(bytes_per_second: float) -> str:
    """The top of the axis in four cells: ``212M``."""
    value, unit = (
        (bytes_per_second / 1e9, "G") if bytes_per_second >= 1e9 else (bytes_per_second / 1e6, "M")
    )
    return f"{value:.0f}{unit}" if value >= 10 else f"{value:.1f}{unit}"
