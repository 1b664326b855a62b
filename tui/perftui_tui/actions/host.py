"""What actions use of the app, so that none of them has to import it, and its messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App, ScreenStackError
from textual.content import Content
from textual.notifications import Notification, Notify, SeverityLevel
from textual.reactive import reactive
from textual.screen import Screen, SystemModalScreen
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from perftui_tui.keys.own_keys import hint

if TYPE_CHECKING:
    from perftui.trace.rank_files import RankFile
    from perftui_tui.dialogs.choice import ChoiceDialog
    from perftui_tui.reading.snapshot import Snapshot


class NoticeLine(Static):
    """One message, over as many rows as it needs; what is above makes room, and nothing is covered.

    It never has the focus."""

    DEFAULT_CSS = """
    NoticeLine {
        dock: bottom; height: auto; max-height: 4; padding: 0 1;
        background: $panel; color: $foreground; text-style: bold; pointer: pointer;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; }
    }
    """
    ALLOW_SELECT = False

    async def on_click(self) -> None:
        await self.run_action("app.close_notice")


LEAST = 0.05
"""Seconds that a message stays if its time is over when it is drawn."""

LEAST_ERROR = 10.0
"""Seconds that an error stays at least: it may be two rows long, and is closed by a key."""

_MARKS = {"information": "", "warning": "! ", "error": "!! "}
_BY_WEIGHT: tuple[SeverityLevel, ...] = ("information", "warning", "error")


class Notice(Notification):
    """A notification that may be drawn after its time: on a busy machine, or after a pause.

    Textual would set a timer to a moment in the past, which runs for ever without letting anything
    else run: the app stood still, with a core at work."""

    @property
    def time_left(self) -> float:
        """Seconds until it goes, never none."""
        return max(super().time_left, LEAST)

    @property
    def has_expired(self) -> bool:
        return super().time_left <= 0


def _put(screen: Screen[object], notice: Notification | None) -> None:
    """Show ``notice`` above the keys of ``screen``; a low screen has none."""
    # A dialog that is opening asks again once it is there; an app that is left shows no more.
    if not (screen.is_running and screen.is_attached):
        return
    line = next(iter(screen.query_children(NoticeLine)), None)
    if line is None and notice is not None:
        line = NoticeLine(markup=False)
        screen.mount(line)
    if line is not None:
        # The keys, and the line of a trial.
        below = [one for one in screen.children if one.styles.dock == "bottom" and one.display]
        line.styles.margin = (0, 0, len({*below} - {line}), 0)
        line.display = notice is not None
    if line is not None and notice is not None:
        line.set_classes(f"-{notice.severity}")
        line.update(Content(notice_text(notice, in_dialog=screen.is_modal)))


def notice_text(notice: Notification, *, in_dialog: bool = False) -> str:
    """The message in one line, with a mark where it is more than information: colours are not seen
    by everyone. In a dialog keys are the dialog's own, and a click closes it."""
    plain = Content.from_markup(notice.message).plain if notice.markup else notice.message
    title = f"{notice.title}: " if notice.title else ""
    stays = notice.severity != "information" and not in_dialog
    closes = hint("  {app.close_notice} closes") if stays else ""
    return f"{_MARKS[notice.severity]}{title}{' '.join(plain.split())}{closes}"


class Host(App[None]):
    """What the app adds to Textual's, as far as actions need it.

    It shows notifications above the keys, one at a time: what is on screen is never covered. An
    error goes before a warning, that before the rest, and of equals the newest is shown."""

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
    _notice: Notification | None = None
    """The notification that is shown."""
    ranks: tuple[RankFile, ...] = ()
    """The traces of all ranks, where a directory of them was named."""

    @property
    @abstractmethod
    def is_asking(self) -> bool:
        """Whether a dialog is open."""

    def open(self, target: Path) -> None: ...
    def open_run(self, root: Path, *, is_live: bool) -> None: ...
    def open_own(self, root: Path) -> None: ...
    def action_show(self, name: str) -> None: ...
    def refresh_screen(self) -> None: ...
    def refresh_bar(self) -> None: ...
    def refresh_experiment(self) -> None: ...

    def take_played(self, snapshot: Snapshot) -> None:
        """Show the run as it is known now, at the end of what is played."""
        self.snapshot = snapshot
        self.refresh_bar()

    def show_proofs(self) -> None:
        """Draw new proofs and written fixes."""
        self.snapshot = self.snapshot

    def ask(self, dialog: ChoiceDialog) -> None:
        """Show ``dialog``, unless another one is open."""
        if not self.is_asking:
            self.push_screen(dialog, self.answer)

    @staticmethod
    def answer(act: Callable[[], object] | None) -> None:
        """Do what was answered."""
        if act is not None:
            act()

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

    # Notifications

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message for ``timeout`` seconds, an error for ``LEAST_ERROR`` at least."""
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        if severity == "error":
            seconds = max(seconds, LEAST_ERROR)
        self.post_message(Notify(Notice(message, title, severity, seconds, markup=markup)))

    def _on_notify(self, event: Notify) -> None:
        super()._on_notify(event)
        # Its time begins now, whichever screen it is shown on.
        self.set_timer(event.notification.time_left, partial(self._unnotify, event.notification))

    def _refresh_notifications(self) -> None:
        if not self._disable_notifications:
            self.call_later(self._show_notice)

    def _show_notice(self) -> None:
        try:
            screen = self.screen
        except ScreenStackError:
            return
        if isinstance(screen, SystemModalScreen):
            # A screen of Textual has its own place for them, and no keys to replace.
            super()._refresh_notifications()
            return
        every = list(self._notifications)
        newest = {notice.severity: notice for notice in every}
        shown = next((newest[level] for level in reversed(_BY_WEIGHT) if level in newest), None)
        self._notice = shown
        for each in self.screen_stack:  # under a dialog it would be seen twice
            _put(each, shown if each is screen else None)

    def action_close_notice(self) -> None:
        if self._notice is not None:
            self._unnotify(self._notice)

    def close_notices(self) -> None:
        """Let go of all that was told, but for errors."""
        for notice in [one for one in self._notifications if one.severity != "error"]:
            self._unnotify(notice)
