"""The thread that reads a trace file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.messages import LoadProgressed, PreviewReceived, SnapshotReceived, SourceFailed
from perftui_tui.reading_thread import Clock, Post, ReadingThread

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.trace.nsys.exporting import Exporting


class TraceSource(ReadingThread):
    """Reads one trace file, reporting progress, and posts one snapshot."""

    def __init__(self, path: Path, post: Post, clock: Clock = time.time_ns) -> None:
        super().__init__(path, post)
        self._clock = clock

    def read(self) -> None:
        """Read it once.

        Raises:
            LoadCancelled: it was stopped meanwhile.
        """
        from perftui.trace.errors import TraceError
        from perftui_tui.trace_view import view_trace

        try:
            snapshot = view_trace(
                self.path, self._clock(), self._progressed, self.stopped.is_set, self._previewed
            )
        except (TraceError, OSError) as error:
            reason = str(error)
            named = reason if str(self.path) in reason else f"{self.path}: {reason}"
            self.tell(SourceFailed(named))
        else:
            self.tell(SnapshotReceived(snapshot))

    def _previewed(self, analysis: TraceAnalysis) -> None:
        self.tell(PreviewReceived(self.path, analysis))

    def _progressed(self, done: float | Exporting) -> None:
        self.tell(LoadProgressed(self.path, done))
