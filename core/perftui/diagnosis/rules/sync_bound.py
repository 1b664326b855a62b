"""``sync-bound``: the host waits for the device, then the device waits for the host."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.model import Gap, GapCause
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Fact, Finding
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules.device_idle import device_trace
from perftui.diagnosis.severity import more_steps, severity, supported_by_trace, trace_confidence
from perftui.facts.place import Place, most_common, place_of
from perftui.facts.sync_calls import SyncCalls
from perftui.facts.trace_steps import TraceFacts

RULE = "sync-bound"

_SHOWN_CALLS = 3
"""Calls listed, where they were counted; the report has more of them."""

_SHOWN_GAPS = 3
"""Places listed: the longest gaps; all of them are in the timeline."""


def evaluate(evidence: Evidence, policy: Policy) -> Finding | Abstention | None:
    """Find device idle after synchronising calls of ``policy.sync_warning`` of the step."""
    trace = device_trace(evidence, RULE)
    if not isinstance(trace, TraceFacts):
        return trace
    idle = trace.part(GapCause.SYNCHRONISATION.value)
    found = severity(idle / trace.step_ns, policy.sync_warning, policy.sync_critical)
    if found is None:
        return None
    gaps = trace.gaps(GapCause.SYNCHRONISATION)
    counted = evidence.syncs if evidence.syncs and evidence.syncs.on_gpu else None
    describe = fmt.part_of_step if trace.steps else fmt.part_of_trace
    return Finding(
        RULE,
        supported_by_trace(found, trace.steps, policy),
        f"The GPU idles {describe(idle, trace.step_ns)} because the host "
        f"waited for it first{_where(gaps, trace, counted)}.",
        (*_facts(idle, gaps, trace, policy), *_call_facts(counted, evidence)),
        idle,
        trace.step_ns,
        trace_confidence(trace.steps, policy),
        (),
        more_steps(trace.steps, policy),
        trace.steps,
    )


def _where(gaps: list[Gap], trace: TraceFacts, counted: SyncCalls | None) -> str:
    if counted is not None and counted.calls:
        return f" ({counted.calls[0].short})"
    places = [place_of(gap, trace) for gap in gaps]
    source = most_common(place.source for place in places)
    operator = most_common(place.operator for place in places)
    named = operator and (f"{operator} at {source}" if source else operator)
    return f" ({named})" if named else ""


def _call_facts(counted: SyncCalls | None, evidence: Evidence) -> Iterator[Fact]:
    """The lines that wait longest, with that time in each step."""
    if counted is None:
        return
    for call in (call for call in counted.calls[:_SHOWN_CALLS] if call.time >= 0):
        place = Place(rank=evidence.rank, operator=call.call, file=call.file, line=call.line)
        yield Fact(f"{call.call}, a step", call.time // counted.steps, "ns", place=place)


def _count(gaps: list[Gap], trace: TraceFacts) -> Fact:
    if trace.lists_all_gaps:
        return Fact("gaps", len(gaps), "count")
    return Fact("gaps", f"at least {len(gaps)}")


def _facts(idle: int, gaps: list[Gap], trace: TraceFacts, policy: Policy) -> tuple[Fact, ...]:
    share = round(100 * idle / trace.step_ns, 1)
    found = [
        Fact("device idle after synchronising", share, "%", 100 * policy.sync_warning),
        Fact("mean idle", idle, "ns"),
        _count(gaps, trace),
        Fact("steady steps", trace.steps, "count"),
    ]
    for gap in gaps[:_SHOWN_GAPS]:
        place = place_of(gap, trace)
        label = place.source or place.operator or "gap"
        found.append(Fact(label, gap.duration, "ns", place=place))
    return tuple(found)
