"""Measures what the machine can do at most, as ``perftui probe`` does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.actions.experiment import Experiment

if TYPE_CHECKING:
    from perftui.run.manifest import Manifest
    from perftui_tui.dialogs.experiment import View
    from perftui_tui.reading.probe_state import ProbeState


class Probing(Experiment["ProbeState"]):
    """With the interpreter of the run on screen, and the disk that holds its data set."""

    def offer(self, root: Path, manifest: Manifest) -> None:
        """Ask whether the machine is measured, and do it."""
        from perftui.probe.probe import SECONDS
        from perftui.run.manifest import data_place
        from perftui_tui.dialogs.choice import YES
        from perftui_tui.dialogs.experiment import ProbeDialog
        from perftui_tui.reading.probe_state import ProbeState

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
