"""The app: it owns the screens, the theme, the keys and the life of its source, nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.app import App, SystemCommand
from textual.reactive import reactive
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from perftui.trace.text import printable
from perftui_tui import messages
from perftui_tui.baseline import Baseline
from perftui_tui.dialogs import quit as leaving
from perftui_tui.dialogs.help import HelpDialog
from perftui_tui.dialogs.too_small import TooSmallScreen, is_too_small
from perftui_tui.key_table import SCREENS
from perftui_tui.keymap import bindings
from perftui_tui.output.source import OutputSource
from perftui_tui.output.tail import Output
from perftui_tui.palette_commands import palette_commands
from perftui_tui.reading_thread import Clock, ReadingThread
from perftui_tui.recorder_requests import RecorderRequests
from perftui_tui.screens.by_name import screens
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.snapshot import Snapshot
from perftui_tui.source import RunSource
from perftui_tui.source_fixes import SourceFixes
from perftui_tui.themes import DEFAULT_THEME, THEMES
from perftui_tui.trace_source import TraceSource
from perftui_tui.trials import Trials
from perftui_tui.widgets.header_line import HeaderLine
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.trace.ranks import RankFile


class PerftuiApp(App[None]):
    """Shows the run directory or the trace file at ``target``."""

    TITLE = "perftui"
    CSS_PATH = "app.tcss"
    # The default focuses the first widget that can be, even a hidden one, and its keys then fill
    # the footer.
    AUTO_FOCUS = None
    BINDINGS = bindings("app")
    ENABLE_COMMAND_PALETTE = True

    snapshot: reactive[Snapshot | None] = reactive(
        None, init=False, repaint=False, always_update=True
    )
    """What the current screen shows."""
    output: reactive[Output] = reactive(Output(), init=False, repaint=False)
    """The script's output."""
    paused: reactive[bool] = reactive(False, init=False, repaint=False)
    """Whether new snapshots are received but not shown."""

    def __init__(
        self,
        target: Path,
        *,
        replay: bool = False,
        theme: str = DEFAULT_THEME,
        clock: Clock = time.time_ns,
    ) -> None:
        super().__init__()
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        self.set_class(RowView.ascii_only, "-ascii")
        self.target = target
        self.is_replay = replay
        self.failure: str | None = None
        """Why nothing can be shown, in words, repeated in the terminal after the app."""
        self.crash: BaseException | None = None
        """What went wrong in the app itself, where it ended so."""
        self.is_stopping = False
        """Whether the training was asked to stop on leaving."""
        self.requests = RecorderRequests(self)
        self.trials = Trials(self)
        self.source_fixes = SourceFixes(self)
        self.baseline = Baseline(self)
        self.notes: tuple[str, ...] = ()
        """What is said at the start: which of several traces this is."""
        self.ranks: tuple[RankFile, ...] = ()
        """The traces of all ranks, where a directory of them was named."""
        self._clock = clock
        self.attached_to: Path | None = None
        """The run that somebody else started and we only watch, however it is left."""
        self._place: tuple[int, int, int | None] | None = None
        self.newest: Snapshot | None = None
        """What was received last; the screens show an older one while the picture is held."""
        self.preview: TraceAnalysis | None = None
        """What can be drawn of a trace while the rest of it is read."""
        self._newest_output = Output()
        self._sources: tuple[ReadingThread, ...] = ()

    def on_mount(self) -> None:
        """Install the screens, each made when first visited, and begin to read."""
        for name, make in screens().items():
            self.add_mode(name, make)
        self.switch_mode(SCREENS[0])
        self.app_resume_signal.subscribe(self, self._resumed)
        self.open(self.target)
        for note in self.notes:
            self.notify(printable(note), markup=False, timeout=10)

    def open(self, target: Path) -> None:
        """Show another run or trace from now on."""
        self.close()
        self.target = target
        self.output = self._newest_output = Output()
        self.newest = self.preview = None
        # What was held is a picture of something else.
        self.paused = False
        if target.is_dir():
            self._sources = (
                RunSource(target, self.post_message, self._clock),
                OutputSource(target / "output.log", self.post_message),
            )
        else:
            self._sources = (TraceSource(target, self.post_message, self._clock),)
        for source in self._sources:
            source.start()

    def close(self) -> None:
        """Stop reading."""
        for source in self._sources:
            source.stop()
        self._sources = ()

    def on_unmount(self) -> None:
        """Stop reading when the app ends, and start nothing that nobody would see."""
        self.trials.cancel()
        self.close()

    def _resumed(self, _app: App[object]) -> None:
        """Draw everything after ``fg``: Textual takes what it drew before for what is there."""
        self.refresh(layout=True)

    def on_resize(self, event: events.Resize) -> None:
        """Give way to words where nothing else fits, and tell the script's terminal its size."""
        shown = next((s for s in self.screen_stack if isinstance(s, TooSmallScreen)), None)
        if is_too_small(event.size) and shown is None:
            self.push_screen(TooSmallScreen())
        elif shown is not None and not is_too_small(event.size) and self.screen is shown:
            self.pop_screen()
        if self.target != self.attached_to:
            self.requests.resized(event.size)

    # What the source says

    def on_snapshot_received(self, message: messages.SnapshotReceived) -> None:
        """Put the snapshot on screen, unless the picture is held or the terminal is behind."""
        if message.snapshot.source != self.target:
            return
        self.newest, self.preview = message.snapshot, None
        self.requests.watch(message.snapshot)
        if self.paused:
            return
        # A run that is over is told of once: that picture is never skipped.
        if not message.snapshot.phase.is_live or not self._terminal_is_behind():
            self.snapshot = message.snapshot

    def _terminal_is_behind(self) -> bool:
        """Whether frames still wait to be written: on a slow link another would delay the keys."""
        writer = getattr(self._driver, "_writer_thread", None)
        queue = getattr(writer, "_queue", None)
        return self.snapshot is not None and queue is not None and bool(queue.qsize() > 1)

    def on_output_received(self, message: messages.OutputReceived) -> None:
        """Keep the newest output, and show it unless the picture is held."""
        self._newest_output = message.output
        if not self.paused:
            self.output = message.output

    def on_source_failed(self, message: messages.SourceFailed) -> None:
        """Leave with the reason where there is nothing to show, else say it."""
        if self.snapshot is None and message.is_all:
            self.failure = message.reason
            self.exit(return_code=2)
        else:
            self.notify(message.reason, severity="error", markup=False, timeout=10)

    def on_preview_received(self, message: messages.PreviewReceived) -> None:
        """Draw the first part of a trace while the rest of it is read."""
        if message.path == self.target and self.newest is None:
            self.preview = message.analysis
            screen = self._base_screen()
            if screen is not None and screen.is_composed:
                screen.show_preview(message.analysis)

    def on_load_progressed(self, message: messages.LoadProgressed) -> None:
        """Say how far reading a trace has come."""
        if isinstance(self.screen, RunScreen) and self.screen.is_composed:
            self.screen.loading_progress(message.path, message.done)

    def watch_snapshot(self) -> None:
        """Hand the snapshot to the screen on top; others take it when they are returned to."""
        self.refresh_screen()
        self.trials.compare_when_steady()

    def watch_output(self) -> None:
        """Hand the output to the screen on top."""
        screen = self._base_screen()
        if screen is not None and screen.is_composed:
            screen.show_output(self.output)

    def refresh_screen(self) -> None:
        """Draw the current state again."""
        screen = self._base_screen()
        if screen is not None:
            with self.batch_update():
                screen.refresh_state()

    def _base_screen(self) -> RunScreen | None:
        """The run screen, also under a dialog."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, RunScreen)), None)

    # Moving about

    def action_show(self, name: str) -> None:
        """Go to a screen by its name."""
        if isinstance(self.screen, RunScreen) and self.current_mode != name:
            self.switch_mode(name)

    def action_next_screen(self, step: int) -> None:
        """Go to the next screen, or by ``step`` -1 to the one before."""
        at = SCREENS.index(self.current_mode)
        self.action_show(SCREENS[(at + step) % len(SCREENS)])

    def go_to_place(self, start: int, end: int, row: int | None = None) -> None:
        """Show a stretch of the trace (ns since its start) on the timeline."""
        self._place = (start, end, row)
        self.action_show("timeline")

    def take_place(self) -> tuple[int, int, int | None] | None:
        """The stretch to go to, once."""
        place, self._place = self._place, None
        return place

    def on_header_line_tab_clicked(self, message: HeaderLine.TabClicked) -> None:
        """Go to the screen that was clicked."""
        self.action_show(message.screen)

    def action_help(self) -> None:
        """Keys, and what this screen shows."""
        screen = self.screen
        if isinstance(screen, RunScreen):
            self.push_screen(HelpDialog(screen.NAME, screen.HELP))

    def action_next_theme(self) -> None:
        """The next of our own themes."""
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]
        self.notify(f"theme {self.theme}", timeout=2)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Textual's commands, and ours."""
        yield from super().get_system_commands(screen)
        yield from palette_commands(self, screen)

    # Doing things to the run

    def action_pause(self) -> None:
        """Hold the picture, or catch up."""
        self.paused = not self.paused
        if not self.paused:
            self.output = self._newest_output
        if not self.paused and self.newest is not None:
            self.snapshot = self.newest
        else:
            self.refresh_screen()

    def action_capture(self) -> None:
        """Ask the training for a profiled window at its next step."""
        snapshot = self.newest
        if snapshot is None or snapshot.run is None or not snapshot.phase.is_live:
            self.notify("only a running training can be profiled", severity="warning")
            return
        self.requests.capture(snapshot)

    async def action_quit(self) -> None:
        """Leave, after asking what to do with a running training."""
        if isinstance(self.screen, leaving.QuitDialog):
            return
        script = self._running_script()
        if script is None:
            self.exit()
        else:
            self.push_screen(leaving.QuitDialog(script, self.target), self._leave)

    def _running_script(self) -> str | None:
        """The script that still runs; None where nothing does.

        Before the first snapshot the manifest is asked: a training must not be left by accident.
        """
        if self.target == self.attached_to:
            return None
        if self.newest is not None:
            return self.newest.title if self.newest.phase.is_live else None
        return leaving.running_script(self.target)

    def _leave(self, answer: str | None) -> None:
        if answer == leaving.STOP:
            self.is_stopping = True
            # Asked a second time, the recorder would not wait for a checkpoint to be saved.
            if not self.trials.is_starting:
                self.requests.stop()
        if answer in (leaving.STOP, leaving.LEAVE):
            self.exit()

    def warn(self, text: str) -> None:
        """Say why something cannot be done."""
        self.notify(text, severity="warning", markup=False)

    def _fatal_error(self) -> None:
        """Leave; ``commands.crash`` reports the error. Textual would print every local variable."""
        self.crash = sys.exc_info()[1]
        self._close_messages_no_wait()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A failure of the app's own work in the background is said, and never ends the app."""
        if event.state is WorkerState.ERROR:
            self.notify(str(event.worker.error), severity="error", markup=False, timeout=10)
