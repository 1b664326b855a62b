"""What is shown and asked about fixes and experiments: before, while one runs, and after it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from perftui import format as fmt
from perftui.experiments.journal import Proof
from perftui.fixes.option import FixOption, Patch, Risk
from perftui_tui.dialogs.choice import Act, Choice, ChoiceDialog, Prose, QuitDialog, yes_or_no
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.rows import Row, Span, row
from perftui_tui.panes import experiments
from perftui_tui.panes.experiments import proof_rows
from perftui_tui.reading.experiment_state import (
    BUDGET_SECONDS,
    ExperimentState,
    ProbeState,
    TrialPlan,
    TrialState,
    TuningState,
)

AFTERWARDS = Choice(("escape", "enter", "q"), "close")
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
    subject: Callable[[State], str]
    """What it is about."""
    so_far: Callable[[State], str]
    """What is told before it is left."""
    what: str
    """What goes on while its dialog is closed."""
    training: str = " and its training"
    """What ends with it, where it has one."""


TRIAL = View[TrialState](
    "trial",
    "Trial by pairs",
    experiments.trial_line,
    experiments.trial_rows,
    experiments.result,
    lambda state: state.job.tried.title,
    lambda state: (
        f"{fmt.several(len(state.pairs), 'pair') if state.pairs else 'No pair of runs'} so far."
    ),
    "the trial",
)

TUNING = View[TuningState](
    "tuning",
    "Tuning",
    experiments.tuning_line,
    experiments.tuning_rows,
    experiments.tuning_result,
    lambda state: state.root.name,
    lambda state: f"{experiments.tried_text(state)}; proven fixes stay.",
    "the tuning",
)

PROBE = View[ProbeState](
    "probe",
    "Probe",
    experiments.probe_line,
    experiments.probe_rows,
    experiments.probe_result,
    lambda state: str(state.path),
    lambda _: "Nothing is kept so far.",
    "measuring",
    training="",
)


VIEWS: dict[str, View[Any]] = {view.name: view for view in (TRIAL, TUNING, PROBE)}


class ExperimentDialog(ChoiceDialog):
    """Shows an experiment as it stands; closed, it goes on. ``draw`` makes its rows, so many cells
    wide, and the answers that there are now."""

    def __init__(
        self, title: str, draw: Callable[[int], tuple[list[Row], Sequence[Choice]]]
    ) -> None:
        super().__init__(title, (), ())
        self._draw = draw

    def on_mount(self) -> None:
        """Draw, now that the width is known."""
        self.change(*self._draw(self.cells))

    show = on_resize = on_mount


def quit_experiment_dialog(view: View[State], state: State, leave: Act, stop: Act) -> QuitDialog:
    """Asks whether to ``stop`` it, or to ``leave`` it running where it can go on alone."""
    goes_on = view is TRIAL
    needs = "does not need this window" if goes_on else "needs this window: quitting stops it"
    body = (
        row((f"A {view.name} is still running: ", "bold"), view.subject(state)),
        Prose(f"{view.so_far(state)} It {needs}{'' if goes_on else view.training}."),
    )
    stops = Choice(("s",), f"stop the {view.name} and quit", stop)
    return QuitDialog(body, *([QuitDialog.leaving(state.root, leave)] if goes_on else []), stops)


def proof_dialog(proof: Proof) -> ChoiceDialog:
    """A trial that was made before."""
    return ChoiceDialog(TRIAL.title, proof_rows(proof, experiments.USUAL_CELLS), (AFTERWARDS,))


def tune_dialog(
    root: Path, plan: TrialPlan, warnings: Sequence[str], start: Callable[[float | None], object]
) -> ChoiceDialog:
    """Asks how a training is tuned: with every fix, or none begun after a budget of seconds."""
    command = shlex.join(("perftui", "tune", str(root)))
    body = [Prose(command, "bold"), *(Prose(warning, "warn") for warning in warnings)]
    every, no = yes_or_no(("enter", "y"), plan.label, partial(start, None))
    budget = f"the same, but start no fix after {fmt.rough_time(BUDGET_SECONDS)}"
    choices = every, Choice(("b",), budget, partial(start, BUDGET_SECONDS)), no
    undo = hint("{diagnosis.undo_fix} undoes them byte for byte, the last one first")
    risk = "each proven fix is written to your source"
    below = [
        Prose(risk, "warn", label="Risk  "),
        Prose(undo, label="Undo  "),
        Prose(plan.note, label="Time  "),
    ]
    return ChoiceDialog("Tune this training?", body, choices, below)


WHAT_PROBE_DOES = (
    "Measures how fast the disk is read and data is copied to and from the GPU, the bandwidth of "
    "its memory, and matrix products in float32, TF32 and bfloat16. Meters and the roofline then "
    "show how close a training comes. GPU, disk and cores should be idle meanwhile."
)


def probe_dialog(path: Path, seconds: float, start: Act) -> ChoiceDialog:
    """Asks before the machine is measured."""
    command = shlex.join(("perftui", "probe", "--path", str(path)))
    choices = yes_or_no(("enter", "y"), f"measure, about {seconds:.0f} s", start)
    body = [Prose(command, "bold"), Prose(WHAT_PROBE_DOES)]
    return ChoiceDialog("Measure this machine?", body, choices)


def run_again_dialog(
    label: str, command: Sequence[str], warnings: Sequence[str], start: Act
) -> ChoiceDialog:
    """Asks before a training is started again."""
    body = [row("With ", (label, "bold")), *_what_runs(command, warnings)]
    return ChoiceDialog("Run again?", body, yes_or_no(("enter", "y"), "run it", start))


def try_dialog(
    option: FixOption,
    command: Sequence[str],
    plan: TrialPlan,
    warnings: Sequence[str],
    finding: str,
    in_pairs: Act,
    once: Act | None,
) -> ChoiceDialog:
    """Asks how a fix is tried, in one run or in pairs of runs, if there can be any; without
    ``once`` it is proven by pairs. ``finding`` is what the fix is for, empty where that is
    plain."""
    title = row((option.title, "bold"), (f"   for {finding}" if finding else "", "dim"))
    body = [title, *_what_runs(command, warnings)]
    keys = ("p",) if once else ("enter", "p", "y")
    proof, no = yes_or_no(keys, f"prove it: {plan.label}", in_pairs)
    one = Choice(("enter", "y"), "one run with it, compared with this one", once)
    choices = (*([one] if once else []), *([proof] if plan.label else []), no)
    below = [risk(option.risks), Prose(plan.note), Prose(option.explanation, "dim")]
    return ChoiceDialog("Run again?" if once else "Prove it?", body, choices, below)


def _what_runs(command: Sequence[str], warnings: Sequence[str]) -> list[Row | Prose]:
    return [Prose(shlex.join(command)), *(Prose(warning, "warn") for warning in warnings)]


NOT_MEASURED = "its gain has not been measured by pairs of runs"


def write_dialog(option: FixOption, patch: Patch, gain: str, write: Act) -> ChoiceDialog:
    """Shows a patch as a diff before it is written, with its measured gain."""
    measured = row((gain, "bold")) if gain else row((NOT_MEASURED, "warn"))
    where = row((str(patch.path), "dim"))
    body = [row((option.title, "bold")), measured, where, (), *diff_rows(patch)]
    yes = hint("write it to the source; {diagnosis.undo_fix} undoes it")
    choices = yes_or_no(("enter",), yes, write, "leave the source unchanged")
    return ChoiceDialog("Write the fix?", body, choices)


def undo_dialog(title: str, patch: Patch, undo: Act) -> ChoiceDialog:
    """Shows what taking a fix back would change."""
    body = [row(("undo ", "dim"), (title, "bold")), row((str(patch.path), "dim")), ()]
    choices = yes_or_no(("enter",), "undo it", undo, "leave the source unchanged")
    return ChoiceDialog("Undo the fix?", [*body, *diff_rows(patch)], choices)


def risk(risks: Sequence[Risk], indent: str = "") -> Prose:
    """The risks of a fix."""
    label = f"{indent}Risk  "
    if not risks:
        return Prose("none known: results stay the same", "good", label=label)
    return Prose(", ".join(each.value for each in risks), "warn", label=label)


def diff_rows(patch: Patch) -> list[Row]:
    """The unified diff, with removed and added lines in colour."""
    styles = {"+": "insert", "-": "delete", "@": "dim"}
    lines = patch.diff().split("\n")
    # The sign in front is no part of the line: tabs go to where they go in the source.
    shown = (line[:1] + line[1:].expandtabs() for line in lines)
    return [row((line, styles.get(line[:1], ""))) for line in shown]
