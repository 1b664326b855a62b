"""GPU memory by call site, from a snapshot of torch's allocator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perftui.facts.gpu.memory import gpu_memory
from perftui.trace.text import printable
from perftui_tui.charts.bar import apportion
from perftui_tui.look.format import share
from perftui_tui.look.rows import Row, crop, fit, row, spread, wrap
from perftui_tui.look.units import format_bytes, format_count, format_ns
from perftui_tui.reading.memory import memory_curves

if TYPE_CHECKING:
    from perftui.report.memory import AllocationSite, DeviceMemory, Peak
    from perftui_tui.reading.snapshot import Snapshot

HOW = (
    "No memory snapshot, so allocations by call site are unknown: perftui --memory-snapshot "
    "train.py takes one at the peak and when memory runs out. perftui snapshot.pickle opens one "
    "that torch.cuda.memory._dump_snapshot wrote."
)

ONLY_OF_GPUS = "Allocations by call site are recorded for GPU memory only."

HOW_CATEGORIES = (
    "Memory by category (activations, gradients, ...) is not recorded: perftui --memory train.py "
    "records every allocation in profiled windows."
)
HOW_IN_TRACES = (
    "The trace has no allocations: torch.profiler.profile(profile_memory=True) and perftui "
    "--memory train.py record them."
)

BAR_CELLS = 12
SIZE_CELLS = 10
COUNT_CELLS = 8
SHORTEST_PLACE = 16
"""Letters of a path that are shown beside a long function: its file and line."""


def allocation_rows(snapshot: Snapshot, cells: int) -> list[Row]:
    """Each device: what is allocated, its peak, and the lines that allocated it; without a snapshot
    of the allocator what records it."""
    report = snapshot.allocations
    if report is None:
        return _how(snapshot, cells)
    rows: list[Row] = []
    for memory in report.devices:
        rows += [*_device(memory, cells), ()]
    for note in report.notes:
        rows += wrap(note, cells, "warn")
    return rows or [row(("the snapshot has no allocations", "dim"))]


def _how(snapshot: Snapshot, cells: int) -> list[Row]:
    """What would record more; for a training without a GPU only what it can have."""
    has_run, has_curve = snapshot.run is not None, bool(memory_curves(snapshot))
    is_on_cpu = has_run and snapshot.train_steps > 0 and snapshot.ask(gpu_memory) is None
    rows = [] if is_on_cpu else wrap(HOW, cells, "dim")
    if not has_curve:
        rows += wrap(HOW_CATEGORIES if has_run else HOW_IN_TRACES, cells, "dim")
    return rows or wrap(ONLY_OF_GPUS, cells, "dim")


def _device(memory: DeviceMemory, cells: int) -> Iterator[Row]:
    least = "" if memory.whole else "at least "
    yield row(
        (f"GPU {memory.device}", "bold"),
        f"  {least}{format_bytes(memory.reserved)} reserved",
        f"   {least}{format_bytes(memory.allocated)} allocated",
    )
    for name, size in memory.parts.items():
        if size:
            size_text = row(format_bytes(size), (f"  {share(size, memory.reserved):>5}", "dim"))
            yield spread(row(("  ", ""), name), size_text, min(cells, 70))
    yield from _allocations("Held at the end, by line", memory.sites, cells)
    if memory.peak is not None:
        yield crop(row((_peak(memory.peak), "bold")), cells)
        yield from _allocations("Held at the peak, by line", memory.peak.sites, cells)
    for failed in memory.failed:
        left = "" if failed.free is None else f", {format_bytes(failed.free)} free"
        yield row((f"out of memory: {format_bytes(failed.asked)} requested{left}", "bad"))
    if memory.unused > 0:
        largest = format_bytes(memory.largest_unused)
        text = f"Unused {format_bytes(memory.unused)}; largest free block {largest}"
        yield row((text, "dim"))


def _peak(peak: Peak) -> str:
    relative = "" if peak.absolute else " above the start of the history"
    when = ""
    if peak.after_ns is not None and peak.span_ns is not None:
        when = f", {format_ns(peak.after_ns)} into {format_ns(peak.span_ns)} of history"
    return f"Peak {format_bytes(peak.bytes)}{relative}{when}"


def _allocations(title: str, sites: Sequence[AllocationSite], cells: int) -> Iterator[Row]:
    """One row for each line, the share as figures and as a bar."""
    if not sites:
        return
    whole = sum(site.bytes for site in sites)
    room = max(12, cells - SIZE_CELLS - COUNT_CELLS - 7 - BAR_CELLS - 2)
    head = row((fit_text(title, room), "dim"), (f"{'blocks':>{COUNT_CELLS}}", "dim"))
    yield (*head, (f"{'size':>{SIZE_CELLS}}", "dim"), (f"{'share':>7}", "dim"))
    for site in sites:
        filled = apportion([site.bytes, whole - site.bytes], BAR_CELLS)[0]
        yield row(
            fit_text(_source(site, room - 2), room),
            f"{format_count(site.count):>{COUNT_CELLS}}",
            f"{format_bytes(site.bytes):>{SIZE_CELLS}}",
            f"{share(site.bytes, whole):>7}",
            (f" {'█' * filled}", "chart"),
        )


def fit_text(text: str, cells: int) -> str:
    """``text`` cut or padded to ``cells``."""
    return "".join(part for part, _ in fit(row(text), cells))


def _source(site: AllocationSite, room: int) -> str:
    """``function  file:line``, cut at the beginning of the path, then at the function's end."""
    if site.file is None:
        return printable(f"  {site.what}")
    place, what = f"{site.file}:{site.line}", f"  {site.what}"
    shortest = min(len(place), SHORTEST_PLACE)
    if len(what) > room - shortest - 2:
        what = what[: max(3, room - shortest - 3)] + "…"
    spare = room - len(what) - 2
    if len(place) > spare:
        place = "…" + place[-max(1, spare - 1) :]
    return printable(f"{what}  {place}")
