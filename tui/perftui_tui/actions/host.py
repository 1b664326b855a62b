"""What actions use of the app, so that none of them has to import it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.reactive import reactive
from textual.worker import Worker, WorkerState

from perftui_tui.widgets.notification import NotifyingApp

if TYPE_CHECKING:
    from perftui.trace.rank_files import RankFile
    from perftui_tui.dialogs.choice import ChoiceDialog
    from perftui_tui.reading.snapshot import Snapshot


class Host(NotifyingApp):
    """What the app adds to Textual's, as far as actions need it."""

    target: Path
    """The run directory or the trace file on screen."""
    own: Path | None = None
    """The run that the command was started for, or that was started in the app: leaving asks about
    it."""
    snapshot: reactive[Snapshot | None] = reactive(
        None, init=False, repaint=False, always_update=True
    )
    """The snapshot on screen."""
    newest: Snapshot | None = None
    """The snapshot that was read last, also while the screen is paused."""
    paused: reactive[bool] = reactive(False, init=False, repaint=False)
    """Whether new snapshots are received but not shown."""
    is_stopping = False
    """Whether the training was asked to stop on leaving."""
    ranks: tuple[RankFile, ...] = ()
    """The traces of all ranks, where a directory of them was named."""

    @property
    @abstractmethod
    def is_asking(self) -> bool:
        """Whether a dialog is open."""

    def open(self, target: Path) -> None:
        """Show another run or trace."""

    def open_run(self, root: Path, *, is_live: bool) -> None:
        """Show another recorded run."""

    def open_own(self, root: Path) -> None:
        """Show the run at ``root``, which was started here."""

    def take_played(self, snapshot: Snapshot) -> None:
        """Show the run as it is known now, at the end of what is played."""
        self.snapshot = snapshot
        self.refresh_bar()

    def action_show(self, name: str) -> None:
        """Go to a screen by its name; no way leads back."""

    def refresh_screen(self) -> None:
        """Draw the current state again."""

    def show_proofs(self) -> None:
        """Draw new proofs and written fixes."""
        self.snapshot = self.snapshot

    def refresh_bar(self) -> None:
        """Draw the position in a run that is played again."""

    def refresh_experiment(self) -> None:
        """Draw how a trial or a tuning stands."""

    def ask(self, dialog: ChoiceDialog, answered: Callable[[str | None], None]) -> None:
        """Show ``dialog``, unless another one is open."""
        if not self.is_asking:
            self.push_screen(dialog, answered)

    def warn(self, text: str) -> None:
        """Notify of something that cannot be done."""
        self.notify(text, severity="warning", markup=False)

    def on_thread(self, work: Callable[[], None]) -> None:
        """Run ``work`` on a thread; ``on_worker_state_changed`` notifies of its errors."""
        self.run_worker(work, thread=True, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Notify of a failure of background work; it never ends the app."""
        if event.state is WorkerState.ERROR:
            self.notify(str(event.worker.error), severity="error", markup=False, timeout=10)
