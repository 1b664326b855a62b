"""How a trial by pairs stands, for the screens that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perftui_tui.reading.experiment_state import ExperimentState

if TYPE_CHECKING:
    from perftui.experiments.trial.progress import Pair, Progress
    from perftui.experiments.trial.verdict import TrialVerdict
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
    counted: float | None = None
    """When the newest run was over that finds the number of workers, before all pairs."""
    last_pair: float | None = None
    """When the newest pair was there."""

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

    def left(self, now: float) -> float | None:
        """About how many seconds until the next look, by the runs so far; None where nothing
        tells. A pair that takes longer than those before makes it more."""
        from perftui.experiments.trial.runs import runs_of

        count, of_run = len(self.pairs), self.pairs_of_run
        if self.progress and self.pairs and self.progress.block_steps is None:
            # Blocks did not tell.
            of_run = None
        made = runs_of(count, of_run) if count else 0
        runs = runs_of(count + 1, of_run) - made
        first = self.began if self.counted is None else self.counted
        since = now - (first if self.last_pair is None else self.last_pair)
        each = self.run_seconds
        if self.last_pair is not None:
            each = (self.last_pair - first) / made
        if each is None:
            return None
        each = max(each, since / runs)
        following = runs_of(max(self.look, count + 1), of_run) - made - runs
        return max(0.0, runs * each - since) + each * following
