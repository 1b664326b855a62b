"""Threads that read a run again and again, or a file, and the messages that they post."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from perftui.run.manifest import ManifestError, run_state
from perftui_tui.reading.snapshot import Phase, Snapshot

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.fact import Facts
    from perftui.facts.ranks.rank_table import RankTable
    from perftui.facts.ranks.traced_ranks import TracedRank
    from perftui.run.reader import RunReader
    from perftui.trace.nsys.report import Exporting
    from perftui_tui.reading.view import RunView, SteadyVerdict


class Newest(Message):
    """Replaces one of its kind that still waits in the queue: a slow terminal never lags behind."""

    def can_replace(self, message: Message) -> bool:
        """Whether ``message`` is an older one of this kind."""
        return isinstance(message, type(self))


@dataclass(eq=False)
class SnapshotReceived(Newest):
    """The source has read a newer state."""

    snapshot: Snapshot


@dataclass(eq=False)
class LoadProgressed(Newest):
    """A trace is being read: ``done`` is a fraction from 0 to 1, or the progress of the program
    that exports it first, and None once it is read."""

    path: Path
    done: float | Exporting | None


@dataclass(eq=False)
class PreviewReceived(Newest):
    """The first part of a trace can be drawn while the rest is read; it has no tables yet."""

    path: Path
    analysis: TraceAnalysis


@dataclass(eq=False)
class SourceFailed(Message):
    """What was asked for cannot be shown; ``reason`` is why, and what to do.

    ``is_all`` is False where only a part of it is missing.
    """

    reason: str
    is_all: bool = field(default=True, kw_only=True)


@dataclass(eq=False)
class RanksRead(Newest):
    """One more of the ranks' traces at ``paths`` has been read; ``done`` so far."""

    paths: tuple[tuple[int, Path], ...]
    table: RankTable
    done: int
    ranks: tuple[TracedRank, ...]
    """Ranks that could be read."""
    problems: tuple[str, ...]
    """Why other ranks could not be read."""


Post = Callable[[Message], bool]
Clock = Callable[[], int]

BLAS_THREADS = "OPENBLAS_NUM_THREADS"

log = logging.getLogger(__name__)


class ReadingThread:
    """Reads ``path`` on a thread of its own; the app never waits for it, nor for its end."""

    def __init__(self, path: Path, post: Post) -> None:
        self.path = path
        self.stopped = threading.Event()
        self.first: Message | None = None
        """The first message that was posted."""
        self.is_drawn = threading.Event()
        """Set by the app once the first message is on screen."""
        self._has_reported = threading.Event()
        self._post = post
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; nothing is posted afterwards."""
        self.stopped.set()

    def read(self) -> None:
        """Read until done or ``stopped``.

        Raises:
            LoadCancelled: it was stopped while loading a trace.
        """
        raise NotImplementedError

    def first_message(self, patience: float) -> Message | None:
        """The first message, waited for at most ``patience`` seconds; it is posted as well."""
        self._has_reported.wait(patience)
        return self.first

    def report(self, message: Message) -> None:
        """Post ``message``, unless nobody listens any more."""
        if self.stopped.is_set():
            return
        self.first = self.first or message
        self._has_reported.set()
        self._post(message)

    def _run(self) -> None:
        from perftui.trace.model import LoadCancelled

        _import_numpy()
        try:
            self.read()
        except LoadCancelled:
            return
        except Exception as error:  # the thread's one boundary: the app must hear of any failure
            log.exception("reading %s failed", self.path)
            self.report(SourceFailed(f"{self.path}: {error}"))


def _import_numpy() -> None:
    """Import NumPy without the threads of its OpenBLAS, one for each core but one.

    Each first waits busily for work that never comes: 8 % of the CPU time of a start on 2 cores,
    taken from the training. Nothing is started meanwhile that could inherit the variable.
    """
    if "numpy" in sys.modules or BLAS_THREADS in os.environ:
        return
    os.environ[BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401 - for what it loads
    finally:
        del os.environ[BLAS_THREADS]


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
        reader = self._look_first()
        from perftui_tui.reading.view import RunView, SteadyVerdict

        steady = SteadyVerdict()
        view = RunView(
            self.path, self._clock, self.stopped.is_set, self._rank_number, reader, self._progressed
        )
        before = 0.0
        while not self.stopped.is_set():
            began = time.thread_time()
            if not self._post_one(view, steady):
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
        from perftui.facts.fact import Facts
        from perftui.run.reader import RunReader
        from perftui_tui.reading.first_look import unjudged

        reader, number = RunReader(self.path), self._rank_number
        try:
            run = reader.poll()
        except (ManifestError, OSError):
            # Every read after this one meets it too, and reports it.
            return None
        snapshot = unjudged(run, Facts(run, None, number), number, self._clock())
        self.report(SnapshotReceived(snapshot))
        self.is_drawn.wait(DRAWN_SECONDS)
        return reader

    def _progressed(self, window: Path, done: float | None) -> None:
        self.report(LoadProgressed(window, done))

    def _post_one(self, view: RunView, steady: SteadyVerdict) -> bool:
        """Post a picture; whether another may follow."""
        try:
            snapshot = steady.hold(view.read())
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
                lambda analysis: self.report(PreviewReceived(self.path, analysis)),
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
        from perftui.trace.model import as_share
        from perftui_tui.reading.memory import read_memory

        memory = read_memory(self.path, self.stopped.is_set, as_share(self._progressed))
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

    def _progressed(self, done: float | Exporting) -> None:
        self.report(LoadProgressed(self.path, done))


def running_script(root: Path) -> str | None:
    """The script of the run at ``root``, None where it is over or ``root`` is no run."""
    try:
        manifest = run_state(root)
    except ManifestError:
        return None
    return None if manifest.status.is_over else manifest.script
