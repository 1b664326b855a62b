"""GPU idle time summed up by cause: how much, in how many gaps, the longest, and the line."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.model import Gap, GapCause
from perftui.facts.fact import Facts, fact
from perftui.facts.gpu.gap_lines import gap_lines
from perftui.facts.source.lines import LineShare


@dataclass(frozen=True)
class IdleOfCause:
    """Idle time of one device that one cause explains."""

    device: int
    cause: GapCause
    total: int
    """ns in all gaps, each nanosecond by its own cause: over causes they sum to all idle time."""
    count: int
    """Listed gaps that it is the largest part of; 0 where it is only a lesser part of others."""
    longest: Gap | None
    """The longest of those; None without one."""
    line: LineShare | None = None
    """The line at which the main thread was for most of that cause's gaps; None where no samples
    tell."""


@fact
def idle_by_cause(facts: Facts) -> tuple[IdleOfCause, ...]:
    """Idle time of every device of the trace by cause, most time first; empty without idle time.
    Of a device with more than ``MOST`` gaps the longest are counted; all are summed up."""
    if facts.analysis is None:
        return ()
    groups: dict[tuple[int, GapCause], list[Gap]] = {}
    for gap in facts.analysis.gaps:
        groups.setdefault((gap.device, gap.cause), []).append(gap)
    lines = {one.cause: one.thread.lines for one in gap_lines(facts)}
    found = []
    for one in facts.analysis.idle:
        line = next((line for line in lines.get(one.cause, ()) if line.file), None)
        # Gaps are listed longest first.
        some = groups.get((one.device, one.cause), [])
        longest = some[0] if some else None
        found.append(IdleOfCause(one.device, one.cause, one.total, len(some), longest, line))
    return tuple(sorted(found, key=lambda one: (-one.total, one.device, one.cause.value)))


def counts_all(facts: Facts) -> bool:
    """Whether every gap is counted, rather than the longest ``MOST`` of a device."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    return len(gaps) < MOST
