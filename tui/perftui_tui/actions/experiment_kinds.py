"""Trials by pairs of runs, tunings, and measurements of the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui_tui.actions.experiment import Experiment, first_stage

if TYPE_CHECKING:
    from perftui.experiments.trial_runs import NextRun, Progress
    from perftui.experiments.tune import Event, Trying
    from perftui.fixes.model import FixOption
    from perftui.run.manifest import Manifest
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.trial_plan import TrialPlan
    from perftui_tui.dialogs.experiment import View
    from perftui_tui.reading.experiment_state import ProbeState, TrialState, TuningState


class PairedTrials(Experiment["TrialState"]):
    """A fix held against the training as it is, until it is known what it gains."""

    def start(self, run: RunSnapshot, option: FixOption, plan: TrialPlan) -> None:
        """Try ``option`` on the training of ``run``, which is stopped first where it goes on.

        Raises:
            ValueError: the plan says that there can be no trial.
        """
        from perftui_tui.reading.experiment_state import TrialState

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
        from perftui.experiments.journal import keep_proof

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


class Tuning(Experiment["TuningState"]):
    """What ``perftui tune`` does; its journal lets either go on with what the other began."""

    def offer(self, root: Path, plan: TrialPlan, warnings: Sequence[str]) -> None:
        """Ask how the training of the run at ``root`` is tuned, and do it."""
        from perftui import format as fmt
        from perftui_tui.actions.trial_plan import BUDGET_SECONDS
        from perftui_tui.dialogs.experiment import ALL, BUDGET, TuneDialog

        def answered(answer: str | None) -> None:
            if answer in (ALL, BUDGET):
                self._start(root, plan, BUDGET_SECONDS if answer == BUDGET else None)

        budget = fmt.rough_time(BUDGET_SECONDS)
        self.app.ask(TuneDialog(root, plan.label, budget, plan.note, warnings), answered)

    def _start(self, root: Path, plan: TrialPlan, budget: float | None) -> None:
        """Tune; a training that goes on is stopped first."""
        from perftui_tui.reading.experiment_state import TuningState

        state = TuningState(
            plan.steps or 0,
            plan.run_seconds,
            budget,
            root=root,
            began=self.clock(),
            stage=first_stage(root),
        )
        self.begin(state, lambda cancelled: self._go_through(state, cancelled))

    @property
    def view(self) -> View[TuningState]:
        """How it is shown."""
        from perftui_tui.dialogs.experiment import TUNING

        return TUNING

    def take(self, answer: str | None, state: TuningState) -> None:
        """Open the run recorded last, or take a fix back, where that was chosen."""
        from perftui_tui.dialogs.experiment import OPEN, UNDO

        if answer == OPEN and state.journal is not None:
            self.app.open_run(Path(state.journal.base), is_live=False)
            self.app.action_show("diagnosis")
        elif answer == UNDO:
            self.source_fixes.undo(state.root)

    # On the thread of the tuning

    def _go_through(self, state: TuningState, cancelled: threading.Event) -> None:
        from perftui.experiments.tune import tune
        from perftui.report.tuning import offers
        from perftui.run.layout import trials_of

        root, directory = state.root, trials_of(state.root)
        self.await_training(root, cancelled)
        deadline = time.monotonic() + (float("inf") if state.budget is None else state.budget)
        made = tune(root, directory, state.steps, offers, cancelled, deadline, self._begin_run)
        for event in made:
            self.set(**self._changes(event))
            self._learn(event, directory)

    def _begin_run(self, following: NextRun) -> None:
        trial = self.state.trial if self.state is not None else None
        if trial is not None:
            self.set(trial=trial.begin_run(following, self.clock()))

    def _changes(self, event: Event) -> dict[str, Any]:
        """What ``event`` changes of the state."""
        from perftui.experiments.journal import Journal
        from perftui.experiments.tune import Keeping, Tuned

        if isinstance(event, Journal):
            return {"journal": event, "trial": None, "keeping": ""}
        if isinstance(event, Keeping):
            return {"trial": None, "keeping": event.option.title}
        if isinstance(event, Tuned):
            return {"journal": event.journal, "trial": None, "final": event.final}
        return {"trial": self._trial(event), "keeping": ""}

    def _trial(self, event: Trying) -> TrialState | None:
        """The fix that is tried, with its pairs so far."""
        from perftui.experiments.tune import PAIRS
        from perftui_tui.reading.experiment_state import TrialState

        state, now = self.state, self.clock()
        if state is None:
            return None
        if state.trial is None:
            return TrialState(
                event.option,
                state.steps,
                state.run_seconds,
                progress=event.progress,
                most_pairs=PAIRS,
                root=state.root,
                began=now,
            )
        # The number of workers that is tried may be another than the one that was offered.
        return replace(state.trial, option=event.option, progress=event.progress)

    def _learn(self, event: Event, directory: Path) -> None:
        """Note what was proven, and what was written."""
        from perftui.experiments.journal import read_proof
        from perftui.experiments.tune import Keeping, Trying

        if self.state is None:
            return
        if isinstance(event, Keeping) and event.path is not None:
            self.source_fixes.tuned(self.state.root, event.option.fix)
            self.has_news = True
        if not isinstance(event, Trying):
            return
        if event.progress.option is not None and not self.state.kept:
            self.proofs.change(self.state.root, event.option)
            self.has_news = True
        if event.progress.pairs:
            proof = read_proof(directory, event.option.fix)
            if proof is not None:
                self.proofs.add(self.state.root, proof)
                self.has_news = True


class Probing(Experiment["ProbeState"]):
    """With the interpreter of the run on screen, and the disk that holds its data set."""

    def offer(self, root: Path, manifest: Manifest) -> None:
        """Ask whether the machine is measured, and do it."""
        from perftui.probe.probe import SECONDS
        from perftui.run.manifest import data_place
        from perftui_tui.dialogs.choice import YES
        from perftui_tui.dialogs.experiment import ProbeDialog
        from perftui_tui.reading.experiment_state import ProbeState

        path = Path(data_place(manifest) or manifest.cwd)

        def answered(answer: str | None) -> None:
            if answer == YES:
                state = ProbeState(path, root=root, began=self.clock())
                self.begin(state, lambda cancelled: self._measure(manifest, path, cancelled))

        self.app.ask(ProbeDialog(path, SECONDS), answered)

    @property
    def view(self) -> View[ProbeState]:
        """How it is shown."""
        from perftui_tui.dialogs.experiment import PROBE

        return PROBE

    def done(self, state: ProbeState) -> None:
        """Read the run again: its meters have scales now."""
        if state.root == self.app.target:
            self.app.open(state.root)

    # On its thread

    def _measure(self, manifest: Manifest, path: Path, cancelled: threading.Event) -> None:
        from perftui.experiments.trial_runs import TrialCancelledError
        from perftui.probe.ceilings import keep
        from perftui.probe.probe import ProbeCancelledError, WorkerError, probe

        def tell(name: str) -> None:
            if self.state is not None:
                self.set(names=(*self.state.names, name))

        try:
            found = probe(manifest.interpreter or manifest.command[0], path, None, tell, cancelled)
        except ProbeCancelledError as error:
            raise TrialCancelledError from error
        except WorkerError as error:
            raise ValueError(str(error)) from error
        self.set(found=found)
        try:
            self.set(kept=keep(found))
        except OSError as error:
            self.set(problem=f"the measurements cannot be saved: {error.strerror or error}")
