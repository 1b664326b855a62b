"""Trials by pairs of runs, and what they proved."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.actions.experiment import Experiment, first_stage

if TYPE_CHECKING:
    from perftui.experiments.progress import NextRun, Progress
    from perftui.fixes.model import FixOption
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.trial_plan import TrialPlan
    from perftui_tui.dialogs.experiment import View
    from perftui_tui.reading.trial_state import TrialState


class PairedTrials(Experiment["TrialState"]):
    """A fix held against the training as it is, until it is known what it gains."""

    def start(self, run: RunSnapshot, option: FixOption, plan: TrialPlan) -> None:
        """Try ``option`` on the training of ``run``, which is stopped first where it goes on.

        Raises:
            ValueError: the plan says that there can be no trial.
        """
        from perftui_tui.reading.trial_state import TrialState

        if plan.steps is None:
            raise ValueError(plan.why_not)
        state = TrialState(
            option,
            plan.steps,
            plan.run_seconds,
            plan.pairs_of_run,
            numbers_of_workers=plan.numbers_of_workers,
            recorded_step_ns=plan.step_ns,
            root=run.root,
            began=self.clock(),
            stage=first_stage(run.root),
        )
        self.begin(state, lambda cancelled: self._go_through(run, state, cancelled))

    @property
    def view(self) -> View[TrialState]:
        """How it is shown."""
        from perftui_tui.dialogs.experiment import TRIAL

        return TRIAL

    def subject(self, state: TrialState) -> str:
        """The fix that was tried."""
        return state.option.title

    def take(self, answer: str | None, state: TrialState) -> None:
        """Write the fix, where that was chosen."""
        from perftui_tui.dialogs.experiment import WRITE

        if answer == WRITE:
            self.source_fixes.write(state.option, self.view.result(state)[0])

    # On the thread of the trial

    def _go_through(self, run: RunSnapshot, state: TrialState, cancelled: threading.Event) -> None:
        from perftui.experiments.trial import trial
        from perftui.run.layout import trials_of

        directory = trials_of(run.root)
        self.await_training(run.root, cancelled)
        made = trial(run, state.option, directory, state.steps, cancelled, began=self._begin_run)
        for progress in made:
            option = progress.option or state.option
            self.set(progress=progress, option=option)
            self._keep(run.root, option, directory, progress)

    def _begin_run(self, following: NextRun) -> None:
        if self.state is not None:
            now = self.state.begin_run(following, self.clock())
            self.set(run=now.run, run_began=now.run_began, made=now.made)

    def _keep(self, root: Path, option: FixOption, directory: Path, progress: Progress) -> None:
        from perftui.experiments.proof import keep_proof

        try:
            proof = keep_proof(option, progress, directory, time.time_ns())
        except OSError as error:
            self.set(problem=f"the result cannot be saved: {error.strerror or error}")
            return
        if progress.option is not None:
            self.proofs.change(root, option)
        if proof is not None:
            self.proofs.add(root, proof)
        self.has_news = True
