"""What a trace holds beside its tables as plain values: devices, streams, gaps, their causes."""

from __future__ import annotations

from typing import Any

import msgspec

from perftui.analysis.model import Gap
from perftui.analysis.steps import step_source
from perftui.facts.fact import Facts
from perftui.facts.gpu.gap_places import place_of
from perftui.facts.gpu.idle import counts_all, idle_by_cause
from perftui.facts.gpu.streams import (
    communication_overlap,
    copy_overlap,
    launch_delays,
    stream_work,
)
from perftui.facts.kernel.critical_path import critical_path_parts
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.outputs.trace import GapOutput, TraceOutput
from perftui.report.report import Report

MOST_GAPS = 100
"""Gaps that are listed one by one, where no other number is asked for."""


def trace_object(report: Report) -> TraceOutput | None:
    """The trace as JSON, times in ns since its start; None without a trace."""
    facts, analysis, redaction = report.facts, report.facts.analysis, report.redaction
    if analysis is None:
        return None
    properties = analysis.trace.metadata.get("deviceProperties")
    devices: Any = [
        {**msgspec.to_builtins(one), "idle": one.idle, "span": one.span}
        for one in analysis.activity
    ]
    return {
        "devices": devices,
        "device_properties": redaction.plain(properties) if redaction else properties,
        "streams": msgspec.to_builtins(stream_work(facts)),
        "steps": [
            {
                "index": one.step.index,
                "start": one.step.start,
                "duration": one.step.duration,
                "parts_ns": dict(one.parts),
            }
            for one in analysis.step_parts
        ],
        "steps_told_by": step_source(analysis.trace, analysis.steps) or None,
        "idle_by_cause": [
            {
                "device": one.device,
                "cause": one.cause,
                "total_ns": one.total,
                "count": one.count,
                "longest_ns": one.longest.duration if one.longest else None,
                "longest_start": one.longest.start if one.longest else None,
                "line": one.line.source if one.line else None,
            }
            for one in idle_by_cause(facts)
        ],
        "idle_counts_all_gaps": counts_all(facts),
        "gaps": [_gap(gap, facts) for gap in analysis.gaps[: report.top or MOST_GAPS]],
        "gaps_total": len(analysis.gaps),
        "communication": msgspec.to_builtins(communication_overlap(facts)),
        "copies": msgspec.to_builtins(copy_overlap(facts)),
        "launches": msgspec.to_builtins(launch_delays(facts)),
        "critical_path_ns": _critical_path(facts),
    }


def _critical_path(facts: Facts) -> dict[str, int] | None:
    parts = critical_path_parts.or_none(facts)
    return {kind.value: time for kind, time in parts.items()} if parts else None


def _gap(gap: Gap, facts: Facts) -> GapOutput:
    steps = trace_steps.or_none(facts)
    place = place_of(gap, steps) if steps else None
    return {
        "device": gap.device,
        "start": gap.start,
        "duration": gap.duration,
        "cause": gap.cause,
        "phase": gap.phase or None,
        "operator": place.operator if place else None,
        "source": place.source if place else None,
    }
