"""The meters of processor, memory, disk and network, and the cores one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perftui_tui.charts.axis import nice_step, usual_top
from perftui_tui.charts.bars import LOWER_EIGHTHS, filled_steps
from perftui_tui.look.format import format_bytes, of_ceiling, percent, rate
from perftui_tui.look.rows import Row, crop, joined, row
from perftui_tui.panes.meter import NAME_WIDTH, Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import (
    RESIDENT,
    STOPPED,
    last_known,
    latest,
    samples,
    series,
    table_of,
    total,
    why_absent,
)

if TYPE_CHECKING:
    from perftui.facts.gpu.cards import OwnCeilings
    from perftui.run.table import Table

FULL = 95.0
"""Per cent of a core from which it is highlighted."""

_GROUPED = ", the busiest of {} in each"


def cores(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """One row; empty where single cores are not sampled."""
    busy = busy_of_cores(snapshot)
    if not busy:
        return []
    full_cores = sum(value >= FULL for value in busy)
    busiest = f"{full_cores} full" if full_cores else f"busiest {percent(max(busy))}"
    words = f"  {len(busy)} cores, {busiest}"
    group, room = 1, cells - NAME_WIDTH - len(words)
    if len(busy) > room:
        group = -(-len(busy) // max(1, room - len(_GROUPED)))
        words += _GROUPED.format(group)
    shown = [max(busy[at : at + group]) for at in range(0, len(busy), group)]
    full = len(LOWER_EIGHTHS) - 1
    blocks = [
        (LOWER_EIGHTHS[max(filled_steps(v / 100, full), 1)], "chart-warn" if v >= FULL else "chart")
        for v in shown
    ]
    drawn = row(("Cores".ljust(NAME_WIDTH), "bold"), *joined(blocks), (words, "dim"))
    return [crop(drawn, cells)]


def busy_of_cores(snapshot: Snapshot) -> list[float]:
    """Per cent of each core that is sampled now, in their order."""
    table = table_of(snapshot)
    if table is None:
        return []
    # Their numbers have gaps where cores are switched off.
    names = (column.name for column in table.columns if column.name.startswith("cpu.core"))
    known = (latest(table, name) for name in names if name[8:].isdecimal())
    return [value for value in known if value is not None]


def ceilings(snapshot: Snapshot) -> OwnCeilings | None:
    """What ``perftui probe`` measured on the machine of the run; None where it did not.

    They are read with the rules: the first frame, which is not judged, does not wait for them.
    """
    if not snapshot.is_judged:
        return None
    from perftui.facts.gpu.cards import own_ceilings

    return snapshot.ask(own_ceilings)


FULL_CPU = 90.0
"""Per cent of all cores; above it more workers cannot help."""

FULL_MEMORY = 95.0
"""Per cent of what can be used; above it the kernel ends processes before long."""

FULL_DISK = 80.0
"""Per cent of the time the disk had work: above it requests wait for each other."""

LATELY = 120
"""Samples, a minute of them, in which something has to have moved."""

SMALLEST_SCALE = 1e6
"""Bytes a second: the scale never zooms into less, where noise would look like load."""


def cpu(snapshot: Snapshot) -> Meter:
    """All cores of the machine, and the training's part of them."""
    table = table_of(snapshot)
    values = series(table, "cpu.utilization")
    if not values:
        return Meter("CPU", absent=why_absent(snapshot))
    now = latest(table, "cpu.utilization")
    reading = STOPPED if now is None else percent(now)
    notes, total_cores = [], snapshot.manifest.cpu_count if snapshot.manifest else 0
    own = latest(table, "processes.cpu")
    if own is not None:
        cores = f" of {total_cores} cores" if total_cores else " cores"
        notes.append(f"training {own / 100:.1f}{cores}")
    memory = latest(table, RESIDENT)
    if memory is not None:
        notes.append(f"mem {format_bytes(memory)}")
    word = _full(now, FULL_CPU)
    return Meter("CPU", reading, word, values, notes=tuple(notes), total=samples(table))


def memory(snapshot: Snapshot) -> Meter:
    """The machine's memory, or the container's, and what the run holds of it."""
    table = table_of(snapshot)
    used, whole = latest(table, "memory.used"), latest(table, "memory.total")
    if used is None or not whole:
        return Meter("Memory", absent=why_absent(snapshot))
    share = 100 * used / whole
    values = tuple(100 * value / whole for value in series(table, "memory.used"))
    word = "FULL" if share >= FULL_MEMORY else "OK"
    return Meter(
        "Memory",
        f"{percent(share)} of {format_bytes(whole)}",
        word,
        values,
        notes=tuple(_memory_notes(table)),
        total=samples(table),
    )


def _memory_notes(table: Table | None) -> list[str]:
    """What the run holds, then what else can run out, where there is anything of it."""
    notes = []
    held = last_known(table, "processes.pss") or latest(table, RESIDENT)
    if held is not None:
        notes.append(f"training {format_bytes(held)}")
    shared, most = latest(table, "memory.shm_used"), latest(table, "memory.shm_total")
    if shared is not None and most:
        notes.append(f"shared {format_bytes(shared)} of {format_bytes(most)}")
    for name, word in (("memory.page_cache", "page cache"), ("swap.used", "swap")):
        if value := latest(table, name):
            notes.append(f"{word} {format_bytes(value)}")
    if kills := latest(table, "memory.oom_kills"):
        notes.append(f"{kills:.0f} killed for memory")
    return notes


def moves(meter: Meter) -> bool:
    """Whether so much went through a disk or a network lately that it is worth a row."""
    return any(value >= SMALLEST_SCALE for value in meter.values[-LATELY:])


def disk(snapshot: Snapshot) -> Meter:
    """Reads and writes of all disks together; of the data's disk what it reads of what it can."""
    busy = latest(table_of(snapshot), "disk.utilization")
    found = _traffic(snapshot, "Disk", ("read", "disk.read"), ("write", "disk.write"), busy)
    # What is read of the data set's disk, beside what ``perftui probe`` measured there.
    now, known = latest(table_of(snapshot), "data_disk.read"), ceilings(snapshot)
    if now is None or known is None or known.data_disk is None:
        return found
    return replace(found, notes=(f"data {of_ceiling(now, known.data_disk)}", *found.notes))


def network(snapshot: Snapshot) -> Meter:
    """What all network interfaces but loopback carry."""
    return _traffic(snapshot, "Network", ("in", "network.receive"), ("out", "network.transmit"))


def _traffic(
    snapshot: Snapshot,
    name: str,
    first: tuple[str, str],
    second: tuple[str, str],
    busy: float | None = None,
) -> Meter:
    """Bytes a second both ways, each by its word and its metric; the first is the reading."""
    table = table_of(snapshot)
    known = series(table, first[1])
    both = total(known, series(table, second[1]))
    if not both:
        return Meter(name, absent=why_absent(snapshot))
    flows = [
        [] if (now := latest(table, metric)) is None else [f"{word} {rate(now)}"]
        for word, metric in (first, second)
    ]
    # One burst does not flatten all others, and a round top stays while values move.
    known_values = [value for value in both if value == value]
    top = nice_step(max(SMALLEST_SCALE, usual_top(known_values or [0.0])), 1)
    return Meter(
        name,
        next(iter(flows[0]), STOPPED if known else ""),
        _full(busy, FULL_DISK),
        both,
        high=top,
        limit=_scale(top),
        notes=(*flows[1], *([] if busy is None else [f"busy {percent(busy)}"])),
        total=samples(table),
    )


def _full(busy: float | None, limit: float) -> str:
    """The word; none where it is not known how busy."""
    if busy is None:
        return ""
    return "FULL" if busy >= limit else "OK"


def _scale(bytes_per_second: float) -> str:
    """The top of the axis in four cells: ``212M``."""
    unit, name = (1e9, "G") if bytes_per_second >= 1e9 else (1e6, "M")
    value = bytes_per_second / unit
    return f"{value:.0f}{name}" if value >= 10 else f"{value:.1f}{name}"
