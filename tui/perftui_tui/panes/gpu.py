"""GPU: share of the time a kernel ran, memory, power, temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perftui_tui.look.format import percent
from perftui_tui.look.units import format_bytes
from perftui_tui.panes.meter import Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import STOPPED, devices, latest, mean, samples, series, table_of

if TYPE_CHECKING:
    from perftui.run.table import Table

LOW_BELOW = 70.0
"""Per cent of the time; below it the GPU waits (TensorBoard's plugin warns at 50)."""

AS_BUSY = 10.0
"""Per cent: cards that differ by less do the same work, and the first of them stays on screen."""


def gpu(snapshot: Snapshot) -> Meter:
    """The GPU that the training uses: of several, the busiest."""
    table = table_of(snapshot)
    numbers = devices(table)
    known = [number for number in numbers if series(table, f"gpu{number}.utilization")]
    if table is None or not known:
        return Meter("GPU", absent=_why_absent(snapshot, bool(numbers)))
    number = _shown(table, known)
    now = latest(table, f"gpu{number}.utilization")
    return Meter(
        f"GPU {number}",
        STOPPED if now is None else f"busy {percent(now)}",
        "" if now is None else busy_word(now),
        series(table, f"gpu{number}.utilization"),
        notes=tuple(_notes(snapshot, number)),
        total=samples(table),
    )


def busy_word(percentage: float) -> str:
    """The word for a GPU that is busy so much of the time."""
    return "LOW" if percentage < LOW_BELOW else "OK"


def _shown(table: Table, numbers: Sequence[int]) -> int:
    """The first of the cards that are about as busy as the busiest one, over the whole run.

    Cards on which the run's own processes hold memory come before all others: on a shared machine
    the busiest card may be somebody else's.
    """
    own = [number for number in numbers if mean(table, f"gpu{number}.process_memory")]
    means = {number: mean(table, f"gpu{number}.utilization") or 0.0 for number in own or numbers}
    highest = max(means.values())
    return min(number for number, busy in means.items() if busy >= highest - AS_BUSY)


def _notes(snapshot: Snapshot, number: int) -> list[str]:
    table = table_of(snapshot)
    notes = []
    used = latest(table, f"gpu{number}.memory_used")
    whole = latest(table, f"gpu{number}.memory_total")
    if used is not None:
        notes.append(f"mem {format_bytes(used)}" + (f" of {format_bytes(whole)}" if whole else ""))
    notes += _allocator(snapshot)
    power = latest(table, f"gpu{number}.power")
    if power is not None:
        notes.append(f"{power:.0f} W")
    temperature = latest(table, f"gpu{number}.temperature")
    if temperature is not None:
        notes.append(f"{temperature:.0f} °C")
    return notes


def _allocator(snapshot: Snapshot) -> list[str]:
    """The peak of memory allocated by PyTorch, and whether it ran short."""
    from perftui.facts.gpu.memory import gpu_memory

    use = snapshot.ask(gpu_memory)
    if use is None:
        return []
    notes = [f"peak {format_bytes(use.peak_allocated)}"]
    if use.retries:
        notes.append(f"{use.retries:,} alloc retries")
    if use.failures:
        notes.append(f"{use.failures:,} failed")
    return notes


def _why_absent(snapshot: Snapshot, is_listed: bool) -> str:
    manifest = snapshot.manifest
    if is_listed or (manifest is not None and manifest.gpus):
        return "the GPU has not answered yet"
    reason = str(manifest.profile.get("no_gpu", "")) if manifest is not None else ""
    reason = reason.removeprefix("NVML says: ") or "no NVIDIA driver answered"
    return f"no GPU here ({reason}): times are CPU times"
