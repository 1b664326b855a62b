"""GPU: share of the time a kernel ran, memory, power, temperature."""

from __future__ import annotations

from perftui_tui.charts.units import format_bytes
from perftui_tui.format import percent
from perftui_tui.panes.meter import Meter
from perftui_tui.panes.telemetry import devices, latest, samples, series, table_of
from perftui_tui.snapshot import Phase, Snapshot

LOW_BELOW = 70.0
"""Per cent of the time; below it the GPU waits for something (the TensorBoard plugin warns at 50,
TraceML calls 70 good)."""


def gpu(snapshot: Snapshot) -> Meter:
    """The busiest GPU that is sampled."""
    if snapshot.phase is Phase.TRACE:
        return _from_trace(snapshot)
    table = table_of(snapshot)
    numbers = devices(table)
    busy = {number: series(table, f"gpu{number}.utilization") for number in numbers}
    known = [number for number in numbers if busy[number]]
    if not known:
        return Meter("GPU", absent=_why_absent(snapshot, bool(numbers)))
    number = max(known, key=lambda n: latest(table, f"gpu{n}.utilization") or 0.0)
    now = latest(table, f"gpu{number}.utilization") or 0.0
    word, style = ("LOW", "bad") if now < LOW_BELOW else ("OK", "good")
    return Meter(
        f"GPU {number}",
        f"busy {percent(now)}",
        word,
        style,
        busy[number],
        limit="100 %",
        notes=tuple(_notes(snapshot, number)),
        total=samples(table),
    )


def _notes(snapshot: Snapshot, number: int) -> list[str]:
    table = table_of(snapshot)
    notes = []
    used = latest(table, f"gpu{number}.memory_used")
    whole = latest(table, f"gpu{number}.memory_total")
    if used is not None:
        notes.append(f"mem {format_bytes(used)}" + (f" of {format_bytes(whole)}" if whole else ""))
    power = latest(table, f"gpu{number}.power")
    if power is not None:
        notes.append(f"{power:.0f} W")
    temperature = latest(table, f"gpu{number}.temperature")
    if temperature is not None:
        notes.append(f"{temperature:.0f} °C")
    return notes


def _why_absent(snapshot: Snapshot, is_listed: bool) -> str:
    manifest = snapshot.manifest
    if is_listed or (manifest is not None and manifest.gpus):
        return "the GPU has not answered yet"
    reason = str(manifest.profile.get("no_gpu", "")) if manifest is not None else ""
    reason = reason.removeprefix("NVML says: ") or "no NVIDIA driver answered"
    return f"no GPU here ({reason}): times are CPU times"


def _from_trace(snapshot: Snapshot) -> Meter:
    activity = snapshot.analysis.activity if snapshot.analysis else ()
    if not activity:
        return Meter("GPU", absent="no GPU activity in this trace; times are CPU times")
    device = max(activity, key=lambda one: one.busy)
    busy = 100 * device.busy / device.span if device.span else 0.0
    word, style = ("LOW", "bad") if busy < LOW_BELOW else ("OK", "good")
    return Meter(
        f"GPU {device.device}",
        f"busy {percent(busy)}",
        word,
        style,
        notes=(f"{device.kernel_count:,} kernels", device.name),
        limit="100 %",
    )
