"""Threads that read something, and the messages that they post to the app."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.ranks.rank_table import RankTable
    from perftui.facts.ranks.traced_ranks import TracedRank
    from perftui.trace.nsys.report import Exporting
    from perftui_tui.reading.snapshot import Snapshot


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
    that exports it first."""

    path: Path
    done: float | Exporting


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
        """Begin reading."""
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
