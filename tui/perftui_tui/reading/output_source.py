"""The thread that tails the output and posts it, several times a second while it grows."""

from __future__ import annotations

from pathlib import Path

from perftui_tui.reading.messages import OutputReceived, SourceFailed
from perftui_tui.reading.output import OutputTail
from perftui_tui.reading.thread import Post, ReadingThread

POLL_SECONDS = 0.25
"""Fast enough to look alive; a busier terminal makes keys lag over SSH."""

TRIES = 20
"""Failed reads in a row before it is reported: five seconds, as for the run itself."""


class OutputSource(ReadingThread):
    """Tails ``path`` until stopped; while it cannot be read, it is tried again and again."""

    def __init__(self, path: Path, post: Post) -> None:
        super().__init__(path, post)
        self._tail = OutputTail(path)
        self._failures = 0

    def read(self) -> None:
        """Post what was printed, as often as there is more."""
        while not self.stopped.is_set():
            if self._poll():
                self.report(OutputReceived(self._tail.view()))
            self.stopped.wait(POLL_SECONDS)

    def _poll(self) -> bool:
        """Whether there is more."""
        try:
            more = self._tail.poll()
        except OSError as error:
            self._failures += 1
            if self._failures == TRIES:
                reason = f"the script's output cannot be read: {error}"
                self.report(SourceFailed(reason, is_all=False))
            return False
        self._failures = 0
        return more
