"""A tuning: asked for, while it runs, and after it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.dialogs.experiment import AFTERWARDS, ITS_TRAINING, ExperimentDialog, while_it_runs
from perftui_tui.keys.keymap import hint
from perftui_tui.panes.tuning import tuning_rows
from perftui_tui.reading.tuning_state import TuningState

ALL, BUDGET, CANCEL = "all", "budget", "cancel"
"""Answers before it: to try every fix, to begin none after a while, or nothing."""

OPEN, UNDO = "open", "undo"
"""Answers after it."""

_LABEL = 6


class TuneDialog(ChoiceDialog):
    """Asks how a training is tuned. Returns ALL, BUDGET or CANCEL.

    ``plan`` says how much there is to try, ``budget`` is the other way to end it, ``runs`` how many
    runs that takes."""

    def __init__(
        self, root: Path, plan: str, budget: str, runs: str, warnings: Sequence[str] = ()
    ) -> None:
        command = shlex.join(("perftui", "tune", str(root)))
        body = [Prose(command, "bold"), *(Prose(warning, "warn") for warning in warnings)]
        choices = (
            Choice(("enter", "y"), plan, ALL),
            Choice(("b",), f"the same, but start no fix after {budget}", BUDGET),
            Choice(("escape", "n", "q"), "not now", CANCEL),
        )
        undo = hint("{diagnosis.undo_fix} undoes them byte for byte, the last one first")
        below = (
            _labelled("Risk", "each proven fix is written to your source", "warn"),
            _labelled("Undo", undo, ""),
            _labelled("Time", runs, ""),
        )
        super().__init__("Tune this training?", body, choices, below)


def _labelled(label: str, text: str, style: str) -> Prose:
    return Prose(text, style, " " * _LABEL, label)


def tuning_dialog(state: TuningState, now: float) -> ExperimentDialog[TuningState]:
    """The tuning in full; returns CLOSE, STOP, OPEN or UNDO."""
    return ExperimentDialog("Tuning", tuning_rows, choices_of, state, now)


def choices_of(state: TuningState) -> tuple[Choice, ...]:
    """What can be done with a tuning."""
    if not state.stage.is_over:
        return while_it_runs("the tuning", state.stage, ITS_TRAINING)
    choices = [AFTERWARDS]
    if state.kept and state.journal is not None and state.journal.is_recorded:
        choices.append(Choice(("o",), "open the run recorded with all kept fixes", OPEN))
    if state.files:
        choices.append(Choice(("u",), "undo the last fix, after showing the diff", UNDO))
    return tuple(choices)
