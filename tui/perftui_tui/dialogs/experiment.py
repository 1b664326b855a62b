"""A trial, a tuning or a probe: asked for, while it runs, and after it, with what is done then."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from perftui import format as fmt
from perftui.experiments.verdict import Outcome
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose, yes_or_no
from perftui_tui.dialogs.run import CANCEL, STOP
from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, Span, row
from perftui_tui.panes import probe, trial, tuning
from perftui_tui.panes.trial import proof_rows
from perftui_tui.reading.experiment_state import (
    ExperimentState,
    ProbeState,
    Stage,
    TrialState,
    TuningState,
)

if TYPE_CHECKING:
    from perftui.experiments.journal import Proof

CLOSE = "close"
"""One of the answers of an ``ExperimentDialog``, as are STOP and the next."""

WRITE, OPEN, UNDO = "write", "open", "undo"
"""To write the fix of a trial; to open what a tuning recorded last; to take its last fix back."""

ALL, BUDGET = "all", "budget"
"""Answers before a tuning: to try every fix, or to begin none after a while."""

AFTERWARDS = Choice(("escape", "enter", "q"), "close", CLOSE)
"""What can always be done with one that is over."""

State = TypeVar("State", bound=ExperimentState)


@dataclass(frozen=True)
class View(Generic[State]):
    """How one kind of experiment is shown."""

    name: str
    title: str
    """Of its dialog."""
    line: Callable[[State, float, int], Row]
    """It in one row: at a time, so many cells wide."""
    rows: Callable[[State, float, int], list[Row]]
    """All of it."""
    result: Callable[[State], Span]
    """What there is to say of it at this moment."""
    afterwards: Callable[[State], list[Choice]]
    """What can be done with its result, beside closing it."""
    subject: Callable[[State], str]
    """What it is about."""
    so_far: Callable[[State], str]
    """What is told before it is left."""
    what: str
    """What goes on while its dialog is closed."""
    training: str = " and its training"
    """What ends with it, where it has one."""

    def choices(self, state: State) -> tuple[Choice, ...]:
        """What can be done with it."""
        if state.stage.is_over:
            return (AFTERWARDS, *self.afterwards(state))
        hide = Choice(("escape", "enter", "q"), f"close this; {self.what} goes on", CLOSE)
        if state.stage is Stage.STOPPING:
            return (hide,)
        return hide, Choice(("s",), f"stop {self.what}{self.training}", STOP)


def _after_trial(state: TrialState) -> list[Choice]:
    verdict = state.verdict
    is_faster = verdict is not None and verdict.outcome is Outcome.FASTER
    if not is_faster or state.option.patch is None:
        return []
    return [Choice(("w",), "write the fix to the source, after showing the diff", WRITE)]


def _after_tuning(state: TuningState) -> list[Choice]:
    choices = []
    if state.kept and state.journal is not None and state.journal.is_recorded:
        choices.append(Choice(("o",), "open the run recorded with all kept fixes", OPEN))
    if state.files:
        choices.append(Choice(("u",), "undo the last fix, after showing the diff", UNDO))
    return choices


def _pairs_so_far(state: TrialState) -> str:
    count = len(state.pairs)
    return f"{fmt.several(count, 'pair')} so far." if count else "No pair of runs so far."


TRIAL = View[TrialState](
    "trial",
    "Trial by pairs",
    trial.trial_line,
    trial.trial_rows,
    trial.result,
    _after_trial,
    lambda state: state.option.title,
    _pairs_so_far,
    "the trial",
)

TUNING = View[TuningState](
    "tuning",
    "Tuning",
    tuning.tuning_line,
    tuning.tuning_rows,
    tuning.result,
    _after_tuning,
    lambda state: state.root.name,
    lambda state: f"{len(state.attempts)} tried, {len(state.kept)} kept; proven fixes stay.",
    "the tuning",
)

PROBE = View[ProbeState](
    "probe",
    "Probe",
    probe.probe_line,
    probe.probe_rows,
    probe.result,
    lambda _: [],
    lambda state: str(state.path),
    lambda _: "Nothing is kept so far.",
    "measuring",
    training="",
)


class ExperimentDialog(ChoiceDialog, Generic[State]):
    """Shows it as it stands; closed, it goes on. Returns one of the answers above."""

    def __init__(self, view: View[State], state: State, now: float) -> None:
        super().__init__(view.title, (), view.choices(state))
        self._view, self._shown = view, (state, now)

    def on_mount(self) -> None:
        """Draw, now that the width is known."""
        self.show(*self._shown)

    def on_resize(self) -> None:
        """Draw to the new width."""
        self.show(*self._shown)

    def show(self, state: State, now: float) -> None:
        """Draw ``state``."""
        self._shown = state, now
        self.change(self._view.rows(state, now, self.cells), self._view.choices(state))


class QuitExperimentDialog(ChoiceDialog):
    """Stop it or stay. Returns STOP or CANCEL."""

    def __init__(self, view: View[State], state: State) -> None:
        stops = f"it{view.training}"
        body = (
            row((f"A {view.name} is still running: ", "bold"), view.subject(state)),
            Prose(f"{view.so_far(state)} It needs this window: quitting stops {stops}."),
        )
        choices = (
            Choice(("s",), f"stop the {view.name} and quit", STOP),
            Choice(("escape", "c", "q"), "stay here", CANCEL),
        )
        super().__init__("Quit perftui?", body, choices)


def proof_dialog(proof: Proof) -> ChoiceDialog:
    """A trial that was made before; returns CLOSE."""
    return ChoiceDialog(TRIAL.title, proof_rows(proof, trial.USUAL_CELLS), (AFTERWARDS,))


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
        risk = "each proven fix is written to your source"
        below = [
            Prose(text, style, " " * 6, label)
            for label, text, style in (
                ("Risk", risk, "warn"),
                ("Undo", undo, ""),
                ("Time", runs, ""),
            )
        ]
        super().__init__("Tune this training?", body, choices, below)


WHAT_PROBE_DOES = (
    "Measures how fast the disk is read and data is copied to and from the GPU, the bandwidth of "
    "its memory, and matrix products in float32, TF32 and bfloat16. Meters and the roofline then "
    "show how close a training comes. GPU, disk and cores should be idle meanwhile."
)


class ProbeDialog(ChoiceDialog):
    """Asks before the machine is measured. Returns YES or NO."""

    def __init__(self, path: Path, seconds: float) -> None:
        command = shlex.join(("perftui", "probe", "--path", str(path)))
        choices = yes_or_no(("enter", "y"), f"measure, about {seconds:.0f} s", "not now")
        body = [Prose(command, "bold"), Prose(WHAT_PROBE_DOES)]
        super().__init__("Measure this machine?", body, choices)
