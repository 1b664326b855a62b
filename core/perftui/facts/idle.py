"""GPU idle time summed up by cause: how much, in how many gaps, the longest, and the line."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.model import Gap, GapCause
from perftui.facts.fact import Facts, fact
from perftui.facts.gap_lines import gap_lines
from perftui.facts.lines import LineShare


@dataclass(frozen=True)
class IdleOfCause:
    """The gaps of one device that one cause explains for the most part."""

    device: int
    cause: GapCause
    total: int
    """Their time, ns."""
    count: int
    longest: Gap
    line: LineShare | None = None
    """The line at which the main thread was for most of that cause's gaps; None where no samples
    tell."""


@fact
def idle_by_cause(facts: Facts) -> tuple[IdleOfCause, ...]:
    """Of every device of the trace, most time first; empty without gaps. Of a trace with more than
    ``MOST`` gaps the longest are counted."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    groups: dict[tuple[int, GapCause], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.device, gap.cause), []).append(gap)
    lines = {one.cause: one.thread.lines for one in gap_lines(facts)}
    found = []
    for (device, cause), some in groups.items():
        line = next((one for one in lines.get(cause, ()) if one.file), None)
        # Gaps are listed longest first.
        total = sum(gap.duration for gap in some)
        found.append(IdleOfCause(device, cause, total, len(some), some[0], line))
    return tuple(sorted(found, key=lambda one: (-one.total, one.device, one.cause.value)))


def counts_all(facts: Facts) -> bool:
    """Whether every gap is counted, rather than the longest ``MOST`` of a device."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    return len(gaps) < MOST
