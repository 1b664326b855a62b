"""What `report` and `diagnose` print as JSON, and their brief form."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Abstention
from perftui.facts.gpu.gpu import LaunchDelays, Overlap, StreamWork
from perftui.facts.gpu.host_waits import SyncCalls
from perftui.facts.ranks.slow_rank import SlowRank
from perftui.facts.step.steps import DeviceShare
from perftui.report.findings import BriefFinding, FindingOutput, FixOutput
from perftui.report.kernel_metrics import TraceMetrics
from perftui.report.output_text import Command, Ns, Redacted, Schema, Share
from perftui.report.recorded import Recorded, Snapshot
from perftui.report.report import OpRow, Totals
from perftui.run.manifest import Manifest


class DeviceOutput(TypedDict):
    """Activity of one device; times in nanoseconds, ``busy`` is the union over its streams."""

    device: int
    name: str
    kernel_count: int
    kernel_sum: int
    memcpy_count: int
    memcpy_sum: int
    memset_count: int
    memset_sum: int
    start: int
    end: int
    busy: int
    unlinked: int
    idle: int
    span: int


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

    devices: list[DeviceOutput]
    device_properties: Any
    streams: list[StreamWork]
    steps: list[TraceStepOutput]
    steps_told_by: Annotated[
        str | None,
        Meta(description="What the steps are derived from if the trace does not mark them."),
    ]
    idle_by_cause: list[IdleOutput]
    idle_counts_all_gaps: bool
    gaps: list[GapOutput]
    gaps_total: int
    communication: list[Overlap]
    copies: list[Overlap]
    launches: LaunchDelays | None
    critical_path_ns: dict[str, int] | None


Verdict = Annotated[
    str | None, Meta(description="The costliest finding in a sentence, or that it is healthy.")
]
Progress = Annotated[str | None, Meta(description="What is missing, if it is too early to judge.")]
Against = Annotated[
    list[str] | None,
    Meta(description="The command that compares this run with the run it repeats."),
]


class StepsOutput(TypedDict):
    """The steps of a run."""

    kind: Annotated[str, Meta(description="train, eval or infer.")]
    recorded: int
    steady: Annotated[int, Meta(description="Without warm-up and profiled steps.")]
    inconsistent: int
    mean_ns: Ns
    p5_ns: Ns
    p50_ns: Ns
    p95_ns: Ns
    steps_per_second: float
    rows: Annotated[dict[str, list[Any]], Meta(description="By column, a value for each step.")]


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


class CostOutput(TypedDict):
    """Overhead of recording in the steps, nanoseconds."""

    hooks: int
    stalls: int
    slowed: int
    slowed_at_most: int
    whole: int
    total: int
    at_most: int


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
    cost: CostOutput | None
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
    collectives_ns: Annotated[
        dict[int, int | None] | None, Meta(description="Time in collectives, by rank.")
    ]
    waits_ns: Annotated[
        dict[int, dict[int, int]] | None,
        Meta(description="By waiting rank and by the rank it waits for."),
    ]
    spread: float | None
    shown: int


class ReportOutput(TypedDict):
    """`perftui report` and `perftui diagnose`: what a training loses, and its fixes."""

    schema: Schema
    redacted: Redacted
    path: str
    run: Annotated[Manifest | None, Meta(description="What was run; null for a trace.")]
    steps: StepsOutput | None
    verdict: Verdict
    progress: Progress
    findings: list[FindingOutput]
    fixes: Annotated[list[FixOutput], Meta(description="Fixes for the findings, each once.")]
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
    notes: Annotated[
        list[str], Meta(description="What was skipped, and what the evidence cannot show.")
    ]


class BriefReport(TypedDict):
    """`perftui report` and `diagnose` with `--json --brief`: at most 2,000 bytes."""

    schema: Schema
    redacted: Redacted
    path: Annotated[str | None, Meta(description="The run or the trace; null if it is too long.")]
    verdict: Verdict
    progress: Progress
    steps: Annotated[int, Meta(description="Steady steps that this is based on.")]
    step_ns: Annotated[int | None, Meta(description="The mean steady step, nanoseconds.")]
    findings: Annotated[list[BriefFinding], Meta(description="The costliest, three at most.")]
    more_findings: int
    next: Command
    compare: Against
