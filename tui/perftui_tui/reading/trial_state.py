"""How a trial by pairs stands, for the screens that show it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perftui_tui.reading.experiment_state import ExperimentState

if TYPE_CHECKING:
    from perftui.experiments.progress import NextRun, Pair, Progress
    from perftui.experiments.verdict import TrialVerdict
    from perftui.fixes.model import FixOption


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
