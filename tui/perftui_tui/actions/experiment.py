"""What takes many runs: begun, followed, stopped, and what was proven by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perftui_tui.reading.experiment_state import ExperimentState, Stage

if TYPE_CHECKING:
    from textual.timer import Timer

    from perftui.experiments.journal import Proof
    from perftui.fixes.model import FixOption
    from perftui_tui.actions.host import Host
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.dialogs.experiment import ExperimentDialog, View
    from perftui_tui.look.rows import Row
    from perftui_tui.reading.snapshot import Snapshot


class NewProofs:
    """A run that is over is not read again: what is proven of it here is added.

    Written on the thread of a trial, read by the app."""

    def __init__(self) -> None:
        self._proofs: dict[Path, dict[str, Proof]] = {}
        self._options: dict[Path, dict[str, FixOption]] = {}

    @property
    def every(self) -> list[Proof]:
        """All that was proven in this session, in the order of the runs and fixes that were tried
        first."""
        return [proof for proofs in self._proofs.values() for proof in proofs.values()]

    def add(self, root: Path, proof: Proof) -> None:
        """Note what was proven of a fix of the run at ``root``."""
        self._proofs[root] = {**self._proofs.get(root, {}), proof.fix: proof}

    def change(self, root: Path, option: FixOption) -> None:
        """Note what a fix of the run at ``root`` changes now: as many workers as runs have shown to
        be best."""
        self._options[root] = {**self._options.get(root, {}), option.fix: option}

    def on(self, snapshot: Snapshot, written: frozenset[str] = frozenset()) -> Snapshot:
        """``snapshot`` with what was proven since it was read, and with the fixes that were
        ``written`` to the source since then marked as such."""
        proofs = self._proofs.get(snapshot.source, {})
        changed = self._options.get(snapshot.source, {})
        options = {
            rule: tuple(_marked(changed.get(option.fix, option), written) for option in found)
            for rule, found in snapshot.options.items()
        }
        if not proofs and options == snapshot.options:
            return snapshot
        return replace(snapshot, options=options, proofs={**snapshot.proofs, **proofs})


def _marked(option: FixOption, written: frozenset[str]) -> FixOption:
    """What was written before the run was read has no patch, and stays marked."""
    is_written = option.fix in written
    if option.patch is None or option.is_written == is_written:
        return option
    return replace(option, is_written=is_written)


TICK = 1.0
"""Seconds between two drawings of one that runs."""

Clock = Callable[[], float]
State = TypeVar("State", bound=ExperimentState)


class Experiment(Generic[State]):
    """One at a time, on a thread of its own; ``state`` is replaced there and drawn here.

    The thread waits for nothing of the app, so that it always comes to stop its training."""

    def __init__(
        self,
        app: Host,
        source_fixes: SourceFixes,
        proofs: NewProofs,
        clock: Clock = time.monotonic,
    ) -> None:
        self.app = app
        self.source_fixes = source_fixes
        self.proofs = proofs
        self.clock = clock
        self.state: State | None = None
        """The one that runs, or the last one; None before any."""
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._dialog: ExperimentDialog[State] | None = None
        self._is_unseen = False
        """Whether the end of the last one was not looked at yet."""
        self.is_leaving = False
        """Whether the app is left as soon as it has stopped."""
        self.has_news = False
        """Whether a screen shows something of it that is not drawn yet; set on its thread."""

    # What each kind does in its own way

    @property
    def view(self) -> View[State]:
        """How it is shown."""
        raise NotImplementedError

    def take(self, answer: str | None, state: State) -> None:
        """Do what was answered in its dialog, beside closing and stopping it."""

    def subject(self, _: State) -> str:
        """Whose result is told."""
        return self.view.name

    def done(self, state: State) -> None:
        """What follows once it has come to its end; nothing by default."""

    # The same for all of them

    @property
    def began(self) -> float:
        """When it was begun, by its clock; before all times where there was none yet."""
        return self.state.began if self.state is not None else float("-inf")

    @property
    def is_running(self) -> bool:
        """Whether it runs, or still stops its training."""
        return self.state is not None and not self.state.stage.is_over

    @property
    def is_shown(self) -> bool:
        """Whether it has a row under each screen: until somebody has looked at its end."""
        return self.is_running or self._is_unseen

    def row(self, cells: int) -> Row:
        """The row under each screen; empty before there is one."""
        state = self.state
        return self.view.line(state, self.clock(), cells) if state is not None else ()

    def begin(self, state: State, work: Callable[[threading.Event], None]) -> None:
        """Show ``state``, and do the ``work`` on a thread until it ends or its event is set."""
        self._cancelled = threading.Event()
        self.state = state
        self._is_unseen, self.is_leaving = True, False
        cancelled = self._cancelled
        self.app.on_thread(lambda: self._run(work, cancelled))
        self._timer = self.app.set_interval(TICK, self._tick)
        self.show()

    def stop(self) -> None:
        """Stop it and its training."""
        self.set(stage=Stage.STOPPING)
        self._cancelled.set()
        self._tick()

    def stop_and_leave(self) -> None:
        """Stop it, and leave the app once its training has ended."""
        if not self.is_running:
            self.app.exit()
            return
        self.is_leaving = True
        self.stop()
        self.show()

    def cancel(self) -> None:
        """Stop it without a word: nobody sees the app any more."""
        self._cancelled.set()

    def show(self) -> None:
        """Show it in full."""
        from perftui_tui.dialogs.experiment import ExperimentDialog

        if self.state is not None and not self.app.is_asking:
            self._dialog = ExperimentDialog(self.view, self.state, self.clock())
            self.app.ask(self._dialog, self._answered)

    def _answered(self, answer: str | None) -> None:
        from perftui_tui.dialogs.run import STOP

        self._dialog = None
        if answer == STOP:
            self.stop()
        elif not self.is_running:
            self._is_unseen = False
        self.app.refresh_experiment()
        if self.state is not None:
            self.take(answer, self.state)

    def _tick(self) -> None:
        """Draw it, and tell of its end."""
        state = self.state
        if state is None:
            return
        self.app.refresh_experiment()
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.show(state, self.clock())
        if self.has_news:
            self.has_news = False
            self.app.show_proofs()
        if state.stage.is_over and self._timer is not None:
            self._timer.stop()
            self._timer = None
            self._report(state)

    def _report(self, state: State) -> None:
        if self.is_leaving:
            self.app.exit()
            return
        text = f"{self.subject(state)}: {self.view.result(state)[0]}"
        if state.stage is Stage.DONE:
            self.done(state)
            self.app.notify(text, markup=False)
        else:
            self.app.warn(text)
        self.app.refresh_screen()

    # On its thread

    def set(self, **changes: Any) -> None:
        """Change the state of one that is not over; the app may do so at the same moment."""
        with self._lock:
            if self.state is not None and self.is_running:
                self.state = replace(self.state, **changes)

    def await_training(self, root: Path, cancelled: threading.Event) -> None:
        """Stop the training of the run at ``root`` first, where it goes on.

        Raises:
            StartCancelledError: ``cancelled`` was set meanwhile.
            StillRunningError: it does not stop.
        """
        from perftui.run.manifest import StopReason
        from perftui_tui.actions.rerun import StartCancelledError, stop_training

        if self.state is not None and self.state.stage is Stage.WAITING:
            stop_training(root, cancelled, StopReason.TRIAL)
            if cancelled.is_set():
                raise StartCancelledError
            self.set(stage=Stage.RUNNING, began=self.clock())

    def _run(self, work: Callable[[threading.Event], None], cancelled: threading.Event) -> None:
        from perftui.experiments.trial_runs import TrialCancelledError, TrialError
        from perftui.run.manifest import ManifestError
        from perftui_tui.actions.rerun import StartCancelledError, StillRunningError

        stage, problem = Stage.FAILED, "it ended with an internal error"
        try:
            work(cancelled)
            stage, problem = Stage.DONE, ""
        except (TrialCancelledError, StartCancelledError):
            stage, problem = Stage.STOPPED, ""
        except (TrialError, StillRunningError, ManifestError, OSError, ValueError) as error:
            problem = str(error)
        finally:
            kept = problem or (self.state.problem if self.state else "")
            self.set(stage=stage, problem=kept, ended=self.clock())


def first_stage(root: Path) -> Stage:
    """The stage to begin in: a training that runs is stopped first."""
    from perftui_tui.reading.running_script import running_script

    return Stage.WAITING if running_script(root) is not None else Stage.RUNNING
