"""The runs of a trial: in which order, how long, what counts of each, and how the trial stands."""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from pathlib import Path
from statistics import median

from perftui import format as fmt
from perftui.experiments.files_of_trials import restore
from perftui.experiments.trial_verdict import (
    FEWEST_STEPS,
    LossCheck,
    TrialVerdict,
    check_losses,
    judge,
)
from perftui.facts.cpu.machine import GpuCard, busy_host, cards
from perftui.facts.data_loader.loader import CurvePoint
from perftui.facts.fact import Facts, notes_of
from perftui.facts.gpu.cards import PeakMemory, peak_memory
from perftui.facts.step.steps import steady_rows, steady_span, steady_step
from perftui.fixes.option import FixOption
from perftui.recorder.launch import Launch, start
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Status, StopReason, run_state, wait_until_over
from perftui.run.reader import RunReader, RunSnapshot
from perftui.telemetry.gpu.names import THERMAL

RUN_SECONDS = 5.0
"""Steady time of each run, where the training is long enough."""

WARM_UP = 30
"""Steps beside the steady ones: by experience the first few epochs of a loader, and compilation."""

LOSSES = 20
"""Steps of each run whose losses are compared: most fixes that go wrong show at once."""

MANY_STEPS = 2_000
"""Steady steps beyond which more of them tell nothing new."""


class Arm(str, enum.Enum):
    """The training as it is, and with the change."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial that is over."""

    arm: Arm
    root: Path
    step_ns: int
    """Time of a training step, with whatever the script does between steps."""
    losses: tuple[float, ...] = ()
    """Losses of the first steps, each the sum over its backward passes."""
    start_ns: int | None = None
    """ns until its steps were steady, without their time; None where that is not known."""
    memory: PeakMemory | None = None
    disturbed: str = ""
    """What disturbed the run; empty where nothing is known to."""
    clock: float | None = None
    """Mean clock of its GPU over the highest; None where that was not sampled."""


def order() -> Iterator[tuple[Arm, Arm]]:
    """Pairs without end, every other one reversed, so that steady changes, such as the heat of the
    machine, cancel out."""
    return cycle(((Arm.BEFORE, Arm.AFTER), (Arm.AFTER, Arm.BEFORE)))


def runs_of(pairs: int, pairs_of_run: int | None = None) -> int:
    """Number of runs for ``pairs``: one before all others and two each, or fewer where a run has
    several pairs of blocks."""
    return 1 + 2 * pairs if pairs_of_run is None else math.ceil(pairs / pairs_of_run)


def steps_of_each(run: Facts, seconds: float | None = None) -> int:
    """Steps that each run of a trial should make, by a recorded run: ``seconds`` of steady ones, by
    default ``RUN_SECONDS``."""
    wanted = round((seconds or RUN_SECONDS) * 1e9 / max(steady_step(run).mean, 1))
    return WARM_UP + min(max(wanted, FEWEST_STEPS), MANY_STEPS)


def shortened(launch: Launch, runs: Path, steps: int) -> Launch:
    """``launch`` for a trial: so many steps, without windows and samples, kept in ``runs``;
    what it writes to is given back by ``restore``."""
    options = replace(
        launch.options, profile=False, max_steps=steps, spares_files=True, losses=LOSSES
    )
    return replace(launch, runs=runs, options=options, stack_samples_per_second=0)


def step_time(run: Facts) -> int | None:
    """Time from one steady step to the next, ns, evaluation and saving between them included; None
    where there are too few steps."""
    rows = steady_rows(run)
    if len(rows) < FEWEST_STEPS:
        return None
    last = rows["start"].argmax()
    span = int(rows["start"][last] + rows["duration"][last]) - int(rows["start"].min())
    return span // len(rows)


def noise(runs: list[TrialRun]) -> float | None:
    """The median difference of consecutive runs of the same arm, as a share; None without any."""
    in_turn = [
        (run.step_ns, after.step_ns) for run, after in pairwise(runs) if run.arm is after.arm
    ]
    return spread(in_turn)


def spread(series: Iterable[Sequence[int]]) -> float | None:
    """The median difference between consecutive step times of each series, as a share; None without
    two."""
    alike = [abs(math.log(first / second)) for steps in series for first, second in pairwise(steps)]
    return math.expm1(median(alike)) if alike else None


STOP_SECONDS = 60.0
"""Seconds that a training may take to stop: it may be saving a checkpoint."""


class TrialError(RuntimeError):
    """The trial cannot go on, as a run failed or is too short to judge; the message says why."""


class TrialCancelledError(RuntimeError):
    """Nobody waits for the trial any more, as ``cancelled`` was set; its training was stopped."""


def run_to_end(launch: Launch, cancelled: threading.Event) -> tuple[Path, Manifest]:
    """Run ``launch`` to its end and give back what it wrote to; its directory and manifest."""
    root = start(launch)
    try:
        manifest = wait_until_over(root, float("inf"), cancelled)
    finally:
        # Also where the wait is interrupted: the training is asked to end, and waited for.
        if not run_state(root).status.is_over:
            request(RunLayout(root), STOP, reason=StopReason.USER)
            wait_until_over(root, STOP_SECONDS)
        restore(root)
    if cancelled.is_set():
        raise TrialCancelledError
    return root, manifest


def run_at(root: Path) -> RunSnapshot:
    """The run in the directory ``root``."""
    return RunReader(root).poll()


def facts_of(root: Path) -> Facts:
    """The facts of the run in ``root``, without its windows."""
    return Facts(run_at(root), None)


def run_seconds(run: Facts, steps: int) -> float | None:
    """Seconds that a run of ``steps`` steps takes, with its start, by a recorded run; None where
    that is not known."""
    steady, start = steady_step.or_none(run), start_ns(run)
    return None if steady is None or start is None else (start + steps * steady.mean) / 1e9


def start_ns(run: Facts) -> int | None:
    """ns from the start of the command to steady steps, without the time that as many steady steps
    take: imports, making of the model, compilation; None where that is not known."""
    steady, span = steady_step.or_none(run), steady_span.or_none(run)
    if steady is None or span is None or run.manifest is None:
        return None
    warming_up = int((run.steps["start"] < span[0]).sum())
    return max(0, round(span[0] - run.manifest.started_ns - warming_up * steady.mean))


HOT = 0.05
"""Share of the samples in which heat has to hold clocks down to be told."""

CLOCKS_APART = 0.03
"""Share by which the clocks of both arms have to differ to be told: as much as a gain worth it."""

OTHERS = 1 << 30
"""Bytes of a card that other processes hold: a context alone takes half of that."""


def disturbance(run: Facts) -> str:
    """What disturbed one run; empty where nothing is known to."""
    if busy := busy_host(run):
        return f"the host was busy: {busy}"
    return next(filter(None, map(_of_card, cards(run))), "")


def clock(run: Facts) -> float | None:
    """Mean clock of the slowest card of a run over its highest, while it computed; None where that
    was not sampled."""
    return min((card.clock for card in cards(run) if card.clock is not None), default=None)


def disturbance_notes(runs: Sequence[TrialRun]) -> tuple[str, ...]:
    """Notes on the ``runs`` of a trial, for a person."""
    disturbed = [run.disturbed for run in runs if run.disturbed]
    notes = []
    if disturbed:
        part = f"in {len(disturbed)} of {fmt.several(len(runs), 'run')}"
        notes.append(f"{disturbed[-1]} ({part})")
    return (*notes, *_clocks(runs))


def _of_card(card: GpuCard) -> str:
    others = card.memory_others or 0.0
    if (card.held_down(THERMAL) or 0.0) >= HOT:
        return f"heat throttled the clocks of {card.name}"
    return f"other processes hold {fmt.size(others)} of {card.name}" if others >= OTHERS else ""


def _clocks(runs: Sequence[TrialRun]) -> tuple[str, ...]:
    """A note where both arms did not run at the same clock."""
    before, after = (
        [run.clock for run in runs if run.arm is arm and run.clock is not None] for arm in Arm
    )
    if not before or not after:
        return ()
    old, new = median(before), median(after)
    if abs(new / old - 1) < CLOCKS_APART:
        return ()
    told_clocks = f"{fmt.percent(old)} of its maximum before and {fmt.percent(new)} after"
    return (f"the GPU's clock was {told_clocks} the change",)


def losses(facts: Facts) -> tuple[float, ...]:
    """Losses of the first steps of the rank that went backward, in order, each the sum over its
    backward passes; empty where they were not kept, or were not single numbers. A loss that was
    not finite is nan or infinite."""
    notes = notes_of(facts.events, "losses")
    values = notes[0].get("values") if notes else None
    return tuple(map(float, values)) if isinstance(values, list) else ()


LATER = 1e9
"""ns by which the start has to be later to be told: imports alone differ by tenths of a second."""

MORE = 0.05
"""Share by which the memory has to differ to be told."""


@dataclass(frozen=True)
class Costs:
    """Medians over the runs of each arm; None if not recorded."""

    start_before_ns: int | None = None
    start_after_ns: int | None = None
    """ns from the start of the command to steady steps, without the time of those steps."""
    break_even_steps: int | None = None
    """Steps after which a later start is made up for; None where it is not later, or never is."""
    memory_before: int | None = None
    memory_after: int | None = None
    """Peaks, bytes: of the GPU, or where there is none of all processes."""
    is_gpu_memory: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is worth telling a person."""
        return tuple(filter(None, (self._start(), self._memory())))

    def _start(self) -> str:
        before, after = self.start_before_ns, self.start_after_ns
        if before is None or after is None or after - before < LATER:
            return ""
        later = f"starts {fmt.duration(after - before)} later"
        if self.break_even_steps is None:
            return later
        return f"{later}, made up for after {self.break_even_steps:,} steps"

    def _memory(self) -> str:
        before, after = self.memory_before, self.memory_after
        if before is None or after is None or abs(after / before - 1) < MORE:
            return ""
        where = "of the GPU" if self.is_gpu_memory else "of all processes"
        return f"peak memory {where} {fmt.size(before)} -> {fmt.size(after)}"


def costs_of(runs: Sequence[TrialRun]) -> Costs:
    """The costs that the ``runs`` of a trial show."""
    arms = [[run for run in runs if run.arm is arm] for arm in Arm]
    before, after = (_middle([run.start_ns for run in arm]) for arm in arms)
    break_even = None
    if before is not None and after is not None and after - before >= LATER:
        old, new = (median(run.step_ns for run in arm) for arm in arms)
        break_even = round((after - before) / (old - new)) if old > new else None
    old_size, new_size = (
        _middle([run.memory.size if run.memory else None for run in arm]) for arm in arms
    )
    is_gpu = any(run.memory is not None and run.memory.is_gpu for run in runs)
    return Costs(before, after, break_even, old_size, new_size, is_gpu_memory=is_gpu)


def _middle(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return round(median(numbers)) if numbers else None


@dataclass(frozen=True)
class Pair:
    """Two runs, or two blocks of one, and how many times as fast the changed one was."""

    before: TrialRun
    after: TrialRun

    @property
    def ratio(self) -> float:
        """Step before over step after."""
        return self.before.step_ns / self.after.step_ns


NO_LOSSES = check_losses((), ())
"""Before the first pair."""


@dataclass(frozen=True)
class Progress:
    """A trial so far."""

    pairs: tuple[Pair, ...]
    verdict: TrialVerdict
    noise: float | None = None
    """Share by which runs of the same arm differ."""
    changes: tuple[str, ...] = ()
    """Arguments that are in force and differ."""
    notes: tuple[str, ...] = ()
    losses: LossCheck = NO_LOSSES
    costs: Costs = field(default_factory=Costs)
    workers: tuple[CurvePoint, ...] = ()
    """Steps with several numbers of loader workers, of which the best is tried; empty for other
    fixes, and where the number was measured before."""
    block_steps: int | None = None
    """Steps of each block where pairs are blocks within runs; None where they are runs."""
    option: FixOption | None = None
    """The option that is tried, where it is another than the one that was asked for."""


NO_PAIRS = Progress((), judge(()))
"""Before the first pair."""


class Purpose(str, enum.Enum):
    """What a run of a trial is for."""

    WORKERS = "workers"
    """To find the number of loader workers, before all pairs."""
    WARM_UP = "warm-up"
    """To have files and caches warm for the others; its time does not count."""
    PAIR = "pair"
    BLOCKS = "blocks"
    """Pairs of blocks within one run."""
    LOSSES = "losses"
    """To see whether losses repeat without the change."""


@dataclass(frozen=True)
class NextRun:
    """A run that is about to be started."""

    purpose: Purpose
    pair: int = 1
    """The pair that it belongs to, or with blocks the first of its pairs; counted from 1."""
    arm: Arm = Arm.BEFORE
    workers: int = 0
    """Workers that are tried."""
    further: int = 0
    """At most so many runs follow that try other numbers of workers."""

    @property
    def is_of_runs(self) -> bool:
        """Whether pairs are by now made of runs, not of blocks within them."""
        return self.purpose in (Purpose.WARM_UP, Purpose.PAIR)

    @property
    def before_pairs(self) -> str:
        """The purpose in a few words, where the run belongs to no pair; else empty."""
        if self.purpose is Purpose.WORKERS:
            return f"trying {fmt.several(self.workers, 'worker')}"
        return "warm-up run" if self.purpose is Purpose.WARM_UP else ""

    @property
    def text(self) -> str:
        """The purpose, for a person."""
        if self.purpose is Purpose.WORKERS:
            return self.before_pairs
        if self.purpose is Purpose.WARM_UP:
            return f"{self.before_pairs}, not counted"
        if self.purpose is Purpose.PAIR:
            way = "with" if self.arm is Arm.AFTER else "without"
            return f"pair {self.pair}, the run {way} the fix"
        if self.purpose is Purpose.BLOCKS:
            return "a run that switches the fix on and off"
        return "another run without the fix, to compare losses"


@dataclass(frozen=True)
class TrialSetup:
    """How the runs of a trial are made."""

    directory: Path
    """Where they are kept."""
    steps: int
    """The length of each."""
    cancelled: threading.Event
    began: Callable[[NextRun], object] = lambda _: None
    """Called before each run."""

    def measure(self, arm: Arm, launch: Launch, run: NextRun | None = None) -> TrialRun:
        """One run of ``launch`` to its end, announced as ``run``."""
        if run is not None:
            self.began(run)
        root, manifest = run_to_end(shortened(launch, self.directory, self.steps), self.cancelled)
        if manifest.status is not Status.EXITED or manifest.exit_code:
            code = "" if manifest.exit_code is None else f" with exit code {manifest.exit_code}"
            raise TrialError(f"a run {arm.value} the change ended{code}: see {root}")
        facts = facts_of(root)
        step_ns = step_time(facts)
        if step_ns is None:
            raise TrialError(f"a run {arm.value} the change had too few steps to judge: see {root}")
        return TrialRun(
            arm,
            root,
            step_ns,
            losses(facts),
            start_ns(facts),
            peak_memory.or_none(facts),
            disturbance(facts),
            clock(facts),
        )
