"""Trials by pairs of runs: started, followed, stopped, and what they proved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui_tui.dialogs.run import running_script
from perftui_tui.keys.keymap import hint
from perftui_tui.reading.trial_state import Stage, TrialState

if TYPE_CHECKING:
    from textual.timer import Timer

    from perftui.experiments.trial.proof import Proof
    from perftui.experiments.trial.trial import Progress
    from perftui.fixes.model import FixOption
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.host import Host
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.dialogs.trial import TrialDialog
    from perftui_tui.reading.snapshot import Snapshot

TICK = 1.0
"""Seconds between two drawings of a trial that runs."""

Clock = Callable[[], float]


class PairedTrials:
    """One trial at a time, on a thread of its own; ``state`` is replaced there and drawn here.

    The thread waits for nothing of the app, so that it always comes to stop its training."""

    def __init__(self, app: Host, source_fixes: SourceFixes, clock: Clock = time.monotonic) -> None:
        self._app = app
        self._source_fixes = source_fixes
        self._clock = clock
        self.state: TrialState | None = None
        """The trial that runs, or the last one; None before any."""
        self._proofs: dict[Path, dict[str, Proof]] = {}
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._dialog: TrialDialog | None = None
        self._is_unseen = False
        """Whether the end of the last trial was not looked at yet."""
        self.is_leaving = False
        """Whether the app is left as soon as the trial has stopped."""

    @property
    def is_running(self) -> bool:
        """Whether a trial runs, or still stops its training."""
        return self.state is not None and not self.state.stage.is_over

    @property
    def shown(self) -> tuple[TrialState | None, float]:
        """What the row under each screen shows, and the time now."""
        is_shown = self.is_running or self._is_unseen
        return (self.state if is_shown else None), self._clock()

    def with_proofs(self, snapshot: Snapshot) -> Snapshot:
        """``snapshot`` with what was proven since it was read."""
        own = self._proofs.get(snapshot.source)
        return replace(snapshot, proofs={**snapshot.proofs, **own}) if own else snapshot

    def start(
        self, run: RunSnapshot, option: FixOption, steps: int, run_seconds: float | None
    ) -> None:
        """Try ``option`` on the training of ``run``, which is stopped first where it goes on."""
        self._cancelled = threading.Event()
        stage = Stage.WAITING if running_script(run.root) is not None else Stage.RUNNING
        self.state = TrialState(run.root, option, steps, self._clock(), run_seconds, stage)
        self._is_unseen, self.is_leaving = True, False
        state, cancelled = self.state, self._cancelled
        self._app.on_thread(lambda: self._run(run, state, cancelled))
        self._timer = self._app.set_interval(TICK, self._tick)
        self.show()

    def stop(self) -> None:
        """Stop the trial and its training."""
        self._set(stage=Stage.STOPPING)
        self._cancelled.set()
        self._tick()

    def stop_and_leave(self) -> None:
        """Stop it, and leave the app once its training has ended."""
        if not self.is_running:
            self._app.exit()
            return
        self.is_leaving = True
        self.stop()
        self.show()

    def cancel(self) -> None:
        """Stop it without a word: nobody sees the app any more."""
        self._cancelled.set()

    def show(self) -> None:
        """Show the trial in full."""
        from perftui_tui.dialogs.trial import TrialDialog

        if self.state is None:
            where = hint("{app.show('diagnosis')} and then {diagnosis.try_fix} offer one")
            self._app.warn(f"there was no trial by pairs of runs yet: {where}")
            return
        if not self._app.is_asking:
            self._dialog = TrialDialog(self.state, self._clock())
            self._app.ask(self._dialog, self._answered)

    def _answered(self, answer: str | None) -> None:
        from perftui_tui.dialogs.trial import STOP, WRITE

        self._dialog = None
        if answer == STOP:
            self.stop()
        elif not self.is_running:
            self._is_unseen = False
        self._app.refresh_trial()
        if answer == WRITE and self.state is not None:
            self._source_fixes.write(self.state.option)

    def _tick(self) -> None:
        """Draw it, and tell of its end."""
        state = self.state
        if state is None:
            return
        self._app.refresh_trial()
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.show(state, self._clock())
        if state.stage.is_over and self._timer is not None:
            self._timer.stop()
            self._timer = None
            self._report(state)

    def _report(self, state: TrialState) -> None:
        from perftui_tui.panes.trial import result

        if self.is_leaving:
            self._app.exit()
            return
        text = f"{state.option.title}: {result(state)[0]}"
        if state.stage is Stage.DONE:
            self._app.notify(text, markup=False)
        else:
            self._app.warn(text)
        self._app.refresh_screen()

    # On the thread of the trial

    def _set(self, **changes: Any) -> None:
        """Change the state of a trial that is not over; the app may do so at the same moment."""
        with self._lock:
            if self.state is not None and self.is_running:
                self.state = replace(self.state, **changes)

    def _run(self, run: RunSnapshot, state: TrialState, cancelled: threading.Event) -> None:
        from perftui.experiments.trial.finished import TrialCancelledError, TrialError
        from perftui.run.manifest import ManifestError
        from perftui_tui.actions.rerun import StartCancelledError, StillRunningError

        stage, problem = Stage.FAILED, "it ended with an error of its own"
        try:
            self._go_through(run, state, cancelled)
            stage, problem = Stage.DONE, ""
        except (TrialCancelledError, StartCancelledError):
            stage, problem = Stage.STOPPED, ""
        except (TrialError, StillRunningError, ManifestError, OSError, ValueError) as error:
            problem = str(error)
        finally:
            kept = problem or (self.state.problem if self.state else "")
            self._set(stage=stage, problem=kept, ended=self._clock())

    def _go_through(self, run: RunSnapshot, state: TrialState, cancelled: threading.Event) -> None:
        from perftui.experiments.trial.trial import trial
        from perftui.run.layout import trials_of
        from perftui_tui.actions.rerun import StartCancelledError, stop_training

        directory = trials_of(run.root)
        if state.stage is Stage.WAITING:
            stop_training(run.root, cancelled)
            if cancelled.is_set():
                raise StartCancelledError
            self._set(stage=Stage.RUNNING, began=self._clock())
        for progress in trial(run, state.option, directory, state.steps, cancelled):
            option = progress.option or state.option
            clock = "last_pair" if progress.pairs else "counted"
            self._set(progress=progress, option=option, **{clock: self._clock()})
            self._keep(run.root, option, directory, progress)

    def _keep(self, root: Path, option: FixOption, directory: Path, progress: Progress) -> None:
        from perftui.experiments.trial.proof import keep_proof

        try:
            proof = keep_proof(option, progress, directory, time.time_ns())
        except OSError as error:
            self._set(problem=f"the result cannot be kept: {error.strerror or error}")
            return
        if proof is not None:
            self._proofs[root] = {**self._proofs.get(root, {}), option.fix: proof}
