"""How far a trial, a tuning or a probe has come, for the screens that show it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.experiments.journal import Attempt, Journal
    from perftui.experiments.trial_runs import NextRun, Pair, Progress
    from perftui.experiments.verdict import TrialVerdict
    from perftui.fixes.model import FixOption
    from perftui.probe.ceilings import Ceilings


class Stage(enum.Enum):
    """How far it has come."""

    WAITING = "waiting"
    """For the end of a training that was running."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It was asked to stop, and its training has not ended yet."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self in (Stage.DONE, Stage.STOPPED, Stage.FAILED)


@dataclass(frozen=True, kw_only=True)
class ExperimentState:
    """A trial or a tuning at one moment. Times are seconds of a clock that nobody sets."""

    root: Path
    """The run that it was begun from."""
    began: float
    stage: Stage = Stage.RUNNING
    ended: float | None = None
    problem: str = ""
    """Why it failed, or what went wrong beside it."""

    def elapsed(self, now: float) -> float:
        """Seconds since it began, until its end where it has ended."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


@dataclass(frozen=True)
class TrialState(ExperimentState):
    """A trial of one fix."""

    option: FixOption
    steps: int
    """Steps of each run."""
    run_seconds: float | None = None
    """How long each run takes, by the one that was recorded; None where that is not known."""
    pairs_of_run: int | None = None
    """Pairs of blocks that each run is to have; None where a pair takes two runs."""
    progress: Progress | None = None
    numbers_of_workers: int = 0
    """At most so many numbers of workers are tried first, in runs of their own."""
    recorded_step_ns: float | None = None
    """Mean step of the run that was recorded; None where that is not known."""
    most_pairs: int | None = None
    """Pairs after which it ends, clear or not; None for as many as a trial has at most."""
    run: NextRun | None = None
    """The run that is made now; None before the first."""
    run_began: float = 0.0
    made: tuple[tuple[NextRun, float], ...] = ()
    """The runs so far, oldest first, with the seconds that each took."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs so far, oldest first."""
        return self.progress.pairs if self.progress else ()

    @property
    def verdict(self) -> TrialVerdict | None:
        """What they come to; None before the first."""
        return self.progress.verdict if self.progress and self.pairs else None

    @property
    def look(self) -> int:
        """The number of pairs at which the result is looked at next, or was looked at last."""
        # Every screen reads this file before its first frame, which must not load more than it.
        from perftui.experiments.verdict import next_look

        # Where blocks did not tell, pairs of runs begin anew.
        in_blocks = self.progress is not None and self.progress.block_steps is not None
        count = 0 if in_blocks and not self.makes_blocks else len(self.pairs)
        return next_look(count) or count

    @property
    def last_look(self) -> int:
        """The number of pairs after which it ends at the latest."""
        from perftui.experiments.verdict import LOOKS

        return self.most_pairs or LOOKS[-1][0]

    @property
    def makes_blocks(self) -> bool:
        """Whether pairs are blocks within runs now."""
        of_runs = self.run is not None and self.run.is_of_runs
        return self.pairs_of_run is not None and not of_runs

    def begin_run(self, following: NextRun, now: float) -> TrialState:
        """The trial once the run before is over and the ``following`` begins."""
        made = self.made
        if self.run is not None:
            made = (*made, (self.run, now - self.run_began))
        return replace(self, run=following, run_began=now, made=made)


@dataclass(frozen=True)
class TuningState(ExperimentState):
    """A tuning: one fix after the other, and what is proven stays."""

    steps: int
    """Steps of each run."""
    run_seconds: float | None = None
    """How long each run takes, by the one that was recorded; None where that is not known."""
    budget: float | None = None
    """Seconds after which no further fix is begun; None where all are tried."""
    journal: Journal | None = None
    """What was tried so far; None before that is known."""
    trial: TrialState | None = None
    """The fix that is tried now, at the end all that was kept; None in between."""
    keeping: str = ""
    """The fix that is proven, while the training is recorded with it."""
    final: Progress | None = None
    """All that was kept against the training as it was, once that is measured."""

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The fixes that were tried, in order."""
        return self.journal.attempts if self.journal else ()

    @property
    def kept(self) -> tuple[Attempt, ...]:
        """Those of them that stay."""
        return self.journal.kept if self.journal else ()

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that were written."""
        return self.journal.files if self.journal else ()


@dataclass(frozen=True)
class ProbeState(ExperimentState):
    """A measurement of the peak rates of this machine."""

    path: Path
    """What the disk is read below."""
    names: tuple[str, ...] = ()
    """The rates that were measured at least once, in order."""
    found: Ceilings | None = None
    kept: Path | None = None
    """Where they are kept; None where nothing is."""
