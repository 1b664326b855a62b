"""Reports of files that are no traces: memory snapshots, in bytes, and kernel metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

import msgspec
import numpy as np

from perftui import format as fmt
from perftui.analysis.memory_categories import memory_of_snapshot
from perftui.analysis.memory_snapshot import (
    StackTotals,
    allocations_at_end,
    allocations_at_peak,
    by_source,
    largest_unused,
    time_line,
)
from perftui.format import apportioned
from perftui.report.kernel_metrics import MeasuredRow, MetricsReport, render_metrics, report_metrics
from perftui.report.kind import Kind
from perftui.report.output_text import (
    SCHEMA,
    Redacted,
    Schema,
    cut,
    encode_object,
    joined,
    listed,
    printable,
    replaced,
)
from perftui.report.redaction.known_private import redaction_at
from perftui.report.redaction.private_forms import Redaction
from perftui.trace.memory_pickle import load_memory_snapshot
from perftui.trace.memory_snapshot import Action, BlockState, MemorySnapshot
from perftui.trace.model import NONE
from perftui.trace.ncu import load_ncu

MOST_SITES = 10
"""Lines of the program that are listed."""

NO_STACK = "without a stack: not recorded when allocated"
NO_FRAME = "no line of the program in the stack"


@dataclass(frozen=True)
class AllocationSite:
    """Memory allocated by one line of the user's program, or by an unknown line."""

    what: str
    """``function``, or why there is no line; not yet safe to show."""
    file: str | None
    line: int | None
    bytes: int
    count: int
    """Blocks."""


@dataclass(frozen=True)
class Peak:
    """When most memory was held."""

    bytes: int
    """Bytes the program asked for; above the level at the start where not ``absolute``."""
    absolute: bool
    """Whether ``bytes`` is all memory held: memory held at the start is known too."""
    after_ns: int | None
    """ns from the start of recording to the peak, None where the file has no times."""
    span_ns: int | None
    """ns from the first event to the last, None where the file has no times."""
    sites: tuple[AllocationSite, ...]
    """Sites that sum to ``bytes``; empty where not ``absolute``, or where events are missing and
    they would not."""
    categories: Mapping[str, int] = field(default_factory=dict)
    """Bytes by what they are for, ``parameters`` and so on: they sum to ``bytes``; empty where
    ``sites`` is, or where no stack shows it."""


@dataclass(frozen=True)
class OutOfMemory:
    """A request that failed."""

    asked: int
    free: int | None
    """Bytes that the driver had left, None where the file does not have it."""


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of one device when the snapshot was taken."""

    device: int
    reserved: int
    """Bytes got from the driver."""
    allocated: int
    """Bytes in blocks that the program holds, as the allocator rounded them."""
    active: int
    """``allocated`` and what a stream still uses, bytes."""
    parts: Mapping[str, int]
    """By name, parts that sum to ``reserved``; empty where the file contradicts itself."""
    sites: tuple[AllocationSite, ...]
    """Requested memory that is held, by the user's line; most first, the rest as one."""
    segments: int
    unused_segments: int
    """Segments with memory that nobody uses."""
    unused: int
    """``reserved`` minus ``active``."""
    largest_unused: int
    """The largest free block."""
    events: int
    """Events of the history, or of what could be read of it."""
    peak: Peak | None
    """The peak of the history; None without one."""
    failed: tuple[OutOfMemory, ...]
    whole: bool
    """Whether all segments could be read: else there may be more than the sizes show."""


@dataclass(frozen=True)
class MemoryReport:
    """All devices of a snapshot."""

    path: Path
    devices: tuple[DeviceMemory, ...]
    notes: tuple[str, ...]
    """What could not be found out, in words."""


def report_memory(snapshot: MemorySnapshot) -> MemoryReport:
    """Everything that the report of a snapshot holds."""
    devices = tuple(_device(snapshot, device) for device in snapshot.devices)
    notes = [warning.message for warning in snapshot.warnings]
    notes += [note for memory in devices for note in _notes_on(snapshot, memory)]
    if not devices:
        notes.append(
            "the snapshot holds no memory and no history: it was taken before the first allocation"
        )
    return MemoryReport(snapshot.path, devices, tuple(notes))


def _device(snapshot: MemorySnapshot, device: int) -> DeviceMemory:
    segments = snapshot.segments
    mask = segments.device == device
    reserved, active = int(segments.reserved[mask].sum()), int(segments.active[mask].sum())
    trace = snapshot.trace_of(device)
    return DeviceMemory(
        device=device,
        reserved=reserved,
        allocated=int(segments.allocated[mask].sum()),
        active=active,
        parts=_parts(snapshot, device, reserved, active),
        sites=_sites(snapshot, allocations_at_end(snapshot, device)),
        segments=int(mask.sum()),
        unused_segments=int((segments.reserved > segments.active)[mask].sum()),
        unused=reserved - active,
        largest_unused=int(largest_unused(snapshot)[mask].max(initial=0)),
        events=len(trace) if trace is not None else 0,
        peak=_peak(snapshot, device),
        failed=_failed(snapshot, device),
        whole=segments.whole,
    )


def _parts(snapshot: MemorySnapshot, device: int, reserved: int, active: int) -> Mapping[str, int]:
    blocks = snapshot.blocks
    mask = snapshot.segments.device[blocks.segment] == device
    in_use = int(blocks.requested[mask & (blocks.state == BlockState.ACTIVE)].sum())
    pending = int(blocks.requested[mask & (blocks.state == BlockState.PENDING_FREE)].sum())
    parts = {
        "held by the program": in_use,
        "freed, still in use by a stream": pending,
        "rounding of sizes": active - in_use - pending,
        "kept by torch, unused": reserved - active,
    }
    return parts if min(parts.values()) >= 0 else {}


def _sites(snapshot: MemorySnapshot, totals: StackTotals) -> tuple[AllocationSite, ...]:
    """The largest by line; without a line and the rest of the lines come last."""
    bare = totals.stack == NONE
    stacks = StackTotals(totals.stack[~bare], totals.bytes[~bare], totals.count[~bare])
    sources = by_source(snapshot, stacks)
    lines = [
        AllocationSite(frame.function, frame.filename, frame.line, *held)
        for frame, held in sources.items()
        if frame
    ]
    rest = lines[MOST_SITES:]
    size, count = sum(line.bytes for line in rest), sum(line.count for line in rest)
    sites = [*lines[:MOST_SITES]]
    if rest:
        sites.append(AllocationSite(fmt.several(len(rest), "other line"), None, None, size, count))
    if None in sources:
        sites.append(AllocationSite(NO_FRAME, None, None, *sources[None]))
    if bare.any():
        size, count = int(totals.bytes[bare].sum()), int(totals.count[bare].sum())
        sites.append(AllocationSite(NO_STACK, None, None, size, count))
    return tuple(sites)


def _peak(snapshot: MemorySnapshot, device: int) -> Peak | None:
    trace = snapshot.trace_of(device)
    if trace is None or not len(trace):
        return None
    line = time_line(snapshot, device)
    at = int(np.argmax(line.bytes))
    since = int(line.time[at] - line.time[0]) if line.timed else None
    span = int(trace.time.max() - trace.time.min()) if line.timed else None
    if not line.absolute:
        return Peak(int(line.bytes[at]), False, since, span, ())
    level, totals = int(line.bytes[at]), allocations_at_peak(snapshot, device)
    agree = int(totals.bytes.sum()) == level
    sites = _sites(snapshot, totals) if agree else ()
    return Peak(level, True, since, span, sites, _categories(snapshot, device, level))


def _categories(snapshot: MemorySnapshot, device: int, level: int) -> Mapping[str, int]:
    """Bytes held at the peak by category; empty where they do not sum to ``level``."""
    memory = memory_of_snapshot(snapshot, device)
    if memory is None or not memory.has_categories:
        return {}
    sizes = {row.category.label: row.bytes for row in memory.at_peak()}
    return sizes if sum(sizes.values()) == level else {}


def _failed(snapshot: MemorySnapshot, device: int) -> tuple[OutOfMemory, ...]:
    trace = snapshot.trace_of(device)
    if trace is None:
        return ()
    rows = np.flatnonzero(trace.action == Action.OOM)
    free = (None if size == NONE else size for size in trace.device_free[rows].tolist())
    return tuple(map(OutOfMemory, trace.size[rows].tolist(), free))


def _notes_on(snapshot: MemorySnapshot, memory: DeviceMemory) -> Iterator[str]:
    name = f"device {memory.device}"
    trace = snapshot.trace_of(memory.device)
    is_cut = not (snapshot.whole if trace is None else trace.whole)
    if not memory.whole:
        yield f"{name}: it may have more memory than the segments that could be read"
    if memory.peak is None and is_cut:
        yield f"{name}: its history could not be read, so its peak is not known"
    elif memory.peak is None:
        yield (
            f"{name}: no history was recorded, so its peak is not known; call "
            "torch.cuda.memory._record_memory_history() before the training"
        )
    elif is_cut:
        yield (
            f"{name}: the end of its history could not be read, so its peak is relative, and may "
            "be higher"
        )
    elif not memory.peak.absolute:
        yield (
            f"{name}: what was held when recording began is not known, so its peak is relative to "
            "that"
        )
    elif memory.peak.after_ns is None:
        yield f"{name}: the history has no times"
    if memory.peak and memory.peak.absolute and memory.peak.bytes and not memory.peak.sites:
        yield (
            f"{name}: what held memory at the peak is not known: events are missing from the "
            "history"
        )
    if not memory.parts:
        yield f"{name}: its segments and blocks contradict each other, so no breakdown is shown"
    total = sum(site.bytes for site in memory.sites)
    bare = sum(site.bytes for site in memory.sites if site.what == NO_STACK)
    if bare:
        share = fmt.percent(bare / total)
        yield f"{name}: {share} of what is held has no stack: it was allocated before the history"


_SOURCE_WIDTH = 48
"""Keeps a row within 80 columns."""


def render_memory(report: MemoryReport, head: str = "") -> str:
    """Each device: what is reserved, who holds it, the peak, what lies unused; ``head`` first."""
    blocks: list[Iterable[str]] = [[*([head] if head else []), printable(str(report.path))]]
    for memory in report.devices:
        where = "" if memory.whole else ", of the segments that could be read"
        blocks += [_totals(memory), _site_rows(f"Held at the end, by line{where}", memory.sites)]
        if memory.peak:
            title = f"Held at the peak of {fmt.size(memory.peak.bytes)}, by line"
            blocks += [_peak_line(memory.peak), _site_rows(title, memory.peak.sites)]
            if categories := [*memory.peak.categories.items()]:
                blocks.append([title.replace("line", "category"), *_size_rows(categories)])
        blocks += [_unused(memory), _failed_lines(memory)]
    blocks.append(listed("Not known", report.notes))
    return joined(blocks)


def _totals(memory: DeviceMemory) -> Iterator[str]:
    least = "" if memory.whole else "at least "
    yield (
        f"Device {memory.device}: {least}{fmt.size(memory.reserved)} reserved, "
        f"{least}{fmt.size(memory.allocated)} allocated"
    )
    parts = [(name, size) for name, size in memory.parts.items() if size]
    yield from _size_rows(parts)
    if parts:
        yield f"  {'reserved':<40} {fmt.size(memory.reserved):>10}  100.0 %"


def _site_rows(title: str, sites: Sequence[AllocationSite]) -> Iterator[str]:
    if not sites:
        return
    yield title
    yield f"  {'line':<{_SOURCE_WIDTH}} {'blocks':>7} {'size':>10}"
    shares = apportioned([site.bytes for site in sites], 1000)
    for site, share in zip(sites, shares, strict=True):
        yield (
            f"  {_source(site):<{_SOURCE_WIDTH}} {site.count:>7} {fmt.size(site.bytes):>10}"
            f"  {share / 10:5.1f} %"
        )
    total, count = sum(site.bytes for site in sites), sum(site.count for site in sites)
    yield (
        f"  {'all':<{_SOURCE_WIDTH}} {count:>7} {fmt.size(total):>10}  {sum(shares) / 10:5.1f} %"
    )


def _source(site: AllocationSite) -> str:
    """The end of a path, which is worth more than its beginning; JSON has all of it."""
    place = fmt.source(site.file and replaced(site.file), site.line)
    if place is None:
        return cut(site.what, _SOURCE_WIDTH)
    whole = f"{place} {site.what}"
    if len(printable(whole)) > _SOURCE_WIDTH:
        whole = "/".join(re.split(r"[\\/]", place)[-2:]) + f" {site.what}"
    return cut(whole, _SOURCE_WIDTH)


def _peak_line(peak: Peak) -> Iterator[str]:
    when = ""
    if peak.after_ns is not None and peak.span_ns is not None:
        when = f", {fmt.duration(peak.after_ns)} into {fmt.duration(peak.span_ns)} of history"
    relative = "" if peak.absolute else " above the level at the start of the history"
    yield f"Peak: {fmt.size(peak.bytes)} held{relative}{when}"


def _size_rows(parts: Sequence[tuple[str, int]]) -> Iterator[str]:
    shares = apportioned([size for _, size in parts], 1000)
    for (name, size), share in zip(parts, shares, strict=True):
        yield f"  {name:<40} {fmt.size(size):>10}  {share / 10:5.1f} %"


def _unused(memory: DeviceMemory) -> Iterator[str]:
    if memory.unused < 0:
        return
    yield f"Fragmentation: {fmt.size(memory.unused)} of {fmt.size(memory.reserved)} unused"
    if memory.unused:
        yield (
            f"  in {memory.unused_segments} of {fmt.several(memory.segments, 'segment')}; "
            f"the largest free block has {fmt.size(memory.largest_unused)}"
        )


def _failed_lines(memory: DeviceMemory) -> Iterator[str]:
    if memory.failed:
        yield f"Out of memory: {fmt.several(len(memory.failed), 'request')} failed"
    for request in memory.failed[:5]:
        left = "" if request.free is None else f", {fmt.size(request.free)} free on the device"
        yield f"  {fmt.size(request.asked)} requested{left}"


def special_report(path: Path, kind: Kind, *, as_json: bool, redact: bool = False) -> str:
    """The report of a file of this kind, as text or JSON.

    In JSON sizes are bytes, times nanoseconds, throughputs percent, and unknown is null.

    Raises:
        TraceError: it cannot be read.
        RedactionError: something private would be left in it.
    """
    redaction = redaction_at(path) if redact else None
    text = partial(_text, path, kind, redaction, as_json=as_json)
    return text() if redaction is None else redaction.applied(text)


def _text(path: Path, kind: Kind, redaction: Redaction | None, *, as_json: bool) -> str:
    report: MemoryReport | MetricsReport
    head = redaction.head if redaction else ""
    if kind is Kind.MEMORY_SNAPSHOT:
        report = report_memory(load_memory_snapshot(path))
        text = partial(render_memory, report, head)
    else:
        report = report_metrics(load_ncu(path))
        text = partial(render_metrics, report, head)
    if not as_json:
        return text()
    what = list(redaction.what) if redaction else None
    about = {"schema": SCHEMA, "kind": kind.name.lower(), "redacted": what}
    return encode_object({**about, **msgspec.to_builtins(report, enc_hook=str)})


class MemoryOutput(TypedDict):
    """`perftui report` of a memory snapshot: what holds GPU memory, bytes."""

    schema: Schema
    kind: Literal["memory_snapshot"]
    redacted: Redacted
    path: str
    devices: list[DeviceMemory]
    notes: list[str]


class MetricsOutput(TypedDict):
    """`perftui report` of Nsight Compute metrics: what limits each kernel."""

    schema: Schema
    kind: Literal["kernel_metrics"]
    redacted: Redacted
    path: str
    launches: int
    kernels: int
    rows: list[MeasuredRow]
    notes: list[str]
