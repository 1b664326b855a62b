"""The app: its theme, its keys, and what they do whichever screen is shown."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.actions import SkipAction
from textual.app import App, SystemCommand
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from perftui.trace.text import printable
from perftui_tui.actions.baseline import Baseline
from perftui_tui.actions.playback import Playback
from perftui_tui.actions.rank_traces import RankTraces
from perftui_tui.actions.recorder_requests import RecorderRequests
from perftui_tui.actions.source_fixes import SourceFixes
from perftui_tui.actions.trials import Trials
from perftui_tui.keys.keymap import bindings, use
from perftui_tui.keys.overrides import NO_OVERRIDES, Overrides
from perftui_tui.look.ascii import AsciiFilter
from perftui_tui.look.stylesheet import SteadyStylesheet
from perftui_tui.look.themes import DEFAULT_THEME, THEMES
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.thread import Clock
from perftui_tui.screens.palette_commands import palette_commands
from perftui_tui.screens.reading_app import ReadingApp
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui.trace.ncu import KernelMetrics
    from perftui.trace.rank_files import RankFile


class PerftuiApp(ReadingApp):
    """Shows the run directory or the trace file at ``target``."""

    TITLE = "perftui"
    # Scroll bars and plots are made of block characters.
    CSS = """
    .-ascii RowView { scrollbar-size-vertical: 0; }
    .-ascii #distribution { display: none; }
    """
    # The default focuses the first widget that can be, even a hidden one, and its keys then fill
    # the footer.
    AUTO_FOCUS = None
    BINDINGS = bindings("app")
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        target: Path,
        *,
        replay: bool = False,
        theme: str = DEFAULT_THEME,
        keys: Overrides = NO_OVERRIDES,
        clock: Clock = time.time_ns,
    ) -> None:
        super().__init__(target, replay=replay, clock=clock)
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        self.stylesheet = SteadyStylesheet(self.get_css_variables())
        self.own_keys = keys
        use(keys)
        self.set_class(RowView.ascii_only, "-ascii")
        self._ascii, self._no_color = AsciiFilter(), NoColor()
        self.once_made: Callable[[], None] | None = None
        """Called when all is there that the first frame needs."""
        self.crash: BaseException | None = None
        """What went wrong in the app itself, where it ended so."""
        self.is_stopping = False
        """Whether the training was asked to stop on leaving."""
        self.requests = RecorderRequests(self)
        self.source_fixes = SourceFixes(self)
        self.baseline = Baseline(self)
        self.trials = Trials(self, self.baseline, self.source_fixes, self.requests)
        self.rank_traces = RankTraces(self)
        self.playback = Playback(self)
        self.notes: tuple[str, ...] = ()
        """Notifications at the start: which of several traces this is."""
        self.ranks: tuple[RankFile, ...] = ()
        """The traces of all ranks, where a directory of them was named."""
        self.kernel_metrics: KernelMetrics | None = None
        """What ncu measured of the kernels, where that was given too."""

    def on_load(self) -> None:
        """Begin to read, before there is anything to show it on."""
        self.open(self.target)

    def on_mount(self) -> None:
        """Apply the person's keys and show the first message, warnings and notes."""
        self.set_keymap({name: ",".join(keys) for name, keys in self.own_keys.keys.items()})
        for complaint in self.own_keys.complaints:
            self.warn(complaint)
        self.app_resume_signal.subscribe(self, self._resumed)
        if not self.is_headless:
            # asyncio looks up from waiting for a signal only where one is handled through it:
            # without this, SIGCONT that another thread takes (1 of 40 times) leaves the screen
            # empty after `fg` until the next key.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self.wait_for_first_message()
        if self.once_made is not None:
            self.once_made()
        for note in self.notes:
            self.notify(printable(note), markup=False, timeout=10)

    def on_unmount(self) -> None:
        """Stop reading when the app ends, and start nothing that nobody would see."""
        self.trials.cancel()
        self.rank_traces.stop()
        self.playback.stop()
        self.close()

    def _resumed(self, _app: App[object]) -> None:
        """Draw everything after ``fg``: Textual takes what it drew before for what is there."""
        self.refresh(layout=True)

    def on_resize(self, event: events.Resize) -> None:
        """Tell where the terminal is too small, and resize the script's terminal."""
        self.check_size(event.size)
        if self.target != self.attached_to:
            self.requests.resized(event.size)

    def action_help(self) -> None:
        """Keys, and what this screen shows."""
        from perftui_tui.dialogs.help import HelpDialog, pane_of

        screen = self.screen
        if isinstance(screen, RunScreen):
            pane = pane_of(screen.focused)
            self.push_screen(HelpDialog(screen.NAME, screen.HELP, pane, self.snapshot))

    def action_next_theme(self) -> None:
        """The next of our own themes."""
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]
        self.notify(f"theme {self.theme}", timeout=2)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours in Textual's own themes, which the palette offers too."""
        dark, light, *_ = THEMES
        return (dark if self.current_theme.dark else light).variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's, and ASCII last; NO_COLOR leaves no greys either, which are colours too."""
        filters = [f for f in super().get_line_filters() if not isinstance(f, Monochrome)]
        if self.no_color:
            filters.append(self._no_color)
        return [*filters, self._ascii] if RowView.ascii_only else filters

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Textual's commands, and ours."""
        for command in super().get_system_commands(screen):
            # Our own picture is saved with a note of where it lies.
            if command.title != "Screenshot":
                yield command
        yield from palette_commands(self, screen)

    # Taking something along

    def action_picture(self) -> None:
        """Save a picture of the screen, with what lies over it, in the current directory."""
        from perftui_tui.tables.csv_files import save_new

        try:
            path = save_new(
                self.export_screenshot(), Path.cwd(), f"perftui-{self.current_mode}", ".svg"
            )
        except OSError as error:
            self.warn(f"the screenshot cannot be saved here: {error.strerror or error}")
            return
        self.notify(f"screenshot saved: {path}", timeout=6, markup=False)

    # Charts

    def action_study(self, name: str = "") -> None:
        """Open the charts, the one called ``name`` first; plotext is imported here, not before."""
        from perftui_tui.dialogs.chart import ChartScreen

        if not isinstance(self.screen, RunScreen):
            return
        found = self.screen.charts()
        if not found:
            self.warn("nothing to chart yet: no step and no sample recorded")
            return
        self.push_screen(ChartScreen(found, name or self.screen.CHART))

    # Playing a saved run

    def action_playback(self) -> None:
        """Begin to play, or give the keys to the bar, or back to the screen."""
        if not self.playback.is_on:
            reason = self.playback.begin()
            if reason:
                self.warn(reason)
                return
            self.refresh_screen()
        screen = self.base_screen()
        if screen is not None and screen is self.screen:
            screen.change_keys()

    def take_played(self, snapshot: Snapshot) -> None:
        """Show the run as it is known now, at the end of what is played."""
        self.snapshot = snapshot
        self.refresh_bar()

    def refresh_bar(self) -> None:
        """Draw the position of the playback."""
        screen = self.base_screen()
        if screen is not None and screen.is_composed:
            screen.show_position()

    # Doing things to the run

    def action_pause(self) -> None:
        """Hold the picture, or catch up; where a run is played, hold it or go on."""
        if self.playback.is_on:
            self.playback.toggle()
            return
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
        if snapshot is None or snapshot.run is None or not snapshot.goes_on:
            self.notify("only a running training can be profiled", severity="warning")
            return
        self.requests.capture(snapshot)

    async def action_quit(self) -> None:
        """Leave, after asking what to do with a running training, trial or tuning."""
        from perftui_tui.dialogs.experiment import QuitExperimentDialog
        from perftui_tui.dialogs.run import QuitDialog

        if isinstance(self.screen, (QuitDialog, QuitExperimentDialog)):
            return
        running = self.trials.running
        if running is not None and not running.is_leaving:
            self.push_screen(
                QuitExperimentDialog(running.view, running.state), self._leave_experiment
            )
            return
        script = self._running_script()
        if script is None:
            self.exit()
        else:
            self.push_screen(QuitDialog(script, self.own or self.target), self._leave)

    async def action_interrupt(self) -> None:
        """Leave as ``q`` does, also while typing; where text is selected Textual copies it."""
        if getattr(self.focused, "selected_text", "") or self.screen.get_selected_text():
            raise SkipAction
        await self.action_quit()

    def _leave_experiment(self, answer: str | None) -> None:
        from perftui_tui.dialogs.run import STOP

        if answer == STOP and self.trials.latest is not None:
            self.trials.latest.stop_and_leave()

    def _leave(self, answer: str | None) -> None:
        from perftui_tui.dialogs.run import LEAVE, STOP

        if answer == STOP:
            self.is_stopping = True
            # Asked a second time, the recorder would not wait for a checkpoint to be saved.
            if not self.trials.is_starting:
                self.requests.stop()
        if answer in (STOP, LEAVE):
            self.exit()

    def warn(self, text: str) -> None:
        """Notify of something that cannot be done."""
        self.notify(text, severity="warning", markup=False)

    def _fatal_error(self) -> None:
        """Leave; ``commands.farewell`` reports it. Textual would print every local variable."""
        self.crash = sys.exc_info()[1]
        self._close_messages_no_wait()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Notify of a failure of background work; it never ends the app."""
        if event.state is WorkerState.ERROR:
            self.notify(str(event.worker.error), severity="error", markup=False, timeout=10)
