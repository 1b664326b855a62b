"""A report as JSON, for scripts and continuous integration."""

from __future__ import annotations

from typing import Any

import msgspec

from perftui.diagnosis.catalogue import answer_to
from perftui.diagnosis.model import Diagnosis, Finding
from perftui.facts.data_loader.worker_lines import WorkerLines, loader_lines
from perftui.facts.gpu.device_phases import device_phases
from perftui.facts.gpu.gap_lines import gap_lines
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.gpu.sync_calls import syncs
from perftui.facts.source.lines import LinesByTime
from perftui.facts.source.main_thread import main_thread, window_thread
from perftui.facts.step.own_cost import recording_cost
from perftui.facts.step.steps import step_breakdown, step_count, step_kind
from perftui.fixes.model import FixOption
from perftui.report.ranks import ranks_object
from perftui.report.report import Report
from perftui.report.trace_json import trace_object
from perftui.trace.text import encodable, printable

SCHEMA = 1


def encode(report: Report) -> str:
    """One object, indented; times are integer nanoseconds, shares 0 to 1, unknown is null.

    Characters that a terminal acts on are written as JSON escapes.
    """
    return encode_object(as_object(report))


def encode_object(plain: dict[str, Any]) -> str:
    """Plain values in the same form."""
    encoded = msgspec.json.encode(_encodable(plain))
    text = msgspec.json.format(encoded, indent=2).decode()
    # Of these, only the line ends of the layout stand outside strings.
    unsafe = {char for char in set(text) - {"\n"} if printable(char) != char}
    escapes = {ord(char): f"\\u{ord(char):04x}" for char in unsafe}
    return text.translate(escapes) + "\n"


def as_object(report: Report) -> dict[str, Any]:
    """The report as plain values."""
    diagnosis, facts = report.diagnosis, report.facts
    return {
        "schema": SCHEMA,
        "path": str(report.subject.path),
        "run": _run(report),
        "steps": _steps(report),
        "verdict": diagnosis.top.headline if diagnosis.top else None,
        "progress": diagnosis.progress or None,
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "fixes": [_fix(fix, report.diagnosis) for fix in report.fixes],
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
            {"cause": one.cause.value, "idle_ns": one.idle, **(_lines(one.thread) or {})}
            for one in gap_lines(facts)
        ],
        "operators": msgspec.to_builtins(report.ops),
        "modules": msgspec.to_builtins(report.modules),
        "kernels": msgspec.to_builtins(report.kernels),
        "totals": msgspec.to_builtins(report.totals),
        "trace": trace_object(facts, report.top),
        "ranks": ranks_object(report),
        "kernel_metrics": msgspec.to_builtins(report.metrics, enc_hook=str),
        "recording": _recording(report),
        "notes": list(report.notes),
    }


def _encodable(value: Any) -> Any:
    """Plain values with no half of a surrogate pair, which names of files can hold, in any text."""
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


def _run(report: Report) -> dict[str, Any] | None:
    if report.subject.run is None:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(report.subject.run.manifest)
    return fields


def _steps(report: Report) -> dict[str, Any] | None:
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


def _lines(thread: LinesByTime | None) -> dict[str, Any] | None:
    if thread is None:
        return None
    lines = [{**msgspec.to_builtins(line), "share": thread.share(line)} for line in thread.lines]
    return {"covered_ns": thread.covered, "samples": thread.samples, "lines": lines}


def _workers(found: WorkerLines | None) -> dict[str, Any] | None:
    if found is None:
        return None
    lines = _lines(found.making) or {}
    return {"busy_share": found.busy, "collate_share": found.collate, **lines}


def _recording(report: Report) -> dict[str, Any] | None:
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


def _finding(finding: Finding) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(finding)
    return {
        **fields,
        "severity": finding.severity.name.lower(),
        "share": finding.share,
        "best_speedup": finding.best_speedup,
        "answer": answer_to(finding.rule) or None,
    }


def _fix(fix: FixOption, diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "fix": fix.fix,
        "answers": [one.rule for one in diagnosis.findings if fix.fix in one.fixes],
        "title": fix.title,
        "risks": [risk.value for risk in fix.risks],
        "override": msgspec.to_builtins(fix.override),
        "diff": fix.patch.diff() if fix.patch else None,
        "command": list(fix.argv) if fix.argv else None,
        "why_not": fix.why_not or None,
        "advice": fix.advice or None,
        "file": fix.file,
        "line": fix.line,
    }
