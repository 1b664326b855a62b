"""The thread that reads a file: a trace, or a snapshot of GPU memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.reading.messages import (
    LoadProgressed,
    PreviewReceived,
    SnapshotReceived,
    SourceFailed,
)
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.thread import Clock, Post, ReadingThread

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.fact import Facts
    from perftui.trace.nsys.report import Exporting


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
        from perftui_tui.reading.trace_view import view_trace

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
            named = reason if str(self.path) in reason else f"{self.path}: {reason}"
            self.report(SourceFailed(named))
        else:
            self.report(SnapshotReceived(snapshot))

    def _read_memory(self) -> None:
        """Read a memory snapshot and post its allocations.

        Raises:
            LoadCancelled: it was stopped meanwhile.
        """
        from perftui_tui.reading.allocations import read_memory

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
