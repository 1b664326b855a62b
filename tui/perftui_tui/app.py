"""The app: what it reads, which screen is shown, and what keys do whichever that is."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.actions import SkipAction
from textual.app import SystemCommand
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen

from perftui.trace.text import printable
from perftui_tui.actions.other_traces import Baseline, RankTraces
from perftui_tui.actions.playback import Playback
from perftui_tui.actions.requests import RecorderRequests
from perftui_tui.actions.source_fixes import SourceFixes
from perftui_tui.actions.trials import Trials
from perftui_tui.dialogs.too_small import TooSmallScreen, is_too_small
from perftui_tui.keys.all_keys import SCREENS
from perftui_tui.keys.own_keys import NO_OVERRIDES, Overrides, bindings, use
from perftui_tui.look.themes import DEFAULT_THEME, THEMES, AsciiFilter, SteadyStylesheet
from perftui_tui.reading import source as messages
from perftui_tui.reading.output import Output, OutputReceived, OutputSource
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.source import Clock, ReadingThread, RunSource, TraceSource, running_script
from perftui_tui.screens.playback_bar import PlaybackBar
from perftui_tui.screens.run_screen import RunScreen, Session, palette_commands
from perftui_tui.widgets.row_view import RowView, loading

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui.trace.nsys.report import Exporting


LOADING_SECONDS = 1.0
"""A wait that is longer is told."""

FIRST_MESSAGE_SECONDS = 0.3
"""How long the first frame waits for what is read: drawn empty, it would be drawn twice."""


def _make(name: str) -> Screen[None]:
    """A screen, imported on its first visit, to keep the first frame quick."""
    module = import_module(f"perftui_tui.screens.{name}")
    screen: Screen[None] = getattr(module, f"{name.capitalize()}Screen")()
    return screen


class PerftuiApp(Session):
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
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        name: partial(_make, name) for name in SCREENS
    }
    DEFAULT_MODE = SCREENS[0]

    def __init__(
        self,
        target: Path,
        *,
        replay: bool = False,
        theme: str = DEFAULT_THEME,
        keys: Overrides = NO_OVERRIDES,
        clock: Clock = time.time_ns,
    ) -> None:
        super().__init__()
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
        self.failure: str | None = None
        """Why nothing can be shown; printed again in the terminal after the app."""
        self.target = target
        self.is_replay = replay
        self.rank_number = 0
        """The rank of a run that is shown."""
        self.own = target if target.is_dir() else None
        self.attached_to: Path | None = None
        """The run that somebody else started and we only watch, however it is left."""
        self.notes: tuple[str, ...] = ()
        """Notifications at the start: which of several traces this is."""
        self._clock = clock
        self._newest_output = Output()
        self._loading: tuple[Path, float | Exporting, float] | None = None
        """A file that is being read, how far, and since when by ``time.monotonic``."""
        self._sources: tuple[ReadingThread, ...] = ()
        self.requests = RecorderRequests(self)
        self.source_fixes = SourceFixes(self)
        self.baseline = Baseline(self)
        self.trials = Trials(self, self.baseline, self.source_fixes, self.requests)
        self.rank_traces = RankTraces(self)
        self.playback = Playback(self)

    def on_load(self) -> None:
        """Begin to read, before there is anything to show it on."""
        self.open(self.target)

    def on_mount(self) -> None:
        """Apply the person's keys and show the first message, warnings and notes."""
        self.set_keymap({name: ",".join(keys) for name, keys in self.own_keys.keys.items()})
        for complaint in self.own_keys.complaints:
            self.warn(complaint)
        # Textual takes what it drew before ``fg`` for what is there.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        if not self.is_headless:
            # asyncio looks up from waiting for a signal only where one is handled through it:
            # without this, SIGCONT that another thread takes (1 of 40 times) leaves the screen
            # empty after `fg` until the next key.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        # The first frame shows what is read, if that does not take long.
        self.shows_frames = True
        for source in self._sources[:1]:
            word = source.first_message(FIRST_MESSAGE_SECONDS)
            if isinstance(word, messages.SnapshotReceived):
                self.on_snapshot_received(word)
            self.call_after_refresh(source.is_drawn.set)
        self.screen.refresh()
        self.set_interval(LOADING_SECONDS, self._show_loading)
        if self.once_made is not None:
            self.once_made()
        for note in self.notes:
            self.notify(printable(note), markup=False, timeout=10)

    def on_unmount(self) -> None:
        """Stop reading when the app ends, and start nothing that nobody would see."""
        self.trials.cancel()
        self.rank_traces.stop()
        self.playback.stop()
        self._close()

    def _fatal_error(self) -> None:
        """Leave; ``commands.farewell`` reports it. Textual would print every local variable."""
        self.crash = sys.exc_info()[1]
        self._close_messages_no_wait()

    # How it looks

    def action_next_theme(self) -> None:
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
        for command in super().get_system_commands(screen):
            # Our own picture is saved with a note of where it lies.
            if command.title != "Screenshot":
                yield command
        yield from palette_commands(self, screen)

    def action_picture(self) -> None:
        from perftui_tui.tables.rows import save_new

        try:
            path = save_new(
                self.export_screenshot(), Path.cwd(), f"perftui-{self.current_mode}", ".svg"
            )
        except OSError as error:
            self.warn(f"the screenshot cannot be saved here: {error.strerror or error}")
            return
        self.notify(f"screenshot saved: {path}", timeout=6, markup=False)

    # From screen to screen, and back

    def base_screen(self) -> RunScreen | None:
        """The run screen, also under a dialog."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, RunScreen)), None)

    def _composed_screen(self) -> RunScreen | None:
        screen = self.base_screen()
        return screen if screen is not None and screen.is_composed else None

    def refresh_screen(self) -> None:
        """Draw the current state again."""
        screen = self.base_screen()
        if screen is not None:
            with self.batch_update():
                screen.refresh_state()

    @property
    def is_asking(self) -> bool:
        return not isinstance(self.screen, RunScreen)

    def action_help(self) -> None:
        from perftui_tui.dialogs.help import HelpDialog, pane_of

        screen = self.screen
        if isinstance(screen, RunScreen):
            pane = pane_of(screen.focused)
            self.push_screen(HelpDialog(screen.NAME, screen.HELP, pane, self.snapshot))

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

    def action_show(self, name: str) -> None:
        """Go to a screen by its name; it was chosen, so no way leads back from it."""
        self._go(name, ())

    def follow(self, name: str) -> None:
        """Go to the screen that something on this one leads to; ``backspace`` leads back."""
        if self.current_mode != name:
            self._go(name, (*self.trail, self.current_mode))

    def action_return(self) -> None:
        if self.trail:
            self._go(self.trail[-1], self.trail[:-1])

    def _go(self, name: str, trail: tuple[str, ...]) -> None:
        if self.is_asking:
            return
        self.trail = trail
        if self.current_mode != name:
            if self.snapshot is not None:  # notes of the start are read on the first screen
                self.close_notices()
            self.switch_mode(name)
        else:
            self.refresh_screen()

    def action_next_screen(self, step: int) -> None:
        self.action_show(SCREENS[(SCREENS.index(self.current_mode) + step) % len(SCREENS)])

    def on_resize(self, event: events.Resize) -> None:
        self.check_size(event.size)
        if self.target != self.attached_to:
            self.requests.resized(event.size)

    def check_size(self, size: Size) -> None:
        """Show which size the screen needs where there is less, else the screen."""
        screen = self.base_screen()
        if screen is None:
            return
        shown = next((s for s in self.screen_stack if isinstance(s, TooSmallScreen)), None)
        if is_too_small(size, screen.NEEDED) and shown is None:
            goes_on = self.snapshot is not None and self.snapshot.goes_on
            self.push_screen(TooSmallScreen(goes_on, screen.NEEDED))
        elif shown is self.screen and not is_too_small(size, screen.NEEDED):
            self.pop_screen()

    # What is read

    def open(self, target: Path) -> None:
        """Show another run or trace from now on."""
        self._close()
        self.playback.stop()
        self.target, self._loading = target, None
        self.output = self._newest_output = Output()
        self.newest = self.preview = None
        # What was held is a picture of something else.
        self.paused = False
        if target.is_dir():
            self._sources = (
                RunSource(target, self.post_message, self._clock, self.rank_number),
                OutputSource(target / "output.log", self.post_message),
            )
        else:
            facts_of = self.rank_traces.facts_of if self.rank_traces.knows(target) else None
            self._sources = (TraceSource(target, self.post_message, self._clock, facts_of),)
        for source in self._sources:
            source.start()

    def _close(self) -> None:
        for source in self._sources:
            source.stop()
        self._sources = ()

    def open_run(self, root: Path, *, is_live: bool) -> None:
        """Show another recorded run; one that lives is only watched, unless it is our own."""
        self.rank_number = 0
        if self.own == self.attached_to:
            self.own = None
        self.attached_to = root if is_live and root != self.own else None
        self.is_replay = not is_live
        self.open(root)

    def open_own(self, root: Path) -> None:
        """Show the run at ``root``, which was started here: leaving asks about it."""
        self.is_replay = False
        self.own, self.attached_to = root, None
        self.open(root)

    def show_rank(self, rank: int) -> None:
        """Show another rank of the run on all screens."""
        if rank != self.rank_number:
            self.rank_number = rank
            self.open(self.target)
            self.notify(f"rank {rank} on all screens", timeout=2)

    def on_snapshot_received(self, message: messages.SnapshotReceived) -> None:
        """Put the snapshot on screen, unless paused or the terminal is behind."""
        snapshot = message.snapshot
        if snapshot.source != self.target or snapshot is self.newest:
            return
        self._loading = None
        if snapshot.as_of is not None:
            if self.playback.takes(snapshot):
                self.snapshot = snapshot
            return
        is_first, self.newest, self.preview = self.newest is None, snapshot, None
        self.requests.watch(snapshot)
        if is_first and snapshot.is_memory_alone:
            self.action_show("memory")
        if self.paused or not self.playback.finished(snapshot):
            return
        # A run that is over is reported once: that picture is never skipped.
        if not snapshot.phase.is_live or not self._terminal_is_behind():
            self.snapshot = snapshot

    def _terminal_is_behind(self) -> bool:
        """Whether frames still wait to be written: on a slow link another would delay the keys."""
        queue = getattr(getattr(self._driver, "_writer_thread", None), "_queue", None)
        return self.snapshot is not None and queue is not None and bool(queue.qsize() > 1)

    def on_output_received(self, message: OutputReceived) -> None:
        """Store the newest output, and show it unless paused."""
        self._newest_output = message.output
        if not self.paused:
            self.output = message.output

    def on_source_failed(self, message: messages.SourceFailed) -> None:
        """Leave with the reason where there is nothing to show, else notify of it."""
        if self.snapshot is None and message.is_all:
            self.failure = message.reason
            self.exit(return_code=2)
        else:
            self.notify(message.reason, severity="error", markup=False, timeout=10)

    def on_preview_received(self, message: messages.PreviewReceived) -> None:
        if message.path == self.target and self.newest is None:
            self.preview = message.analysis
            if screen := self._composed_screen():
                screen.show_preview(message.analysis)

    def on_ranks_read(self, message: messages.RanksRead) -> None:
        self.rank_traces.take(message)

    def on_load_progressed(self, message: messages.LoadProgressed) -> None:
        path, done = message.path, message.done
        known = self._loading
        since = known[2] if known is not None and known[0] == path else time.monotonic()
        self._loading = None if done is None else (path, done, since)
        self._show_loading()

    def _show_loading(self) -> None:
        """Show how far a file is read, and for how long; beside a picture, if it takes a second."""
        screen = self._composed_screen()
        if self._loading is None or screen is None:
            return
        path, done, since = self._loading
        seconds = time.monotonic() - since
        if self.snapshot is None or seconds >= LOADING_SECONDS:
            screen.loading_progress(loading(path.name, done, seconds), done)

    def validate_snapshot(self, snapshot: Snapshot | None) -> Snapshot | None:
        """Add what was proven and written since it was read."""
        if snapshot is None:
            return None
        return self.trials.proofs.on(snapshot, self.source_fixes.fixes_of(snapshot.source))

    def watch_snapshot(self) -> None:
        """Hand the snapshot to the screen on top; others take it when they are returned to."""
        self.refresh_screen()
        self.trials.compare_when_steady()
        self.trials.take_up()

    def watch_output(self) -> None:
        if screen := self._composed_screen():
            screen.show_output(self.output)

    # Playing a saved run

    def action_playback(self) -> None:
        """Play from the start at the end of the run, else give the keys to the bar, or back."""
        if not self.playback.is_on and (reason := self.playback.begin()):
            self.warn(reason)
            return
        screen, position = self.base_screen(), self.playback.position
        if screen is None or screen is not self.screen or position is None:
            return
        if position.is_end:
            self.playback.toggle()
            screen.query_one(PlaybackBar).take_keys()
        else:
            screen.query_one(PlaybackBar).change_keys()

    def refresh_bar(self) -> None:
        """Draw the position of the playback."""
        if screen := self._composed_screen():
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
        snapshot = self.newest
        if snapshot is None or snapshot.run is None or not snapshot.goes_on:
            self.notify("only a running training can be profiled", severity="warning")
            return
        self.requests.capture(snapshot)

    def action_trial(self) -> None:
        self.trials.show_latest()

    def action_probe(self) -> None:
        self.trials.offer_probe()

    def refresh_experiment(self) -> None:
        """Draw how a trial or a tuning stands."""
        if screen := self._composed_screen():
            screen.show_experiment()

    # Leaving

    async def action_interrupt(self) -> None:
        """Leave as ``q`` does, also while typing; where text is selected Textual copies it."""
        if getattr(self.focused, "selected_text", "") or self.screen.get_selected_text():
            raise SkipAction
        await self.action_quit()

    async def action_quit(self) -> None:
        from perftui_tui.dialogs.choice import QuitDialog, quit_dialog
        from perftui_tui.dialogs.experiment import quit_experiment_dialog

        if isinstance(self.screen, QuitDialog):
            return
        running = self.trials.running
        if running is not None and not running.is_leaving:
            stop = running.stop_and_leave
            dialog = quit_experiment_dialog(running.view, running.state, self.exit, stop)
            self.push_screen(dialog, self.answer)
            return
        script = self._running_script()
        if script is None:
            self.exit()
        else:
            root = self.own or self.target
            self.push_screen(quit_dialog(script, root, self.exit, self._stop), self.answer)

    def _running_script(self) -> str | None:
        """The script of the own run that still runs; None where it does not.

        Before the first snapshot the manifest is asked: a training must not be left by accident."""
        if self.own is None or self.own == self.attached_to:
            return None
        if self.newest is not None and self.newest.source == self.own:
            return self.newest.title if self.newest.phase.is_live else None
        return running_script(self.own)

    def _stop(self) -> None:
        """Stop the training and leave."""
        self.is_stopping = True
        # Asked a second time, the recorder would not wait for a checkpoint to be saved.
        if not self.trials.is_starting:
            self.requests.stop()
        self.exit()
