"""The one immutable picture of a run or a trace that screens draw."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perftui.diagnosis.model import Diagnosis, Finding
from perftui.fixes.option import FixOption
from perftui.run.columns import PHASES
from perftui.run.layout import without_time
from perftui.run.manifest import Manifest, Status

if TYPE_CHECKING:
    from perftui.analysis.memory_categories import MemoryOverTime
    from perftui.analysis.model import TraceAnalysis
    from perftui.experiments.journal import Proof
    from perftui.facts.fact import Fact, Facts
    from perftui.facts.step.steps import StepBreakdown
    from perftui.facts.step.trace_steps import TraceSteps
    from perftui.report.snapshots_and_ncu import MemoryReport
    from perftui.run.reader import RankSnapshot, RunSnapshot
    from perftui.run.table import Table


@dataclass(frozen=True)
class Part:
    """One exclusive part of a step; ``style`` is one of ``PHASES``."""

    name: str
    ns: int
    style: str


@dataclass(frozen=True)
class DrawnStep:
    """The mean step as it is drawn."""

    mean: StepBreakdown
    basis: str
    """The steps it rests on, in words."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the step by the names and styles they are drawn with."""
        return tuple(Part(self.mean.shown(one), ns, style_of(one)) for one, ns in self.mean.parts)

    @property
    def is_step(self) -> bool:
        """False for a trace that marks no steps: then it is all of the trace."""
        return self.mean.of_run or self.mean.count > 0


SHORT_NAMES = {
    "data loader wait": ("loader wait", "wait"),
    "loader start": ("loader",),
    "forward": ("fwd",),
    "backward": ("bwd",),
    "optimizer": ("optim", "opt"),
    "operators": ("ops",),
    "gpu compute": ("compute", "gpu"),
    "exposed communication": ("communication", "comm"),
    "exposed copies": ("copies", "copy"),
    "synchronisation": ("sync",),
    "launch-bound": ("launch",),
    "allocation": ("alloc",),
    "cpu operators": ("cpu ops",),
    "compilation": ("compile",),
    "initialisation": ("init",),
    "queue wait": ("queue",),
}
"""Shorter names, the longest first: a name that is cut cannot be understood."""


def name_within(name: str, room: int) -> str:
    """``name``, or a shorter word for it, in at most ``room`` cells; empty where none fits."""
    return next((word for word in (name, *SHORT_NAMES.get(name, ())) if len(word) <= room), "")


TRACE_STYLES = {
    "gpu compute": "forward",
    "exposed communication": "optimizer",
    "exposed copies": "loader_start",
    "data loader wait": "input_wait",
    "synchronisation": "backward",
    "launch-bound": "loader_start",
    "python": "optimizer",
}
"""Parts of a trace's step have the colours of a run's: both are never shown in one bar."""


def style_of(name: str) -> str:
    """The style of a part of a step, of a run or of a trace."""
    return name if name in PHASES else TRACE_STYLES.get(name, "other")


def of_trace(steps: TraceSteps | None) -> DrawnStep | None:
    """The mean of the steps that findings are about; None where there is no time at all."""
    return DrawnStep(steps.breakdown, _basis(steps)) if steps else None


def _basis(steps: TraceSteps) -> str:
    marked = len(steps.analysis.steps)
    if not marked:
        return "no steps marked in it"
    from perftui.analysis.steps import step_source

    source = step_source(steps.analysis.trace, steps.analysis.steps)
    where = f"derived from the {source}" if source else "in the trace"
    if steps.steps < marked:
        return f"{steps.steps} steady of {marked} steps {where}"
    return "the one step in the trace" if marked == 1 else f"{marked} steps {where}"


JUDGING = "still judging what was recorded"
"""What is said while no finding is sure enough to be told."""

SLOW_RATIO = 1.5
"""A step is slow from this many times the median on."""

T = TypeVar("T")


class Phase(enum.Enum):
    """How far what is shown has come; the value is the word in the header."""

    STARTING = "starting"
    LIVE = "live"
    ENDED = "ended"
    FAILED = "failed"
    KILLED = "killed"
    STOPPED = "stopped"
    """Perftui was asked to stop it."""
    LOST = "lost"
    TRACE = "trace"

    @property
    def is_live(self) -> bool:
        """Whether the training still runs."""
        return self in (Phase.STARTING, Phase.LIVE)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything on screen at one moment. ``run`` is None for a trace, ``analysis`` without one.

    What takes time to work out for a long run is in it, worked out on the reading thread: screens
    only draw."""

    source: Path
    """The run directory or the trace file."""
    phase: Phase
    title: str
    """The script, or the name of the trace file."""
    now_ns: int
    as_of: int | None = None
    """The earlier time that is played, ns since the epoch; None for what is known now."""
    is_judged: bool = True
    """Whether the diagnosis is worked out; a run is shown for some tenths of a second before."""
    is_reading: bool = False
    """Whether the first profiled window is being read: what it shows is not judged yet."""
    run: RunSnapshot | None = None
    rank_number: int = 0
    """The rank of the run that is shown."""
    analysis: TraceAnalysis | None = None
    facts: Facts | None = None
    """Every figure of the run and the trace; None where nothing has been read."""
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    breakdown: DrawnStep | None = None
    step_ms: tuple[float, ...] = ()
    """Durations of the newest steps that are judged, oldest first."""
    train_steps: int = 0
    """Steps so far: of training, or of what a run does that trains nothing."""
    train: Table | None = None
    """The training steps, rows of ``STEP_COLUMNS``; of very many the first and the newest. None
    without a run."""
    problems: tuple[str, ...] = ()
    """Sentences about what could not be read or judged."""
    allocations: MemoryReport | None = None
    """GPU memory by call site, from a snapshot of the allocator; None without one."""
    history: tuple[MemoryOverTime, ...] = ()
    """GPU memory over that snapshot's history, the device with the highest peak first."""
    options: Mapping[str, tuple[FixOption, ...]] = field(default_factory=dict)
    """Fixes of findings, by rule, best first."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Results of trials by pairs of runs, by fix."""

    def ask(self, fact: Fact[T]) -> T | None:
        """The value of ``fact``, None where it is unknown or nothing has been read."""
        return fact.or_none(self.facts) if self.facts is not None else None

    def fixes(self, finding: Finding) -> tuple[FixOption, ...]:
        """The fixes of ``finding``, best first."""
        return self.options.get(finding.rule, ())

    def proof(self, option: FixOption) -> Proof | None:
        """The result of a trial of ``option``; None where that very change was not tried."""
        proof = self.proofs.get(option.fix)
        return proof if proof is not None and proof.is_of(option) else None

    def proof_of(self, finding: Finding) -> Proof | None:
        """The proof of a fix of ``finding`` that gains, or else that none of the possible fixes
        does. None where another one may still gain."""
        possible = [option for option in self.fixes(finding) if option.is_possible]
        proofs = [self.proof(option) for option in possible]
        decided = [proof for proof in proofs if proof is not None and proof.outcome.is_decided]
        faster = next((proof for proof in decided if proof.is_faster), None)
        return faster or (decided[0] if decided and len(decided) == len(possible) else None)

    @property
    def is_memory_alone(self) -> bool:
        """Whether a snapshot of GPU memory is shown, and no times are known."""
        return self.run is None and self.analysis is None and self.allocations is not None

    @property
    def goes_on(self) -> bool:
        """Whether the training runs now, and not only at the time that is played."""
        return self.phase.is_live and self.as_of is None

    @property
    def manifest(self) -> Manifest | None:
        return self.run.manifest if self.run else None

    @property
    def name(self) -> str:
        """The end of the run's id, ``train-7729``, which names the script too; the trace's file."""
        return without_time(self.source.name) if self.run else self.title

    @property
    def rank(self) -> RankSnapshot | None:
        """The rank that is shown, or the first that has written anything."""
        return self.run.rank(self.rank_number) if self.run else None

    @property
    def elapsed_ns(self) -> int:
        """Wall time since the start, until the end where it has ended."""
        manifest = self.manifest
        if manifest is None:
            return 0
        return max(0, (manifest.ended_ns or self.now_ns) - manifest.started_ns)

    @property
    def torch_imported(self) -> bool:
        """Whether the script has come as far as importing torch."""
        rank = self.rank
        if self.manifest is not None and self.manifest.torch_version:
            return True
        return rank is not None and "process" in rank.events["kind"].tolist()


def phase_of(manifest: Manifest) -> Phase:
    """The phase of the run with this manifest."""
    if manifest.stopped:
        return Phase.STOPPED
    if manifest.status is Status.EXITED:
        return Phase.ENDED if manifest.exit_code == 0 else Phase.FAILED
    return {
        Status.STARTING: Phase.STARTING,
        Status.RUNNING: Phase.LIVE,
        Status.KILLED: Phase.KILLED,
        Status.LOST: Phase.LOST,
    }[manifest.status]


class Todo(str, enum.Enum):
    """How far a fix has come, in the word that stands before it."""

    RUN = "WRITTEN"
    WRITE = "PROVEN"
    TRY = "DO THIS"
    LOOK = "TRIED"
    """Nothing is left to try: the result may be of use."""
    NOTHING = "BY HAND"
    """perftui can neither try nor write one here."""


_ORDER = {Todo.RUN: 0, Todo.WRITE: 1, Todo.TRY: 2, Todo.LOOK: 2, Todo.NOTHING: 3}
"""Which of the fixes of one finding is named; of equals the first."""


@dataclass(frozen=True)
class NextThing:
    """A fix, the finding that it is for, and what was measured of it."""

    finding: Finding
    option: FixOption
    proof: Proof | None

    @property
    def by_hand(self) -> str:
        """What to do where perftui cannot make the fix, and why it cannot."""
        from perftui.diagnosis.rules import answer_to

        why = f"; perftui does not write it: {self.option.why_not}" if self.option.why_not else ""
        return f"{answer_to(self.finding)}{why}"

    @property
    def todo(self) -> Todo:
        """How far it has come."""
        if self.option.is_written:
            return Todo.RUN
        if self.proof is not None and self.proof.is_faster:
            return Todo.WRITE
        if not self.option.is_possible:
            return Todo.NOTHING
        return Todo.TRY if self.proof is None else Todo.LOOK


def next_thing(snapshot: Snapshot) -> NextThing | None:
    """The fix to go on with: one that is written, else one that is proven to gain, else the first
    that was not tried, of the first finding or of later ones, else what is known of the first
    finding's. None where no fix is known for that and nothing is written or proven."""
    top, every = snapshot.diagnosis.top, list(_every(snapshot))
    ready = [fix for todo in (Todo.RUN, Todo.WRITE) for fix in every if fix.todo is todo]
    first = [fix for fix in every if fix.finding is top]
    if ready or not first:
        return ready[0] if ready else None
    possible = [fix for fix in first if fix.todo is not Todo.NOTHING]
    later = [fix for fix in every if fix.finding is not top and fix.option.is_triable]
    untried = [fix for fix in (*possible, *later) if fix.proof is None]
    unclear = [fix for fix in possible if fix.proof and not fix.proof.outcome.is_decided]
    return [*untried, *unclear, *possible, *first][0]


def next_try(snapshot: Snapshot) -> NextThing | None:
    """The fix that is tried next where none is chosen: the first that can be and was not yet, else
    the first that can be; where none can be, the first of all."""
    every = list(_every(snapshot))
    triable = [fix for fix in every if fix.option.is_triable]
    untried = [fix for fix in triable if fix.proof is None]
    return next(iter([*untried, *triable, *every]), None)


def best_of(finding: Finding, snapshot: Snapshot) -> NextThing | None:
    """The fix of ``finding`` that has come furthest, or else the best that is possible here; None
    where none is known."""
    return min(_of(finding, snapshot), key=lambda fix: _ORDER[fix.todo], default=None)


def _every(snapshot: Snapshot) -> Iterator[NextThing]:
    for finding in snapshot.diagnosis.findings:
        yield from _of(finding, snapshot)


def _of(finding: Finding, snapshot: Snapshot) -> Iterator[NextThing]:
    for option in snapshot.fixes(finding):
        yield NextThing(finding, option, snapshot.proof(option))
