"""The part of the app that reads a run or a trace, and hands it to the screens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.reactive import reactive

from perftui_tui.dialogs.too_small import TooSmallScreen, is_too_small
from perftui_tui.reading import messages
from perftui_tui.reading.output import Output
from perftui_tui.reading.output_source import OutputSource
from perftui_tui.reading.run_source import RunSource
from perftui_tui.reading.running_script import running_script
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.thread import Clock, ReadingThread
from perftui_tui.reading.trace_source import TraceSource
from perftui_tui.screens.navigation import NavigatingApp
from perftui_tui.screens.run_screen import RunScreen

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui_tui.actions.playback import Playback
    from perftui_tui.actions.rank_traces import RankTraces
    from perftui_tui.actions.recorder_requests import RecorderRequests
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.actions.trials import Trials


FIRST_MESSAGE_SECONDS = 0.3
"""How long the first frame waits for what is read: drawn empty, it would be drawn twice."""


class ReadingApp(NavigatingApp):
    """Reads the run directory or the trace file at ``target``, and hands on what comes of it."""

    snapshot: reactive[Snapshot | None] = reactive(
        None, init=False, repaint=False, always_update=True
    )
    """What the current screen shows."""
    output: reactive[Output] = reactive(Output(), init=False, repaint=False)
    """The script's output."""
    paused: reactive[bool] = reactive(False, init=False, repaint=False)
    """Whether new snapshots are received but not shown."""

    requests: RecorderRequests
    source_fixes: SourceFixes
    trials: Trials
    rank_traces: RankTraces
    playback: Playback

    def __init__(self, target: Path, *, replay: bool, clock: Clock) -> None:
        super().__init__()
        self.target = target
        self.is_replay = replay
        self.failure: str | None = None
        """Why nothing can be shown; printed again in the terminal after the app."""
        self.rank_number = 0
        """The rank of a run that is shown."""
        self.own: Path | None = target if target.is_dir() else None
        """The run that this app was started for or started itself: leaving asks about it."""
        self.attached_to: Path | None = None
        """The run that somebody else started and we only watch, however it is left."""
        self.newest: Snapshot | None = None
        """What was received last; the screens show an older one while paused."""
        self.preview: TraceAnalysis | None = None
        """What can be drawn of a trace while the rest of it is read."""
        self.shows_frames = False
        """Whether what is drawn is shown: not before it is known what is read first."""
        self._clock = clock
        self._newest_output = Output()
        self._sources: tuple[ReadingThread, ...] = ()

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

    def open(self, target: Path) -> None:
        """Show another run or trace from now on."""
        self.close()
        self.playback.stop()
        self.target = target
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

    def _running_script(self) -> str | None:
        """The script of the own run that still runs; None where it does not.

        Before the first snapshot the manifest is asked: a training must not be left by accident.
        """
        if self.own is None or self.own == self.attached_to:
            return None
        if self.newest is not None and self.newest.source == self.own:
            return self.newest.title if self.newest.phase.is_live else None
        return running_script(self.own)

    def action_trial(self) -> None:
        """Show the trial or the tuning that runs, or the last one."""
        self.trials.show_latest()

    def action_probe(self) -> None:
        """Offer to measure what this machine can do at most."""
        self.trials.offer_probe()

    def refresh_experiment(self) -> None:
        """Draw how a trial or a tuning stands."""
        screen = self.base_screen()
        if screen is not None and screen.is_composed:
            screen.show_experiment()

    def show_rank(self, rank: int) -> None:
        """Show another rank of the run on all screens."""
        if rank != self.rank_number:
            self.rank_number = rank
            self.open(self.target)
            self.notify(f"rank {rank} on all screens", timeout=2)

    def close(self) -> None:
        """Stop reading."""
        for source in self._sources:
            source.stop()
        self._sources = ()

    # What the source sends

    def on_snapshot_received(self, message: messages.SnapshotReceived) -> None:
        """Put the snapshot on screen, unless paused or the terminal is behind."""
        if message.snapshot.source != self.target or message.snapshot is self.newest:
            return
        if message.snapshot.as_of is not None:
            if self.playback.takes(message.snapshot):
                self.snapshot = message.snapshot
            return
        is_first, self.newest, self.preview = self.newest is None, message.snapshot, None
        self.requests.watch(message.snapshot)
        if is_first and message.snapshot.is_memory_alone:
            self.action_show("memory")
        if self.paused or not self.playback.finished(message.snapshot):
            return
        # A run that is over is reported once: that picture is never skipped.
        if not message.snapshot.phase.is_live or not self._terminal_is_behind():
            self.snapshot = message.snapshot

    def wait_for_first_message(self) -> None:
        """Let the first frame show what is read, if that does not take long."""
        self.shows_frames = True
        for source in self._sources[:1]:
            word = source.first_message(FIRST_MESSAGE_SECONDS)
            if isinstance(word, messages.SnapshotReceived):
                self.on_snapshot_received(word)
            self.call_after_refresh(source.is_drawn.set)
        self.screen.refresh()

    def _terminal_is_behind(self) -> bool:
        """Whether frames still wait to be written: on a slow link another would delay the keys."""
        writer = getattr(self._driver, "_writer_thread", None)
        queue = getattr(writer, "_queue", None)
        return self.snapshot is not None and queue is not None and bool(queue.qsize() > 1)

    def on_output_received(self, message: messages.OutputReceived) -> None:
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
        """Draw the first part of a trace while the rest of it is read."""
        if message.path == self.target and self.newest is None:
            self.preview = message.analysis
            screen = self.base_screen()
            if screen is not None and screen.is_composed:
                screen.show_preview(message.analysis)

    def on_ranks_read(self, message: messages.RanksRead) -> None:
        """The trace of one more rank has been read."""
        self.rank_traces.take(message)

    def on_load_progressed(self, message: messages.LoadProgressed) -> None:
        """Show the progress of reading a trace."""
        if isinstance(self.screen, RunScreen) and self.screen.is_composed:
            self.screen.loading_progress(message.path, message.done)

    def validate_snapshot(self, snapshot: Snapshot | None) -> Snapshot | None:
        """Add what was proven and written since it was read."""
        if snapshot is None:
            return None
        return self.trials.proofs.on(snapshot, self.source_fixes.fixes_of(snapshot.source))

    def show_proofs(self) -> None:
        """Draw what was proven or written meanwhile."""
        self.snapshot = self.snapshot

    def watch_snapshot(self) -> None:
        """Hand the snapshot to the screen on top; others take it when they are returned to."""
        self.refresh_screen()
        self.trials.compare_when_steady()

    def watch_output(self) -> None:
        """Hand the output to the screen on top."""
        screen = self.base_screen()
        if screen is not None and screen.is_composed:
            screen.show_output(self.output)
