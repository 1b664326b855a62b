"""A report as JSON, for scripts and continuous integration."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, TypedDict

import msgspec

from perftui.analysis.model import DeviceActivity, Gap, GapCause
from perftui.analysis.steps import step_source
from perftui.diagnosis.model import Abstention
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import gpu_memory
from perftui.facts.gpu.host_waits import SyncCalls, syncs
from perftui.facts.gpu.idle import counts_all, gap_lines, gap_place, idle_by_cause
from perftui.facts.gpu.streams import (
    LaunchDelays,
    Overlap,
    StreamWork,
    communication_overlap,
    copy_overlap,
    critical_path_parts,
    launch_delays,
    stream_work,
)
from perftui.facts.ranks.collectives import collectives_of_ranks
from perftui.facts.ranks.rank_table import SlowRank
from perftui.facts.ranks.straggler import slow_rank
from perftui.facts.ranks.traced_ranks import traced_ranks, waits_of_ranks
from perftui.facts.source.lines import LinesByTime, main_thread, window_thread
from perftui.facts.step.own_cost import OwnCost, recording_cost
from perftui.facts.step.steps import (
    DeviceShare,
    device_phases,
    step_breakdown,
    step_count,
    step_kind,
)
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.findings_as_json import (
    BriefFinding,
    FindingOutput,
    FixOutput,
    finding_object,
    fix_object,
)
from perftui.report.kernel_metrics import TraceMetrics
from perftui.report.next_command import comparison_command, next_command
from perftui.report.output_text import (
    SCHEMA,
    Command,
    Ns,
    Redacted,
    Schema,
    Share,
    encode_object,
    filled,
    said,
)
from perftui.report.recorded import Recorded, Snapshot
from perftui.report.report import OpRow, Report, Totals
from perftui.report.wording import table_of_ranks
from perftui.run.manifest import Manifest


class TraceStepOutput(TypedDict):
    """One step of a trace; its parts sum to it."""

    index: int
    start: Ns
    duration: Ns
    parts_ns: dict[str, int]


class IdleOutput(TypedDict):
    """Idle time of a device by what the launching thread did meanwhile."""

    device: int
    cause: GapCause
    total_ns: Ns
    count: int
    longest_ns: int | None
    longest_start: int | None
    line: str | None


class GapOutput(TypedDict):
    """One gap in which a device did nothing."""

    device: int
    start: Ns
    duration: Ns
    cause: GapCause
    phase: str | None
    operator: str | None
    source: str | None


class TraceOutput(TypedDict):
    """A trace; times in nanoseconds since its start."""

    devices: list[DeviceActivity]
    device_properties: Any
    streams: list[StreamWork]
    steps: list[TraceStepOutput]
    steps_told_by: Annotated[
        str | None, said("What the steps are derived from if the trace does not mark them.")
    ]
    idle_by_cause: list[IdleOutput]
    idle_counts_all_gaps: bool
    gaps: list[GapOutput]
    gaps_total: int
    communication: list[Overlap]
    copies: list[Overlap]
    launches: LaunchDelays | None
    critical_path_ns: dict[str, int] | None


Verdict = Annotated[str | None, said("The costliest finding in a sentence, or that it is healthy.")]
Progress = Annotated[str | None, said("What is missing, if it is too early to judge.")]
Against = Annotated[
    list[str] | None, said("The command that compares this run with the run it repeats.")
]


class StepsOutput(TypedDict):
    """The steps of a run."""

    kind: Annotated[str, said("train, eval or infer.")]
    recorded: int
    steady: Annotated[int, said("Without warm-up and profiled steps.")]
    inconsistent: int
    mean_ns: Ns
    p5_ns: Ns
    p50_ns: Ns
    p95_ns: Ns
    steps_per_second: float
    rows: Annotated[dict[str, list[Any]], said("By column, a value for each step.")]


class BreakdownOutput(TypedDict):
    """Where the mean step went; the parts sum to it."""

    source: str
    steps: int
    step_ns: Ns
    parts_ns: dict[str, int]


class LineOutput(TypedDict):
    """A source line and the time that a thread spent there."""

    file: str
    line: int
    function: str
    inner: str
    held: Ns
    share: Share


class LinesOutput(TypedDict):
    """Source lines by the time that a thread spent there, from stack samples."""

    covered_ns: Ns
    samples: int
    lines: list[LineOutput]


class WorkersOutput(LinesOutput):
    """Where data loader workers were while they made batches."""

    busy_share: Share
    collate_share: Share


class GapLinesOutput(LinesOutput):
    """Where the main thread was while the GPU idled for one cause."""

    cause: GapCause
    idle_ns: Ns


class GpuMemoryOutput(TypedDict):
    """GPU memory that PyTorch held, bytes."""

    allocated: int
    reserved: int
    peak: int
    retries: int
    failures: int


class RecordingOutput(TypedDict):
    """How a run was recorded."""

    options: list[str]
    cost: OwnCost | None
    windows: list[Recorded]
    phases: DeviceShare | None
    memory: GpuMemoryOutput | None
    snapshots: list[Snapshot]
    nsys: list[str]


class RankOutput(TypedDict):
    """The mean steady step of one rank; times in nanoseconds."""

    rank: int
    host: str
    train_steps: int
    steps: int
    mean: int
    p50: int
    p95: int
    parts: dict[str, int]
    waits: int
    peak_memory: int | None
    caused: int | None


class RanksOutput(TypedDict):
    """Ranks side by side."""

    rows: list[RankOutput]
    slow_rank: SlowRank | None
    collectives_ns: Annotated[dict[int, int | None] | None, said("Time in collectives, by rank.")]
    waits_ns: Annotated[
        dict[int, dict[int, int]] | None, said("By waiting rank and by the rank it waits for.")
    ]
    spread: float | None
    shown: int


class ReportOutput(TypedDict):
    """`perftui report` and `perftui diagnose`: what a training loses, and its fixes."""

    schema: Schema
    redacted: Redacted
    path: str
    run: Annotated[Manifest | None, said("What was run; null for a trace.")]
    steps: StepsOutput | None
    verdict: Verdict
    progress: Progress
    findings: list[FindingOutput]
    fixes: Annotated[list[FixOutput], said("Fixes for the findings, each once.")]
    next: Command
    compare: Against
    not_judged: list[Abstention]
    step_breakdowns: list[BreakdownOutput]
    main_thread: LinesOutput | None
    main_thread_in_windows: LinesOutput | None
    syncs: SyncCalls | None
    workers: WorkersOutput | None
    main_thread_in_gaps: list[GapLinesOutput]
    operators: list[OpRow]
    modules: list[OpRow]
    kernels: list[OpRow]
    totals: dict[str, Totals]
    trace: TraceOutput | None
    ranks: RanksOutput | None
    kernel_metrics: TraceMetrics | None
    recording: RecordingOutput | None
    notes: Annotated[list[str], said("What was skipped, and what the evidence cannot show.")]


class BriefReport(TypedDict):
    """`perftui report` and `diagnose` with `--json --brief`: at most 2,000 bytes."""

    schema: Schema
    redacted: Redacted
    path: Annotated[str | None, said("The run or the trace; null if it is too long.")]
    verdict: Verdict
    progress: Progress
    steps: Annotated[int, said("Steady steps that this is based on.")]
    step_ns: Annotated[int | None, said("The mean steady step, nanoseconds.")]
    findings: Annotated[list[BriefFinding], said("The costliest, three at most.")]
    more_findings: int
    next: Command
    compare: Against


MOST_GAPS = 100
"""Gaps that are listed one by one, where no other number is asked for."""


def trace_object(report: Report) -> TraceOutput | None:
    """The trace as JSON, times in ns since its start; None without a trace."""
    facts, analysis, redaction = report.facts, report.facts.analysis, report.redaction
    if analysis is None:
        return None
    properties = analysis.trace.metadata.get("deviceProperties")
    path = critical_path_parts.or_none(facts)
    return {
        "devices": msgspec.to_builtins(analysis.activity),
        "device_properties": redaction.plain(properties) if redaction else properties,
        "streams": msgspec.to_builtins(stream_work(facts)),
        "steps": [
            filled(TraceStepOutput, row.step, parts_ns=dict(row.parts))
            for row in analysis.step_parts
        ],
        "steps_told_by": step_source(analysis.trace, analysis.steps) or None,
        "idle_by_cause": [
            filled(
                IdleOutput,
                idle,
                total_ns=idle.total,
                longest_ns=idle.longest.duration if idle.longest else None,
                longest_start=idle.longest.start if idle.longest else None,
                line=idle.line.source if idle.line else None,
            )
            for idle in idle_by_cause(facts)
        ],
        "idle_counts_all_gaps": counts_all(facts),
        "gaps": [_gap(gap, facts) for gap in analysis.gaps[: report.top or MOST_GAPS]],
        "gaps_total": len(analysis.gaps),
        "communication": msgspec.to_builtins(communication_overlap(facts)),
        "copies": msgspec.to_builtins(copy_overlap(facts)),
        "launches": msgspec.to_builtins(launch_delays(facts)),
        "critical_path_ns": {kind.value: time for kind, time in path.items()} if path else None,
    }


def _gap(gap: Gap, facts: Facts) -> GapOutput:
    steps = trace_steps.or_none(facts)
    place = gap_place(gap, steps) if steps else None
    return filled(GapOutput, gap, place, phase=gap.phase or None)


def encode(report: Report) -> str:
    """One object, indented; times are integer nanoseconds, shares 0 to 1, unknown is null.

    Characters that a terminal acts on are written as JSON escapes."""
    return encode_object(as_object(report))


def as_object(report: Report) -> ReportOutput:
    """The report as plain values."""
    diagnosis, facts, run = report.diagnosis, report.facts, report.subject.run
    # msgspec leaves out fields with defaults that an older version did not write.
    manifest: Any = msgspec.to_builtins(asdict(run.manifest)) if run else None
    training, profiled, workers = main_thread(facts), window_thread(facts), loader_lines(facts)
    return filled(
        ReportOutput,
        report,
        schema=SCHEMA,
        path=report.subject.name,
        run=manifest,
        steps=_steps(report),
        verdict=diagnosis.top.headline if diagnosis.top else None,
        progress=diagnosis.waits_for or None,
        findings=[finding_object(finding, report) for finding in diagnosis.findings],
        fixes=[fix_object(fix, report.diagnosis) for fix in report.fixes],
        next=next_command(report),
        compare=comparison_command(report),
        not_judged=msgspec.to_builtins(diagnosis.abstentions),
        step_breakdowns=[
            {
                "source": "run" if breakdown.of_run else "trace",
                "steps": breakdown.count,
                "step_ns": breakdown.mean,
                "parts_ns": dict(breakdown.parts),
            }
            for breakdown in report.breakdowns
        ],
        main_thread=_lines_of(training) if training else None,
        main_thread_in_windows=_lines_of(profiled) if profiled else None,
        syncs=msgspec.to_builtins(syncs(facts)),
        workers={
            "busy_share": workers.busy,
            "collate_share": workers.collate,
            **_lines_of(workers.making),
        }
        if workers
        else None,
        main_thread_in_gaps=[
            {"cause": gaps.cause, "idle_ns": gaps.idle, **_lines_of(gaps.thread)}
            for gaps in gap_lines(facts)
        ],
        operators=msgspec.to_builtins(report.ops),
        trace=trace_object(report),
        ranks=_ranks(report),
        kernel_metrics=msgspec.to_builtins(report.metrics, enc_hook=str),
        recording=_recording(report),
    )


def _steps(report: Report) -> StepsOutput | None:
    share = step_breakdown(report.facts)
    if share is None:
        return None
    rows = report.facts.steps
    return filled(
        StepsOutput,
        share,
        kind=step_kind(report.facts),
        recorded=step_count(report.facts),
        steady=share.count,
        mean_ns=share.mean,
        p5_ns=share.p5,
        p50_ns=share.p50,
        p95_ns=share.p95,
        rows={column.name: rows[column.name].tolist() for column in rows.columns},
    )


def _lines_of(thread: LinesByTime) -> LinesOutput:
    lines: Any = [
        {**msgspec.to_builtins(line), "share": thread.share(line)} for line in thread.lines
    ]
    return {"covered_ns": thread.covered, "samples": thread.samples, "lines": lines}


def _ranks(report: Report) -> RanksOutput | None:
    """Ranks side by side, and the one that holds up the others; None where one process trains, and
    where the traces of others are not open."""
    facts, run = report.facts, report.subject.run
    traced = traced_ranks.or_none(facts)
    if traced is None and (run is None or run.world < 2):
        return None
    table = table_of_ranks(facts)
    rows: Any = [{**msgspec.to_builtins(row), "parts": dict(row.parts)} for row in table.rows]
    return {
        "rows": rows,
        "slow_rank": msgspec.to_builtins(slow_rank.or_none(facts)),
        "collectives_ns": msgspec.to_builtins(
            {rank.rank: rank.collective_time for rank in traced.each}
            if traced
            else collectives_of_ranks.or_none(facts)
        ),
        "waits_ns": _waits(facts),
        "spread": table.spread,
        "shown": traced.shown if traced else report.subject.rank,
    }


def _waits(facts: Facts) -> dict[int, dict[int, int]] | None:
    """Waits in ns by the waiting rank and the rank it waits for; None if unknown."""
    waits = waits_of_ranks.or_none(facts)
    if waits is None:
        return None
    ranks = waits.compared
    return {
        rank: {late: waits.between(rank, late) for late in ranks if late != rank} for rank in ranks
    }


def _recording(report: Report) -> Any:
    if report.recording is None:
        return None
    memory = gpu_memory(report.facts)
    return filled(
        RecordingOutput,
        report.recording,
        cost=msgspec.to_builtins(recording_cost(report.facts)),
        phases=msgspec.to_builtins(device_phases(report.facts)),
        memory=memory
        and {
            "allocated": int(memory.allocated[-1]),
            "reserved": int(memory.reserved[-1]),
            "peak": memory.peak_allocated,
            "retries": memory.retries or 0,
            "failures": memory.failures or 0,
        },
    )
