"""A trial by pairs of runs, while it runs and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.experiments.trial.verdict import Outcome
from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.dialogs.experiment import AFTERWARDS, ITS_TRAINING, ExperimentDialog, while_it_runs
from perftui_tui.panes.proof import proof_rows
from perftui_tui.panes.trial import USUAL_CELLS, trial_rows
from perftui_tui.reading.trial_state import TrialState

if TYPE_CHECKING:
    from perftui.experiments.trial.proof import Proof

WRITE = "write"


def trial_dialog(state: TrialState, now: float) -> ExperimentDialog[TrialState]:
    """The trial in full; returns CLOSE, STOP or WRITE."""
    return ExperimentDialog("Trial by pairs", trial_rows, choices_of, state, now)


def proof_dialog(proof: Proof) -> ChoiceDialog:
    """A trial that was made before; returns CLOSE."""
    return ChoiceDialog("Trial by pairs", proof_rows(proof, USUAL_CELLS), (AFTERWARDS,))


def choices_of(state: TrialState) -> tuple[Choice, ...]:
    """What can be done with a trial."""
    if not state.stage.is_over:
        return while_it_runs("the trial", state.stage, ITS_TRAINING)
    verdict = state.verdict
    is_faster = verdict is not None and verdict.outcome is Outcome.FASTER
    if is_faster and state.option.patch is not None:
        write = Choice(("w",), "write the fix to the source, after showing the diff", WRITE)
        return AFTERWARDS, write
    return (AFTERWARDS,)
