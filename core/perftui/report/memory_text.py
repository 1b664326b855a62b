"""The report of a memory snapshot as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from perftui import format as fmt
from perftui.facts.rounding import apportioned
from perftui.report.blocks import cut, joined, listed
from perftui.report.memory import AllocationSite, DeviceMemory, MemoryReport, Peak
from perftui.report.shown import printable, replaced

_MOST_FAILED = 5
_SOURCE_WIDTH = 48
"""Keeps a row within 80 columns."""


def render_memory(report: MemoryReport, head: str = "") -> str:
    """Each device: what is reserved, who holds it, the peak, what lies unused; ``head`` first."""
    blocks: list[Iterable[str]] = [[*([head] if head else []), printable(str(report.path))]]
    for memory in report.devices:
        where = "" if memory.whole else ", of the segments that could be read"
        blocks += [_totals(memory), _held(f"Held at the end, by line{where}", memory.sites)]
        if memory.peak:
            title = f"Held at the peak of {fmt.size(memory.peak.bytes)}, by line"
            blocks += [_peak(memory.peak), _held(title, memory.peak.sites)]
            blocks.append(_categories(memory.peak))
        blocks += [_unused(memory), _failed(memory)]
    blocks.append(listed("Not known", report.notes))
    return joined(blocks)


def _totals(memory: DeviceMemory) -> Iterator[str]:
    least = "" if memory.whole else "at least "
    yield (
        f"Device {memory.device}: {least}{fmt.size(memory.reserved)} reserved, "
        f"{least}{fmt.size(memory.allocated)} allocated"
    )
    parts = [(name, size) for name, size in memory.parts.items() if size]
    for (name, size), share in zip(parts, _tenths([size for _, size in parts]), strict=True):
        yield f"  {name:<40} {fmt.size(size):>10}  {share / 10:5.1f} %"
    if parts:
        yield f"  {'reserved':<40} {fmt.size(memory.reserved):>10}  100.0 %"


def _held(title: str, sites: Sequence[AllocationSite]) -> Iterator[str]:
    if not sites:
        return
    yield title
    yield f"  {'line':<{_SOURCE_WIDTH}} {'blocks':>7} {'size':>10}"
    shares = _tenths([each.bytes for each in sites])
    for each, share in zip(sites, shares, strict=True):
        yield (
            f"  {_source(each):<{_SOURCE_WIDTH}} {each.count:>7} {fmt.size(each.bytes):>10}"
            f"  {share / 10:5.1f} %"
        )
    total, count = sum(each.bytes for each in sites), sum(each.count for each in sites)
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


def _peak(peak: Peak) -> Iterator[str]:
    when = ""
    if peak.after_ns is not None and peak.span_ns is not None:
        when = f", {fmt.duration(peak.after_ns)} into {fmt.duration(peak.span_ns)} of history"
    relative = "" if peak.absolute else " above the level at the start of the history"
    yield f"Peak: {fmt.size(peak.bytes)} held{relative}{when}"


def _categories(peak: Peak) -> Iterator[str]:
    if not peak.categories:
        return
    yield f"Held at the peak of {fmt.size(peak.bytes)}, by category"
    shares = _tenths([*peak.categories.values()])
    for (name, size), share in zip(peak.categories.items(), shares, strict=True):
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


def _failed(memory: DeviceMemory) -> Iterator[str]:
    if memory.failed:
        yield f"Out of memory: {fmt.several(len(memory.failed), 'request')} failed"
    for each in memory.failed[:_MOST_FAILED]:
        left = "" if each.free is None else f", {fmt.size(each.free)} free on the device"
        yield f"  {fmt.size(each.asked)} requested{left}"


def _tenths(values: Sequence[int]) -> list[int]:
    return apportioned(values, 1000)
