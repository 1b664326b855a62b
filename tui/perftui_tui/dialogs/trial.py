"""A trial by pairs of runs, while it runs and after it."""

from __future__ import annotations

from perftui.experiments.trial.verdict import Outcome
from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.panes.trial import trial_rows
from perftui_tui.reading.trial_state import Stage, TrialState

CLOSE, STOP, WRITE = "close", "stop", "write"


class TrialDialog(ChoiceDialog):
    """Shows a trial as it stands; closed, it goes on. Returns one of the constants above."""

    def __init__(self, state: TrialState, now: float) -> None:
        super().__init__("Trial by pairs of runs", (), choices_of(state))
        self._shown = state, now

    def on_mount(self) -> None:
        """Draw, now that the width is known."""
        self.show(*self._shown)

    def on_resize(self) -> None:
        """Draw to the new width."""
        self.show(*self._shown)

    def show(self, state: TrialState, now: float) -> None:
        """Draw ``state``."""
        self._shown = state, now
        self.change(trial_rows(state, now, self.cells), choices_of(state))


def choices_of(state: TrialState) -> tuple[Choice, ...]:
    """What can be done with a trial."""
    if not state.stage.is_over:
        hide = Choice(("escape", "enter", "q"), "close this: the trial goes on", CLOSE)
        if state.stage is Stage.STOPPING:
            return (hide,)
        return hide, Choice(("s",), "stop the trial, and its training", STOP)
    close = Choice(("escape", "enter", "q"), "close", CLOSE)
    verdict = state.verdict
    is_faster = verdict is not None and verdict.outcome is Outcome.FASTER
    if is_faster and state.option.patch is not None:
        return close, Choice(("w",), "write the fix to the source, after showing the diff", WRITE)
    return (close,)
