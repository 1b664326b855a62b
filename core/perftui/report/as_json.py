"""A report as JSON, for scripts and continuous integration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from perftui.analysis.model import Gap
from perftui.analysis.steps import step_source
from perftui.facts.data_loader.worker_lines import WorkerLines, loader_lines
from perftui.facts.fact import Facts
from perftui.facts.gpu.device_phases import device_phases
from perftui.facts.gpu.gaps import gap_lines, place_of
from perftui.facts.gpu.idle import counts_all, idle_by_cause
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.gpu.streams import (
    communication_overlap,
    copy_overlap,
    critical_path_parts,
    launch_delays,
    stream_work,
)
from perftui.facts.gpu.sync_calls import syncs
from perftui.facts.source.lines import LinesByTime, main_thread, window_thread
from perftui.facts.step.own_cost import recording_cost
from perftui.facts.step.steps import step_breakdown, step_count, step_kind
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.finding_json import finding_object, fix_object
from perftui.report.next_command import comparison_command, next_command
from perftui.report.output_text import encodable
from perftui.report.outputs.report import (
    GapOutput,
    LinesOutput,
    ReportOutput,
    StepsOutput,
    TraceOutput,
    WorkersOutput,
)
from perftui.report.ranks import ranks_object
from perftui.report.report import Report
from perftui.trace.text import encodable as encodable_name
from perftui.trace.text import printable

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


SCHEMA = 1


def encode(report: Report) -> str:
    """One object, indented; times are integer nanoseconds, shares 0 to 1, unknown is null.

    Characters that a terminal acts on are written as JSON escapes.
    """
    return encode_object(as_object(report))


def encode_object(plain: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """Plain values in the same form, or without any layout."""
    text = msgspec.json.encode(_encodable(plain)).decode()
    if not on_one_line:
        text = msgspec.json.format(text, indent=2)
    # Of these, only the line ends of the layout stand outside strings.
    unsafe = {char for char in set(text) - {"\n"} if printable(char) != char}
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in unsafe}) + "\n"


def as_object(report: Report) -> ReportOutput:
    """The report as plain values."""
    diagnosis, facts = report.diagnosis, report.facts
    return {
        "schema": SCHEMA,
        "redacted": report.redacted,
        "path": report.subject.name,
        "run": _run(report),
        "steps": _steps(report),
        "verdict": diagnosis.top.headline if diagnosis.top else None,
        "progress": diagnosis.progress or None,
        "findings": [finding_object(finding, report) for finding in diagnosis.findings],
        "fixes": [fix_object(fix, report.diagnosis) for fix in report.fixes],
        "next": next_command(report),
        "compare": comparison_command(report),
        "not_judged": msgspec.to_builtins(diagnosis.abstentions),
        "step_breakdowns": [
            {
                "source": "run" if found.of_run else "trace",
                "steps": found.count,
                "step_ns": found.mean,
                "parts_ns": dict(found.parts),
            }
            for found in report.breakdowns
        ],
        "main_thread": _lines(main_thread(facts)),
        "main_thread_in_windows": _lines(window_thread(facts)),
        "syncs": msgspec.to_builtins(syncs(facts)),
        "workers": _workers(loader_lines(facts)),
        "main_thread_in_gaps": [
            {"cause": one.cause, "idle_ns": one.idle, **_lines_of(one.thread)}
            for one in gap_lines(facts)
        ],
        "operators": msgspec.to_builtins(report.ops),
        "modules": msgspec.to_builtins(report.modules),
        "kernels": msgspec.to_builtins(report.kernels),
        "totals": msgspec.to_builtins(report.totals),
        "trace": trace_object(report),
        "ranks": ranks_object(report),
        "kernel_metrics": msgspec.to_builtins(report.metrics, enc_hook=str),
        "recording": _recording(report),
        "notes": list(report.notes),
    }


def _encodable(value: Any) -> Any:
    """Plain values with no half of a surrogate pair, which names of files can hold, in any text."""
    if isinstance(value, dict):
        return {_key(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


def _key(key: Any) -> Any:
    """Names of fields are ours, also where somebody is called like one."""
    return encodable_name(key) if isinstance(key, str) else key


def _run(report: Report) -> Any:
    run = report.subject.run
    # Of what an older version did not write, msgspec leaves only the default of the class.
    return msgspec.to_builtins(asdict(run.manifest)) if run else None


def _steps(report: Report) -> StepsOutput | None:
    share = step_breakdown(report.facts)
    if share is None:
        return None
    rows = report.facts.steps
    return {
        "kind": step_kind(report.facts),
        "recorded": step_count(report.facts),
        "steady": share.count,
        "inconsistent": share.inconsistent,
        "mean_ns": share.mean,
        "p5_ns": share.p5,
        "p50_ns": share.p50,
        "p95_ns": share.p95,
        "steps_per_second": share.steps_per_second,
        "rows": {column.name: rows[column.name].tolist() for column in rows.columns},
    }


def _lines(thread: LinesByTime | None) -> LinesOutput | None:
    return _lines_of(thread) if thread else None


def _lines_of(thread: LinesByTime) -> LinesOutput:
    lines: Any = [
        {**msgspec.to_builtins(line), "share": thread.share(line)} for line in thread.lines
    ]
    return {"covered_ns": thread.covered, "samples": thread.samples, "lines": lines}


def _workers(found: WorkerLines | None) -> WorkersOutput | None:
    if found is None:
        return None
    lines = _lines_of(found.making)
    return {"busy_share": found.busy, "collate_share": found.collate, **lines}


def _recording(report: Report) -> Any:
    if report.recording is None:
        return None
    cost, memory = recording_cost(report.facts), gpu_memory(report.facts)
    fields = msgspec.to_builtins(report.recording, enc_hook=str)
    return {
        "options": fields["options"],
        "cost": cost
        and {**msgspec.to_builtins(cost), "total": cost.total, "at_most": cost.at_most},
        "windows": fields["windows"],
        "phases": msgspec.to_builtins(device_phases(report.facts)),
        "memory": memory
        and {
            "allocated": int(memory.allocated[-1]),
            "reserved": int(memory.reserved[-1]),
            "peak": memory.peak_allocated,
            "retries": memory.retries or 0,
            "failures": memory.failures or 0,
        },
        "snapshots": fields["snapshots"],
        "nsys": fields["nsys"],
    }
