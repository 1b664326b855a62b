"""How a trial by pairs of runs stands, for the screens that show it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from perftui.experiments.trial.trial import Pair, Progress
    from perftui.experiments.trial.verdict import TrialVerdict
    from perftui.fixes.model import FixOption

FIRST_RUNS, PAIR_RUNS = 3, 2
"""Runs until the first pair is there, of which the very first is not counted; and until another."""


class Stage(enum.Enum):
    """How far a trial has come."""

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


@dataclass(frozen=True)
class TrialState:
    """A trial at one moment. Times are seconds of a clock that nobody sets."""

    root: Path
    """The run that the fix was offered for."""
    option: FixOption
    steps: int
    """Steps of each run."""
    began: float
    run_seconds: float | None = None
    """How long each run takes, by the one that was recorded; None where that is not known."""
    stage: Stage = Stage.RUNNING
    progress: Progress | None = None
    counted: float | None = None
    """When the newest run was over that finds the number of workers, before all pairs."""
    last_pair: float | None = None
    """When the newest pair was there."""
    ended: float | None = None
    problem: str = ""
    """Why it failed, or what went wrong beside it."""

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
        from perftui.experiments.trial.paired import next_look

        count = len(self.pairs)
        return next_look(count) or count

    def elapsed(self, now: float) -> float:
        """Seconds since it began, until its end where it has ended."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)

    def left(self, now: float) -> float | None:
        """About how many seconds until the next look, by the runs so far; None where nothing
        tells. A pair that takes longer than those before makes it more."""
        count = len(self.pairs)
        runs = PAIR_RUNS if count else FIRST_RUNS
        first = self.began if self.counted is None else self.counted
        since = now - (first if self.last_pair is None else self.last_pair)
        each = self.run_seconds
        if self.last_pair is not None:
            each = (self.last_pair - first) / (FIRST_RUNS + PAIR_RUNS * (count - 1))
        if each is None:
            return None
        each = max(each, since / runs)
        return max(0.0, runs * each - since) + PAIR_RUNS * each * max(0, self.look - count - 1)
