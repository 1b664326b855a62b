"""How a trial stands: the run that comes next, its pairs, and what the change costs besides."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from perftui import format as fmt
from perftui.experiments.trial_runs import Arm, TrialRun
from perftui.experiments.verdict import LossCheck, TrialVerdict, check_losses, judge
from perftui.fixes.model import FixOption
from perftui.run.worker_curve import CurvePoint

LATER = 1e9
"""ns by which the start has to be later to be told: imports alone differ by tenths of a second."""

MORE = 0.05
"""Share by which the memory has to differ to be told."""


@dataclass(frozen=True)
class Costs:
    """Medians over the runs of each arm; None if not recorded."""

    start_before_ns: int | None = None
    start_after_ns: int | None = None
    """From the start of the command to where steps are steady, without the time of those steps."""
    break_even_steps: int | None = None
    """Steps after which a later start is made up for; None where it is not later, or never is."""
    memory_before: int | None = None
    memory_after: int | None = None
    """Peaks, bytes: of the GPU, or where there is none of all processes."""
    is_gpu_memory: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is worth a word, for a person."""
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
        of = "of the GPU" if self.is_gpu_memory else "of all processes"
        return f"peak memory {of} {fmt.size(before)} -> {fmt.size(after)}"


NO_COSTS = Costs()
"""Before the first pair."""


def costs_of(runs: Sequence[TrialRun]) -> Costs:
    """What the ``runs`` of a trial tell."""
    before, after = ([run for run in runs if run.arm is arm] for arm in Arm)
    start_before, start_after = (_middle([run.start_ns for run in arm]) for arm in (before, after))
    return Costs(
        start_before,
        start_after,
        _break_even(before, after, start_before, start_after),
        _middle([run.memory.size if run.memory else None for run in before]),
        _middle([run.memory.size if run.memory else None for run in after]),
        is_gpu_memory=any(run.memory is not None and run.memory.is_gpu for run in runs),
    )


def _break_even(
    before: Sequence[TrialRun],
    after: Sequence[TrialRun],
    start_before: int | None,
    start_after: int | None,
) -> int | None:
    if start_before is None or start_after is None or start_after - start_before < LATER:
        return None
    steps = [median(run.step_ns for run in arm) for arm in (before, after)]
    gained = steps[0] - steps[1]
    return round((start_after - start_before) / gained) if gained > 0 else None


def _middle(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(median(known)) if known else None


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
    """By how much runs of the same arm differ, as a share."""
    changes: tuple[str, ...] = ()
    """Arguments that are in force and differ."""
    notes: tuple[str, ...] = ()
    losses: LossCheck = NO_LOSSES
    costs: Costs = NO_COSTS
    workers: tuple[CurvePoint, ...] = ()
    """Steps with several numbers of loader workers, of which the best is tried; empty for other
    fixes, and where the number was measured before."""
    block_steps: int | None = None
    """Steps of each block where pairs are blocks within runs; None where they are runs."""
    option: FixOption | None = None
    """What is tried, where that is another change than the one that was asked for."""


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
        """Whether pairs are made of runs by now, not of blocks within them."""
        return self.purpose in (Purpose.WARM_UP, Purpose.PAIR)

    @property
    def before_pairs(self) -> str:
        """What it is for in a few words, where it belongs to no pair; else empty."""
        if self.purpose is Purpose.WORKERS:
            return f"trying {fmt.several(self.workers, 'worker')}"
        return "warm-up run" if self.purpose is Purpose.WARM_UP else ""

    @property
    def text(self) -> str:
        """What it is, for a person."""
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


Began = Callable[[NextRun], object]
"""Called before each run."""


def unseen(_: NextRun) -> None:
    """For whoever does not follow the runs."""
