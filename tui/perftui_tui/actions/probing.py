"""Measures what the machine can do at most, as ``perftui probe`` does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.actions.experiment import Experiment

if TYPE_CHECKING:
    from perftui.run.manifest import Manifest
    from perftui_tui.dialogs.experiment import ExperimentDialog
    from perftui_tui.dialogs.run import QuitExperimentDialog
    from perftui_tui.look.rows import Row
    from perftui_tui.reading.probe_state import ProbeState


class Probing(Experiment["ProbeState"]):
    """With the interpreter of the run on screen, and the disk that holds its data set."""

    NAME = "probe"

    def offer(self, root: Path, manifest: Manifest) -> None:
        """Ask whether the machine is measured, and do it."""
        from perftui.probe.probe import SECONDS
        from perftui.run.manifest import data_place
        from perftui_tui.dialogs.choice import YES
        from perftui_tui.dialogs.probe import ProbeDialog
        from perftui_tui.reading.probe_state import ProbeState

        path = Path(data_place(manifest) or manifest.cwd)

        def answered(answer: str | None) -> None:
            if answer == YES:
                state = ProbeState(path, root=root, began=self.clock())
                self.begin(state, lambda cancelled: self._measure(manifest, path, cancelled))

        self.app.ask(ProbeDialog(path, SECONDS), answered)

    def line(self, state: ProbeState, now: float, cells: int) -> Row:
        """The measurement in one row."""
        from perftui_tui.panes.probe import probe_line

        return probe_line(state, now, cells)

    def dialog(self, state: ProbeState, now: float) -> ExperimentDialog[ProbeState]:
        """The measurement in full."""
        from perftui_tui.dialogs.probe import probe_dialog

        return probe_dialog(state, now)

    def quit_dialog(self, state: ProbeState) -> QuitExperimentDialog:
        """Asks whether it is stopped."""
        from perftui_tui.dialogs.run import QuitExperimentDialog

        return QuitExperimentDialog(self.NAME, str(state.path), "Nothing is kept so far.", "it")

    def result(self, state: ProbeState) -> str:
        """What it came to."""
        from perftui_tui.panes.probe import result

        return f"probe: {result(state)[0]}"

    def done(self, state: ProbeState) -> None:
        """Read the run again: its meters have scales now."""
        if state.root == self.app.target:
            self.app.open(state.root)

    # On its thread

    def _measure(self, manifest: Manifest, path: Path, cancelled: threading.Event) -> None:
        from perftui.experiments.trial.finished import TrialCancelledError
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
