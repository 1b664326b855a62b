"""The threads that read a run again and again, or a file: a trace, a snapshot of GPU memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.manifest import ManifestError, run_state
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.thread import (
    Clock,
    LoadProgressed,
    Post,
    PreviewReceived,
    ReadingThread,
    SnapshotReceived,
    SourceFailed,
)

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.fact import Facts
    from perftui.run.reader import RunReader
    from perftui.trace.nsys.report import Exporting
    from perftui_tui.reading.view import RunView

POLL_SECONDS = 1.0
"""One picture a second: at four, a terminal on a slow link lags behind its keys by seconds."""

DUTY = 0.008
"""Share of a core that reading may take, drawing what was read taking twice as much: the training
needs the rest. Where Python is slow a picture comes a little later than each second, and a run of a
million steps, which takes half a second to read and judge, is read every fifteen."""

LONGEST_POLL_SECONDS = 15.0

JUDGE = "perftui_tui.reading.view"
"""The module that loads all rules and fixes: 0.2 to 0.6 s, on slow machines as much as all that the
first frame needs."""

DRAWN_SECONDS = 1.0
"""Seconds to wait at most until the first frame is drawn."""

TRIES = 5
"""Failed reads in a row before it is reported: a network disk comes back."""


class RunSource(ReadingThread):
    """Polls the run directory ``path`` until stopped.

    A run that is over is read once more and then left alone. One that cannot be read is tried
    again and again: its training may go on.
    """

    def __init__(
        self, path: Path, post: Post, clock: Clock = time.time_ns, rank_number: int = 0
    ) -> None:
        super().__init__(path, post)
        self._clock = clock
        self._rank_number = rank_number
        self._failures = 0

    def read(self) -> None:
        """Post a picture for each read."""
        reader = self._look_first()
        from perftui_tui.reading.view import RunView

        view = RunView(self.path, self._clock, self.stopped.is_set, self._rank_number, reader)
        before = 0.0
        while not self.stopped.is_set():
            began = time.thread_time()
            if not self._post_one(view):
                break
            cost = time.thread_time() - began
            # A cost that comes once (imports, a new window) is no reason to look away for long.
            if not view.unfinished:
                self.stopped.wait(pause_after(min(cost, before)))
            before = cost

    def _look_first(self) -> RunReader | None:
        """Post the run before it is judged, where all that judges has yet to be loaded: the first
        frame does not wait for that, nor is it slowed by it. Returns what has read it."""
        if JUDGE in sys.modules:
            return None
        from perftui.run.reader import RunReader
        from perftui_tui.reading.first_look import first_look

        reader = RunReader(self.path)
        try:
            snapshot = first_look(reader, self._clock(), self._rank_number)
        except (ManifestError, OSError):
            # Every read after this one meets it too, and reports it.
            return None
        self.report(SnapshotReceived(snapshot))
        self.is_drawn.wait(DRAWN_SECONDS)
        return reader

    def _post_one(self, view: RunView) -> bool:
        """Post a picture; whether another may follow."""
        try:
            snapshot = view.read()
        except (ManifestError, OSError) as error:
            self._failures += 1
            if self._failures == TRIES:
                self.report(SourceFailed(str(error)))
            return True
        self._failures = 0
        self.report(SnapshotReceived(snapshot))
        return snapshot.phase.is_live or view.unfinished


def pause_after(cost: float) -> float:
    """Seconds to wait after a read that took ``cost`` seconds of CPU time."""
    return min(max(POLL_SECONDS, cost / DUTY), max(POLL_SECONDS, LONGEST_POLL_SECONDS))


class TraceSource(ReadingThread):
    """Reads one trace file, reporting progress, and posts one snapshot."""

    def __init__(
        self,
        path: Path,
        post: Post,
        clock: Clock = time.time_ns,
        facts_of: Callable[[TraceAnalysis], Facts] | None = None,
    ) -> None:
        super().__init__(path, post)
        self._clock = clock
        self._facts_of = facts_of

    def read(self) -> None:
        """Read it once.

        Raises:
            LoadCancelled: it was stopped meanwhile.
        """
        from perftui.report.kind import Kind, kind_of
        from perftui.trace.model import TraceError
        from perftui_tui.reading.view import view_trace

        try:
            if kind_of(self.path) is Kind.MEMORY_SNAPSHOT:
                self._read_memory()
                return
            snapshot = view_trace(
                self.path,
                self._clock(),
                self._progressed,
                self.stopped.is_set,
                self._previewed,
                self._facts_of,
            )
        except (TraceError, OSError) as error:
            reason = str(error)
            message = reason if str(self.path) in reason else f"{self.path}: {reason}"
            self.report(SourceFailed(message))
        else:
            self.report(SnapshotReceived(snapshot))

    def _read_memory(self) -> None:
        """Read a memory snapshot and post its allocations.

        Raises:
            LoadCancelled: it was stopped meanwhile.
        """
        from perftui_tui.reading.memory import read_memory

        def progressed(read: int, whole: int) -> None:
            self._progressed(read / whole if whole else 1.0)

        memory = read_memory(self.path, self.stopped.is_set, progressed)
        if memory.problem is not None:
            self.report(SourceFailed(memory.problem))
            return
        shown = Snapshot(
            self.path,
            Phase.TRACE,
            self.path.name,
            self._clock(),
            allocations=memory.report,
            history=memory.over_time,
        )
        self.report(SnapshotReceived(shown))

    def _previewed(self, analysis: TraceAnalysis) -> None:
        self.report(PreviewReceived(self.path, analysis))

    def _progressed(self, done: float | Exporting) -> None:
        self.report(LoadProgressed(self.path, done))


def running_script(root: Path) -> str | None:
    """The script of the run at ``root``, None where it is over or ``root`` is no run."""
    try:
        manifest = run_state(root)
    except ManifestError:
        return None
    return None if manifest.status.is_over else manifest.script
