"""``sync-bound``: the host waits for the GPU, then the GPU for the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import Gap, GapCause
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.gpu.device_share import part_of, per_step, window_step
from perftui.facts.gpu.gap_places import most_common, place_of
from perftui.facts.gpu.gpu import idle_steps
from perftui.facts.gpu.host_waits import HostWaits, WaitKind, host_waits
from perftui.facts.gpu.sync_calls import SyncCalls, syncs
from perftui.facts.place import Place
from perftui.facts.script.anomaly_checks import anomaly_checks
from perftui.facts.source.host_lines import place_of_rows
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.facts.step.trace_steps import TraceSteps
from perftui.trace.model import Int64

_NEAR = (GapCause.SYNCHRONISATION.value, GapCause.LAUNCH.value)
"""Parts of the step in which the device waits for a host that has waited for it."""

_SHOWN_CALLS = 3
"""Calls listed, where they were counted; the report has more of them."""

_NAMED_GAPS = 100
"""Longest gaps that are searched for the operator."""

_SHOWN_GAPS = 3
"""Places listed: the longest gaps; all of them are in the timeline."""


def _synchronising(facts: Facts) -> Lost | None:
    trace = idle_steps(facts)
    waits, step = host_waits(facts), window_step(facts)
    values, checks = waits.of(WaitKind.VALUE), anomaly_checks.or_none(facts)
    if checks is not None:
        # It is not the script that reads these.
        values = values[~np.isin(waits.rows[values], checks.rows)]
    counted = syncs(facts)
    counted = counted if counted and counted.on_gpu else None
    judged = judged_step(facts)
    late = sum(judged.part(name) for name in (*_NEAR, GapCause.PYTHON.value))
    cost = min(_cost(facts, waits, values, counted), late)
    share = cost / step.mean if step.mean else 0.0
    if not len(values) or share < SYNC.limits.warning:
        return None
    gaps = trace.gaps(GapCause.SYNCHRONISATION)
    each = len(values) // max(trace.steps, 1)
    place = _place(facts, waits.rows[values], gaps, trace, counted)
    often = f", {fmt.several(each, 'time')} a step" if trace.steps and each > 1 else ""
    named = _named(place, counted)
    return Lost(
        cost,
        step,
        f"The GPU idles {part_of(step, cost)} because the host "
        f"waited for it first{f' ({named}{often})' if named else often}.",
        (
            Figure.share("device idle after synchronising", share, SYNC.limits.warning),
            Figure("mean idle", cost, "ns"),
            *((Figure("waits a step", each, "count"),) if trace.steps else ()),
            Figure("gaps", len(gaps), "count")
            if trace.lists_all_gaps
            else Figure("gaps", f"at least {len(gaps)}"),
            Figure("profiled steps", trace.steps, "count"),
            *_longest(gaps, trace),
            *_calls(counted, facts),
        ),
        place=place,
        parts=_parts(judged, cost),
    )


def _parts(judged: JudgedStep, cost: int) -> tuple[str, ...]:
    """A host that is late is late with its Python too, where launching alone is not so much; Python
    that takes longer than the waits cost is a cause of its own."""
    python = judged.part(GapCause.PYTHON.value)
    if cost <= sum(judged.part(name) for name in _NEAR) or cost < python:
        return _NEAR
    return (*_NEAR, GapCause.PYTHON.value)


def _cost(facts: Facts, waits: HostWaits, values: Int64, counted: SyncCalls | None) -> int:
    """Calls that were counted include what Python takes around the operator."""
    steps = max(waits.steps.steps, 1)
    lasting = int(waits.lasting[values].sum())
    caused = int(waits.cost[values].sum())
    if counted is not None and caused == lasting:
        timed = sum(max(call.time, 0) for call in counted.calls) * steps // counted.steps
        caused = min(max(caused, timed), waits.idle)
    return per_step(facts, caused)


def _place(
    facts: Facts, rows: Int64, gaps: list[Gap], trace: TraceSteps, counted: SyncCalls | None
) -> Place:
    if counted is not None and counted.calls:
        call = counted.calls[0]
        return Place(facts.rank_number, operator=call.call, file=call.file, line=call.line)
    operator = most_common(place_of(gap, trace).operator for gap in gaps[:_NAMED_GAPS])
    return place_of_rows(facts, rows, operator)


def _named(place: Place, counted: SyncCalls | None) -> str:
    if counted is not None and counted.calls:
        return counted.calls[0].short
    if not place.operator:
        return ""
    at = place.source and PurePath(place.source).name
    return f"{place.operator} at {at}" if at else place.operator


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
        "A call such as .item(), float(loss), print(loss), a condition on a tensor, nonzero, a "
        "boolean mask or torch.cuda.synchronize() waits until the GPU has finished all queued "
        "work. By then the queue is empty, and the GPU idles until the host launches more. Many "
        "short waits cost as much as a long one: the host never gets ahead. Read values every N "
        "steps, keep them on the GPU, or synchronize once at the end of the step."
    ),
    lost=_synchronising,
    limits=Limits(0.05, 0.20, "TraceLens reports exposed time from 5 %."),
    claims=Claim(idle=GapCause.SYNCHRONISATION),
    answer="read values every N steps, keep them on the GPU",
)
