"""Everything the rules read, gathered once from a run, a trace, or both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.facts.lines import LinesByTime, looks_at_main
from perftui.facts.loader import LoaderFacts, training_loader
from perftui.facts.loader_restarts import Restarts, restarts
from perftui.facts.loader_work import LoaderWork, loader_work
from perftui.facts.machine import MachineFacts, machine_facts
from perftui.facts.main_thread import (
    GapLines,
    batches_in_main,
    lines_of_gaps,
    main_thread,
    profiled,
)
from perftui.facts.problems import problems
from perftui.facts.step_breakdown import StepShare, step_budget
from perftui.facts.step_kind import TRAIN, WORK, count_of, main_kind
from perftui.facts.sync_calls import SyncCalls, sync_calls
from perftui.facts.trace_steps import TraceFacts, trace_facts
from perftui.facts.worker_lines import WorkerLines, worker_lines
from perftui.run.histogram import Weighed
from perftui.run.manifest import Manifest
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.run.stacks import NO_STACKS
from perftui.run.steady import Mask, steady
from perftui.run.sums import NO_SUMS, Group, Sums
from perftui.run.table import Table

MUCH_ELSE = 0.1
"""A training that spends so much of its time on other steps is told: what is said of the training
steps is then not what the run waits for. Of reinforcement learning generation is most."""


@dataclass(frozen=True)
class Evidence:
    """What is known; None stands for what is not."""

    manifest: Manifest | None = None
    """None for a trace without a run."""
    rank: int | None = None
    ranks: int = 1
    """Training processes that have written anything."""
    ranks_here: int = 1
    """Those of them on the host of this one, which share its cores."""
    kind: str = TRAIN
    """What the steps are that are judged: of training, or of what the run does instead."""
    step_count: int = 0
    """Steps of that kind recorded, warm-up and profiled ones included."""
    share: StepShare | None = None
    """Mean steady step of the run by phase of the training thread; None without steady steps."""
    wait_p95: int | None = None
    """95th percentile of the wait for data, ns."""
    restarts: Restarts | None = None
    """What starting a loader again took; None where it was started once or not at all."""
    fetch_cpu: float | None = None
    """Share of the wait for data in which the training thread itself computes, 0 to 1; the rest it
    waits for a disk or a network. None where workers fetch."""
    batches_ready: int | None = None
    """Median number of batches that waited in the loader's queue."""
    micro_batches: int | None = None
    """Median number of batches that a step is made of."""
    loader: LoaderFacts | None = None
    work: LoaderWork | None = None
    """What making the batches of that loader took during the steady steps."""
    machine: MachineFacts = field(default_factory=MachineFacts)
    uses_cuda: bool | None = None
    """Whether PyTorch's CUDA was in use at the end of any step; None before the first step."""
    peak_reserved: int | None = None
    """Most GPU memory PyTorch held at the end of a step, bytes."""
    trace: TraceFacts | None = None
    main_thread: LinesByTime | None = None
    """Where the main thread was over the steady steps; None where too few looks tell."""
    window_thread: LinesByTime | None = None
    """Where it was over the profiled steps, seen from inside; None as above, and where it was seen
    from outside."""
    main_batches: LinesByTime | None = None
    """Where it was of that while it made batches itself; None as above."""
    worker_lines: WorkerLines | None = None
    """Where the workers of that loader were meanwhile; None as above."""
    gap_lines: tuple[GapLines, ...] = ()
    """Where it was while the GPU idled in the window, by cause."""
    syncs: SyncCalls | None = None
    """Calls that make the host wait for the GPU, where they were counted."""
    notes: tuple[str, ...] = ()
    """What the evidence cannot say, in words."""

    @property
    def activity(self) -> str:
        """``training``, ``evaluation`` or ``inference``."""
        return WORK[self.kind]

    @property
    def subject(self) -> str:
        """The same as what a sentence begins with."""
        return "The training" if self.kind == TRAIN else self.activity.capitalize()

    @property
    def has_gpu(self) -> bool | None:
        """Whether the training has a GPU; None where nothing tells."""
        if self.uses_cuda or self.machine.holds_memory or (self.trace and self.trace.has_gpu):
            return True
        if self.manifest is None:
            return None
        # A card in the machine says nothing: many a training there computes on the processor.
        return None if self.manifest.gpus and self.uses_cuda is None else False

    @property
    def steady_steps(self) -> int:
        """Steps the judgement rests on: the run's, or the trace's where there is no run."""
        if self.share:
            return self.share.count
        return self.trace.steps if self.trace and not self.manifest else 0


def gather(run: RunSnapshot | None, analysis: TraceAnalysis | None, rank: int = 0) -> Evidence:
    """Gather evidence on one rank of ``run`` and on ``analysis``, either of which may be absent."""
    facts = trace_facts(analysis) if analysis else None
    notes = analysis.notes if analysis else ()
    snapshot = run.rank(rank) if run else None
    if run is None or snapshot is None:
        said = problems(run) if run else ()
        return Evidence(manifest=run.manifest if run else None, trace=facts, notes=(*notes, *said))
    steps = snapshot.steps
    thinned = snapshot.thinned
    kind = main_kind(steps, thinned)
    mask = steady(steps, kind)
    kept = thinned.steady(kind)
    peak_reserved = _known_peak(steps, "reserved", thinned)
    uses_cuda = peak_reserved is not None if "reserved" in steps and len(steps) else None
    on_gpu = bool(uses_cuda or (facts and facts.has_gpu))
    loader = training_loader(snapshot.events, kind)
    outside, inside = looks_at_main(run, snapshot)
    return Evidence(
        manifest=run.manifest,
        rank=snapshot.rank,
        ranks=run.world,
        ranks_here=len({one.place for one in run.ranks if one.host == snapshot.host}),
        kind=kind,
        step_count=count_of(kind, steps, thinned),
        share=step_budget(steps, mask, thinned, kind),
        wait_p95=_quantile(steps, "input_wait", mask, 95, kept),
        restarts=restarts(steps, mask, thinned, kind),
        fetch_cpu=_fetch_cpu(steps.where(mask), kept),
        batches_ready=_quantile(steps, "batches_ready", mask, 50, kept),
        micro_batches=_quantile(steps, "micro_batches", mask, 50, kept),
        loader=loader,
        work=_work(snapshot, mask, loader),
        machine=_machine(run, snapshot, mask, on_gpu),
        uses_cuda=uses_cuda,
        peak_reserved=peak_reserved,
        trace=facts,
        main_thread=main_thread(outside, steps, mask),
        window_thread=None if len(outside) else main_thread(inside, steps, profiled(steps, kind)),
        main_batches=batches_in_main(outside, steps, mask),
        worker_lines=_worker_lines(snapshot, mask, loader),
        gap_lines=lines_of_gaps((outside, inside), analysis) if analysis else (),
        syncs=sync_calls(snapshot.events),
        notes=(*notes, *_run_notes(run, snapshot, kind)),
    )


def _machine(run: RunSnapshot, snapshot: RankSnapshot, mask: Mask, on_gpu: bool) -> MachineFacts:
    during = _span(snapshot.steps, mask)
    cores = run.manifest.cpu_count or None
    host = snapshot.host or run.manifest.host
    thinned = run.thinned.get(host, NO_SUMS)
    return machine_facts(run.telemetry, host, cores, during, on_gpu, thinned)


def _work(snapshot: RankSnapshot, mask: Mask, loader: LoaderFacts | None) -> LoaderWork | None:
    during = _span(snapshot.steps, mask)
    if loader is None or during is None:
        return None
    return loader_work(snapshot.workers, loader.numbers, during)


def _worker_lines(
    snapshot: RankSnapshot, mask: Mask, loader: LoaderFacts | None
) -> WorkerLines | None:
    during = _span(snapshot.steps, mask)
    if loader is None or during is None:
        return None
    return worker_lines(snapshot.worker_stacks, loader.numbers, during)


def _span(steps: Table, mask: Mask) -> tuple[int, int] | None:
    """(start, end) of the steps that ``mask`` selects; None where it selects none."""
    if not mask.any():
        return None
    chosen = steps.where(mask)
    return int(chosen["start"][0]), int((chosen["start"] + chosen["duration"]).max())


def _quantile(steps: Table, column: str, mask: Mask, percent: int, thinned: Group) -> int | None:
    if column not in steps:
        return None
    values = steps[column][mask]
    known = Weighed(values[values >= 0], thinned.histogram(column))
    return known.nearest_rank(percent) if len(known) else None


def _fetch_cpu(steps: Table, thinned: Group) -> float | None:
    if "input_cpu" not in steps or not len(steps) or int(steps["input_cpu"].min()) < 0:
        return None
    if thinned.of("input_cpu").count < thinned.rows:
        return None
    wait = int(steps["input_wait"].sum()) + int(thinned.of("input_wait").total)
    busy = int(steps["input_cpu"].sum()) + int(thinned.of("input_cpu").total)
    return min(busy / wait, 1.0) if wait else None


def _known_peak(steps: Table, column: str, thinned: Sums) -> int | None:
    if column not in steps or not len(steps):
        return None
    peak = max(int(steps[column].max()), int(thinned.of().of(column).highest))
    return peak if peak >= 0 else None


def _run_notes(run: RunSnapshot, shown: RankSnapshot, kind: str) -> Iterator[str]:
    if kind != TRAIN:
        yield f"no training step was recorded: the steps are those of {WORK[kind]}"
    else:
        yield from _other_steps(shown.steps, shown.thinned)
    if run.world > 1:
        yield f"{run.world} training processes: the diagnosis is that of rank {shown.place}"
    trainings = run.trainings(shown.place)
    if len(trainings) > 1:
        number = f"number {trainings.index(shown) + 1}"
        yield f"{len(trainings)} trainings ran one after the other: the diagnosis is of {number}"
    if run.manifest.profile.get(NO_STACKS):
        yield str(run.manifest.profile[NO_STACKS])
    yield from problems(run)


def _other_steps(steps: Table, thinned: Sums) -> Iterator[str]:
    """What the steps took that train nothing, if that is much."""
    if not len(steps):
        return
    trains = steps["kind"] == TRAIN
    training = int(steps["duration"][trains].sum()) + _thinned_ns(thinned, TRAIN)
    whole = int(steps["duration"].sum()) + _thinned_ns(thinned)
    other = whole - training
    if other > MUCH_ELSE * whole:
        count = len(steps) + thinned.of().rows - count_of(TRAIN, steps, thinned)
        yield (
            f"{fmt.percent(other / whole)} of the time of all steps is that of "
            f"{fmt.several(count, 'step')} without a backward pass (evaluation, generation), "
            f"{fmt.duration(other)}: the diagnosis is of the training steps"
        )


def _thinned_ns(thinned: Sums, kind: str | None = None) -> int:
    return int(thinned.of(kind).of("duration").total)
