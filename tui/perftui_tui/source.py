"""Threads that read a run directory or a trace and tell the app what they saw."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from perftui_tui.messages import LoadProgressed, SnapshotReceived, SourceFailed

if TYPE_CHECKING:
    from perftui_tui.run_view import RunView

Post = Callable[[Message], bool]
Clock = Callable[[], int]

POLL_SECONDS = 1.0
"""One picture a second: at four, a terminal on a slow link lags behind its keys by seconds."""

DUTY = 0.05
"""Of a core, the most that reading may take: the training needs the rest. A run of a million steps
takes half a second to read and judge, so it is read every ten seconds."""

LONGEST_POLL_SECONDS = 15.0

log = logging.getLogger(__name__)


class Source(Protocol):
    """Something that reads on a thread of its own and posts messages."""

    def start(self) -> None:
        """Begin reading."""

    def stop(self) -> None:
        """Stop reading; nothing is posted afterwards."""


class RunSource:
    """Polls the run directory at ``root`` until stopped; the app never waits for it.

    A run that is over is read once more and then left alone.
    """

    def __init__(self, root: Path, post: Post, clock: Clock = time.time_ns) -> None:
        self._root = root
        self._post = post
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="run-source", daemon=True)

    def start(self) -> None:
        """Begin polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling; a poll under way ends unseen."""
        self._stopped.set()

    def _poll(self) -> None:
        from perftui.run.manifest import ManifestError
        from perftui.trace.errors import LoadCancelled
        from perftui_tui.run_view import RunView

        view = RunView(self._root, self._clock, self._stopped.is_set)
        before = 0.0
        try:
            while not self._stopped.is_set():
                began = time.thread_time()
                if not self._post_one(view):
                    break
                cost = time.thread_time() - began
                # What is done once (imports, a new window) is no reason to look away for long.
                self._stopped.wait(pause_after(min(cost, before)))
                before = cost
        except LoadCancelled:
            return
        except (ManifestError, OSError) as error:
            self._tell(SourceFailed(str(error)))
        except Exception as error:  # the thread's one boundary: the app must hear of any failure
            log.exception("reading %s failed", self._root)
            self._tell(SourceFailed(f"{self._root}: {error}"))

    def _post_one(self, view: RunView) -> bool:
        """Post a picture; whether another may follow."""
        snapshot = view.read()
        self._tell(SnapshotReceived(snapshot))
        return snapshot.phase.is_live or view.unfinished

    def _tell(self, message: Message) -> None:
        if not self._stopped.is_set():
            self._post(message)


def pause_after(cost: float) -> float:
    """Seconds to wait after a read that took ``cost`` seconds of CPU time."""
    return min(max(POLL_SECONDS, cost / DUTY), max(POLL_SECONDS, LONGEST_POLL_SECONDS))


class TraceSource:
    """Reads one trace file, reporting progress, and posts one snapshot."""

    def __init__(self, path: Path, post: Post, clock: Clock = time.time_ns) -> None:
        self._path = path
        self._post = post
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="trace-source", daemon=True)

    def start(self) -> None:
        """Begin reading."""
        self._thread.start()

    def stop(self) -> None:
        """Give up reading."""
        self._stopped.set()

    def _read(self) -> None:
        from perftui.trace.errors import LoadCancelled, TraceError
        from perftui_tui.trace_view import view_trace

        try:
            snapshot = view_trace(self._path, self._clock(), self._progressed, self._stopped.is_set)
        except LoadCancelled:
            return
        except (TraceError, OSError) as error:
            reason = str(error)
            self._tell(
                SourceFailed(reason if str(self._path) in reason else f"{self._path}: {reason}")
            )
        except Exception as error:  # the thread's one boundary: the app must hear of any failure
            log.exception("reading %s failed", self._path)
            self._tell(SourceFailed(f"{self._path}: {error}"))
        else:
            self._tell(SnapshotReceived(snapshot))

    def _progressed(self, fraction: float) -> None:
        self._tell(LoadProgressed(self._path, fraction))

    def _tell(self, message: Message) -> None:
        if not self._stopped.is_set():
            self._post(message)
