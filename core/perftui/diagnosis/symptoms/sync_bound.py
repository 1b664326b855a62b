"""``sync-bound``: the host waits for the GPU, then the GPU for the host."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.model import Gap, GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.gap_places import most_common, place_of
from perftui.facts.gpu import idle_steps
from perftui.facts.place import Place
from perftui.facts.sync_calls import SyncCalls, syncs
from perftui.facts.trace_steps import TraceSteps

_SHOWN_CALLS = 3
"""Calls listed, where they were counted; the report has more of them."""

_SHOWN_GAPS = 3
"""Places listed: the longest gaps; all of them are in the timeline."""


def _synchronising(facts: Facts) -> Lost | None:
    trace = idle_steps(facts)
    idle = trace.part(GapCause.SYNCHRONISATION.value)
    share = idle / trace.step_ns
    if share < SYNC.limits.warning:
        return None
    gaps = trace.gaps(GapCause.SYNCHRONISATION)
    counted = syncs(facts)
    counted = counted if counted and counted.on_gpu else None
    describe = fmt.part_of_step if trace.steps else fmt.part_of_trace
    return Lost(
        idle,
        trace.breakdown,
        f"The GPU idles {describe(idle, trace.step_ns)} because the host "
        f"waited for it first{_where(gaps, trace, counted)}.",
        (
            Figure.share("device idle after synchronising", share, SYNC.limits.warning),
            Figure("mean idle", idle, "ns"),
            Figure("gaps", len(gaps), "count")
            if trace.lists_all_gaps
            else Figure("gaps", f"at least {len(gaps)}"),
            Figure("steady steps", trace.steps, "count"),
            *_longest(gaps, trace),
            *_calls(counted, facts),
        ),
    )


def _where(gaps: list[Gap], trace: TraceSteps, counted: SyncCalls | None) -> str:
    if counted is not None and counted.calls:
        return f" ({counted.calls[0].short})"
    places = [place_of(gap, trace) for gap in gaps]
    source = most_common(place.source for place in places)
    operator = most_common(place.operator for place in places)
    named = operator and (f"{operator} at {source}" if source else operator)
    return f" ({named})" if named else ""


def _longest(gaps: list[Gap], trace: TraceSteps) -> Iterator[Figure]:
    for gap in gaps[:_SHOWN_GAPS]:
        place = place_of(gap, trace)
        yield Figure(place.source or place.operator or "gap", gap.duration, "ns", place=place)


def _calls(counted: SyncCalls | None, facts: Facts) -> Iterator[Figure]:
    """The lines that wait longest, with that time in each step."""
    if counted is None:
        return
    for call in (call for call in counted.calls[:_SHOWN_CALLS] if call.time >= 0):
        place = Place(rank=facts.rank_number, operator=call.call, file=call.file, line=call.line)
        yield Figure(f"{call.call}, a step", call.time // counted.steps, "ns", place=place)


SYNC = Rule(
    id="sync-bound",
    when="the host waits for the GPU, then the GPU for the host",
    explanation=(
        "A call such as .item() or a blocking copy waits until the GPU has done all it was given. "
        "By then its queue is empty, and it idles until the host has launched more. Read values "
        "every N steps, keep them on the device, or wait once at the end of the step."
    ),
    lost=_synchronising,
    limits=Limits(0.05, 0.20, "TraceLens speaks of exposed time from 5 %."),
    claims=Claim(idle=GapCause.SYNCHRONISATION),
    answer="read values every N steps, keep them on the GPU",
)
