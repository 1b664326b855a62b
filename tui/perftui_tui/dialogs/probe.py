"""Measuring what the machine can do at most: asked for, while it runs, and after it."""

from __future__ import annotations

import shlex
from pathlib import Path

from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose, yes_or_no
from perftui_tui.dialogs.experiment import AFTERWARDS, ExperimentDialog, while_it_runs
from perftui_tui.panes.probe import probe_rows
from perftui_tui.reading.probe_state import ProbeState

WHAT = (
    "Measures how fast the disk is read and data is copied to and from the GPU, the bandwidth of "
    "its memory, and matrix products in float32, TF32 and bfloat16. Meters and the roofline then "
    "show how close a training comes. GPU, disk and cores should be idle meanwhile."
)


class ProbeDialog(ChoiceDialog):
    """Asks before the machine is measured. Returns YES or NO."""

    def __init__(self, path: Path, seconds: float) -> None:
        command = shlex.join(("perftui", "probe", "--path", str(path)))
        yes = f"measure, about {seconds:.0f} s"
        choices = yes_or_no(("enter", "y"), yes, "not now")
        super().__init__("Measure this machine?", [Prose(command, "bold"), Prose(WHAT)], choices)


def probe_dialog(state: ProbeState, now: float) -> ExperimentDialog[ProbeState]:
    """The measurement in full; returns CLOSE or STOP."""
    return ExperimentDialog("Probe", probe_rows, choices_of, state, now)


def choices_of(state: ProbeState) -> tuple[Choice, ...]:
    """What can be done with a measurement."""
    if state.stage.is_over:
        return (AFTERWARDS,)
    return while_it_runs("measuring", state.stage)
