"""CPU: how much of the cores the training and everything else take."""

from __future__ import annotations

from perftui_tui.look.format import percent
from perftui_tui.look.units import format_bytes
from perftui_tui.panes.meter import Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import (
    RESIDENT,
    STOPPED,
    latest,
    samples,
    series,
    table_of,
    why_absent,
)

FULL_FROM = 90.0
"""Per cent of all cores; above it more workers cannot help."""


def cpu(snapshot: Snapshot) -> Meter:
    """All cores of the machine, and the training's part of them."""
    table = table_of(snapshot)
    values = series(table, "cpu.utilization")
    if not values:
        return Meter("CPU", absent=why_absent(snapshot))
    now = latest(table, "cpu.utilization")
    word, style = ("", "")
    if now is not None:
        word, style = ("FULL", "bad") if now >= FULL_FROM else ("OK", "good")
    return Meter(
        "CPU",
        STOPPED if now is None else percent(now),
        word,
        style,
        values,
        limit="100 %",
        notes=_notes(snapshot),
        total=samples(table),
    )


def _notes(snapshot: Snapshot) -> tuple[str, ...]:
    table = table_of(snapshot)
    notes = []
    cores = snapshot.manifest.cpu_count if snapshot.manifest else 0
    own = latest(table, "processes.cpu")
    if own is not None:
        notes.append(f"training {own / 100:.1f}" + (f" of {cores} cores" if cores else " cores"))
    memory = latest(table, RESIDENT)
    if memory is not None:
        notes.append(f"mem {format_bytes(memory)}")
    return tuple(notes)
