"""Disk and network: bytes a second, as the machine's counters say."""

from __future__ import annotations

from perftui_tui.format import percent, rate
from perftui_tui.panes.meter import Meter
from perftui_tui.panes.telemetry import (
    highest,
    latest,
    samples,
    series,
    table_of,
    total,
    why_absent,
)
from perftui_tui.snapshot import Snapshot

SMALLEST_SCALE = 1e6
"""Bytes a second: the scale never zooms into less, where noise would look like load."""

FULL_BUSY = 80.0
"""Per cent of the time the disk had work, the limit at which ``input-disk-bound`` speaks."""


def disk(snapshot: Snapshot) -> Meter:
    """Reads and writes of all disks together."""
    table = table_of(snapshot)
    read, written = series(table, "disk.read"), series(table, "disk.write")
    both = total(read, written)
    if not both:
        return Meter("Disk", absent=why_absent(snapshot))
    busy = latest(table, "disk.utilization")
    word, style = ("FULL", "bad") if busy is not None and busy >= FULL_BUSY else ("OK", "good")
    notes = [f"write {rate(written[-1])}"] if written else []
    if busy is not None:
        notes.append(f"busy {percent(busy)}")
    top = highest(both, SMALLEST_SCALE)
    return Meter(
        "Disk",
        f"read {rate(read[-1])}" if read else "",
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
        f"in {rate(received[-1])}" if received else "",
        "",
        "",
        both,
        high=top,
        limit=_scale(top),
        notes=(f"out {rate(sent[-1])}",) if sent else (),
        total=samples(table),
    )


def _scale(bytes_per_second: float) -> str:
    """The top of the axis in four cells: ``212M``."""
    value, unit = (
        (bytes_per_second / 1e9, "G") if bytes_per_second >= 1e9 else (bytes_per_second / 1e6, "M")
    )
    return f"{value:.0f}{unit}" if value >= 10 else f"{value:.1f}{unit}"
