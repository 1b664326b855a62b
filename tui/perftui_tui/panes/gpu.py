"""GPU: share of the time a kernel ran, memory, power, temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perftui.telemetry.gpu.names import gpu_name
from perftui.trace.text import printable
from perftui_tui.look.format import percent
from perftui_tui.look.units import format_bytes
from perftui_tui.panes.meter import Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import (
    STOPPED,
    gpus,
    latest,
    mean,
    samples,
    series,
    table_of,
)

if TYPE_CHECKING:
    from perftui.run.table import Table

LOW_BELOW = 70.0
"""Per cent of the time; below it the GPU waits (TensorBoard's plugin warns at 50)."""

AS_BUSY = 10.0
"""Per cent: cards that differ by less do the same work, and the first of them stays on screen."""


def gpu(snapshot: Snapshot) -> Meter:
    """The GPU that the training uses: of several, the busiest."""
    from perftui.facts.gpu.cards import own_gpus

    table = table_of(snapshot)
    found = gpus(table)
    own = [prefix for prefix in snapshot.ask(own_gpus) or () if prefix in found]
    known = [prefix for prefix in own or found if series(table, f"{prefix}.utilization")]
    if table is None or not known:
        absent = _why_unknown(snapshot, own[0]) if own else _why_absent(snapshot, bool(found))
        return Meter("GPU", absent=absent)
    prefix = _shown(table, known)
    now = latest(table, f"{prefix}.utilization")
    return Meter(
        gpu_name(prefix),
        STOPPED if now is None else f"busy {percent(now)}",
        "" if now is None else busy_word(now),
        series(table, f"{prefix}.utilization"),
        notes=tuple(_notes(snapshot, prefix)),
        total=samples(table),
    )


def busy_word(percentage: float) -> str:
    """The word for a GPU that is busy so much of the time."""
    return "LOW" if percentage < LOW_BELOW else "OK"


def _shown(table: Table, prefixes: Sequence[str]) -> str:
    """The first of the GPUs that are about as busy as the busiest one, over the whole run.

    GPUs on which the run's own processes hold memory come before all others: on a shared machine
    the busiest may be somebody else's.
    """
    own = [prefix for prefix in prefixes if mean(table, f"{prefix}.process_memory")]
    means = {prefix: mean(table, f"{prefix}.utilization") or 0.0 for prefix in own or prefixes}
    highest = max(means.values())
    return next(prefix for prefix, busy in means.items() if busy >= highest - AS_BUSY)


def _notes(snapshot: Snapshot, prefix: str) -> list[str]:
    table = table_of(snapshot)
    notes = []
    used = latest(table, f"{prefix}.memory_used")
    whole = latest(table, f"{prefix}.memory_total")
    if used is not None:
        notes.append(f"mem {format_bytes(used)}" + (f" of {format_bytes(whole)}" if whole else ""))
    notes += _allocator(snapshot)
    power = latest(table, f"{prefix}.power")
    if power is not None:
        notes.append(f"{power:.0f} W")
    temperature = latest(table, f"{prefix}.temperature")
    if temperature is not None:
        notes.append(f"{temperature:.0f} °C")
    if held := clock_limits(table, prefix):
        notes.append(f"clocks limited by {' and '.join(held)}")
    return notes


def clock_limits(table: Table | None, prefix: str) -> tuple[str, ...]:
    """What of heat and power holds the clocks down now, in words; empty for nothing."""
    from perftui.telemetry.gpu.names import POWER, THERMAL, bits_of, clock_limit_words

    reasons = latest(table, f"{prefix}.throttle_reasons")
    if reasons is None:
        return ()
    return clock_limit_words(int(reasons) & (bits_of(THERMAL) | bits_of(POWER)))


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


def _why_unknown(snapshot: Snapshot, prefix: str) -> str:
    """Why it is not known how busy the training's own GPU is, with what else is known of it."""
    from perftui.facts.gpu.cards import not_sampled

    reasons = snapshot.ask(not_sampled) or {}
    reason = printable(reasons.get(f"{prefix}.utilization", "no answer yet"))
    return ", ".join([f"{gpu_name(prefix)} busy: unknown ({reason})", *_notes(snapshot, prefix)])


def _why_absent(snapshot: Snapshot, is_listed: bool) -> str:
    manifest = snapshot.manifest
    reason = str(manifest.profile.get("no_gpu", "")) if manifest is not None else ""
    reason = printable(reason.removeprefix("NVML says: "))
    if manifest is not None and manifest.gpus and reason:
        return f"the GPU is not sampled ({reason})"
    if is_listed or (manifest is not None and manifest.gpus):
        return "no answer from the GPU yet"
    return f"no GPU here ({reason or 'no NVIDIA driver answered'}): times are CPU times"
