"""Threads that read a run again and again, or a file, and the messages that they post."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
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
    from perftui.run.reader import RunReader, RunSnapshot
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

    ``is_all`` is False where only a part of it is missing."""

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
        """Read until done or ``stopped``. Raises LoadCancelled if it was stopped while loading a
        trace."""
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
    taken from the training. Nothing is started meanwhile that could inherit the variable."""
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
"""Share of a core that reading may take, judging as much, and drawing twice as much."""

LONGEST_POLL_SECONDS = 15.0

JUDGE = "perftui_tui.reading.view"
"""The module that loads all rules and fixes: 0.2 to 0.6 s, on slow machines as much as all that the
first frame needs."""

PATIENCE_SECONDS = 1.0
"""Seconds to wait at most until the first frame is drawn, or a picture is judged."""

TRIES = 5
"""Failed reads in a row before it is reported: a network disk comes back."""


class RunSource(ReadingThread):
    """Polls the run directory ``path`` until stopped.

    A run that is over is read once more and then left alone. One that cannot be read is tried again
    and again: its training may go on."""

    def __init__(
        self, path: Path, post: Post, clock: Clock = time.time_ns, rank_number: int = 0
    ) -> None:
        super().__init__(path, post)
        self._clock = clock
        self._rank_number = rank_number
        self._failures = 0
        self._judges: tuple[RunView, SteadyVerdict] | None = None
        self._judging: Future[tuple[Snapshot, float]] | None = None
        self._judged: Snapshot | None = None
        self._pause, self._due, self._cost = POLL_SECONDS, 0.0, 0.0
        """Seconds between the last judgement and the next, 0 where that has something to add; the
        monotonic time of the next; the CPU seconds of the last."""

    def read(self) -> None:
        from perftui.run.reader import RunReader

        reader, before = RunReader(self.path), 0.0
        while not self.stopped.is_set():
            began = time.thread_time()
            if not self._post_one(reader):
                break
            cost = time.thread_time() - began
            if self._judging is None and self._pause:
                self.stopped.wait(pause_after(min(cost, before)))
            before = cost

    def _with_steps_of(self, run: RunSnapshot) -> Snapshot:
        """What was judged last, if anything, with the steps and samples of ``run``."""
        from perftui.facts.fact import Facts
        from perftui_tui.reading.first_look import unjudged

        number = self._rank_number
        new = unjudged(run, Facts(run, None, number), number, self._clock())
        names = ("now_ns", "phase", "run", "breakdown", "step_ms", "train_steps", "train")
        return replace(self._judged or new, **{name: getattr(new, name) for name in names})

    def _post_one(self, reader: RunReader) -> bool:
        """Post a picture, judged if that is due and soon done; whether another may follow."""
        try:
            run = reader.poll()
            is_over = run.manifest.status.is_over
            if self.first is None and JUDGE not in sys.modules:
                # The first frame neither waits for what judges to be loaded, nor is slowed by it.
                self.report(SnapshotReceived(self._with_steps_of(run)))
                self.is_drawn.wait(PATIENCE_SECONDS)
            if self._judging is None and (is_over or time.monotonic() >= self._due):
                from perftui.telemetry.source import in_thread

                self._judging = in_thread(partial(self._judge, run))
            if self._judging is not None and wait([self._judging], PATIENCE_SECONDS).done:
                judging, self._judging = self._judging, None
                self._judged, self._pause = judging.result()
                self._due = time.monotonic() + self._pause
        except (ManifestError, OSError) as error:
            self._failures += 1
            if self._failures == TRIES:
                self.report(SourceFailed(str(error)))
            return True
        self._failures, judged = 0, self._judged
        if judged is not None and (judged.run is run or not judged.phase.is_live):
            self.report(SnapshotReceived(judged))
        elif not is_over:
            self.report(SnapshotReceived(self._with_steps_of(run)))
        is_live = judged is None or judged.phase.is_live
        return is_live or not self._pause or self._judging is not None

    def _judge(self, run: RunSnapshot) -> tuple[Snapshot, float]:
        """``run`` judged, and the pause until the next time."""
        from perftui_tui.reading.view import RunView, SteadyVerdict

        given = (self.path, self._clock, self.stopped.is_set, self._rank_number, self._progressed)
        view, steady = self._judges = self._judges or (RunView(*given), SteadyVerdict())
        snapshot = steady.hold(view.judge(run))
        before, self._cost = self._cost, time.thread_time()
        # A cost that comes once (imports, a new window) is no reason to look away for long.
        return snapshot, 0.0 if view.unfinished else pause_after(min(before, self._cost))

    def _progressed(self, window: Path, done: float | None) -> None:
        self.report(LoadProgressed(window, done))


def pause_after(cost: float) -> float:
    """Seconds to wait after what took ``cost`` seconds of CPU time."""
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
        """Read it once. Raises LoadCancelled if it was stopped meanwhile."""
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
        """Read a memory snapshot and post its allocations. Raises LoadCancelled if it was stopped
        meanwhile."""
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
