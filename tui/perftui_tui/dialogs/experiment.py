"""A trial or a tuning, while it runs and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.look.rows import Row
from perftui_tui.reading.experiment_state import ExperimentState, Stage

CLOSE, STOP = "close", "stop"

ITS_TRAINING = " and its training"
"""What ends with a trial or a tuning."""

State = TypeVar("State", bound=ExperimentState)
Rows = Callable[[State, float, int], list[Row]]
"""What is shown of a state: at a time, so many cells wide."""


class ExperimentDialog(ChoiceDialog, Generic[State]):
    """Shows it as it stands; closed, it goes on. Returns what ``choices_of`` offers."""

    def __init__(
        self,
        title: str,
        rows_of: Rows[State],
        choices_of: Callable[[State], tuple[Choice, ...]],
        state: State,
        now: float,
    ) -> None:
        super().__init__(title, (), choices_of(state))
        self._rows_of, self._choices_of = rows_of, choices_of
        self._shown = state, now

    def on_mount(self) -> None:
        """Draw, now that the width is known."""
        self.show(*self._shown)

    def on_resize(self) -> None:
        """Draw to the new width."""
        self.show(*self._shown)

    def show(self, state: State, now: float) -> None:
        """Draw ``state``."""
        self._shown = state, now
        self.change(self._rows_of(state, now, self.cells), self._choices_of(state))


def while_it_runs(what: str, stage: Stage, beside: str = "") -> tuple[Choice, ...]:
    """What can be done with one that is not over: ``what`` goes on, ``the trial``, or is stopped
    with what is ``beside`` it."""
    hide = Choice(("escape", "enter", "q"), f"close this; {what} goes on", CLOSE)
    if stage is Stage.STOPPING:
        return (hide,)
    return hide, Choice(("s",), f"stop {what}{beside}", STOP)


AFTERWARDS = Choice(("escape", "enter", "q"), "close", CLOSE)
"""What can always be done with one that is over."""
