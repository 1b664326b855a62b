"""How a trial stands: its pairs, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.experiments.trial.costs import NO_COSTS, Costs
from perftui.experiments.trial.runs import TrialRun
from perftui.experiments.trial.same_losses import LossCheck, check_losses
from perftui.experiments.trial.verdict import TrialVerdict, judge
from perftui.fixes.model import FixOption
from perftui.run.worker_curve import CurvePoint


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
