"""The thread that tails the output and posts it, several times a second while it grows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from perftui_tui.messages import OutputReceived, SourceFailed
from perftui_tui.output.tail import OutputTail

POLL_SECONDS = 0.25
"""Fast enough to look alive; a busier terminal makes keys lag over SSH."""


class OutputSource:
    """Tails ``path`` until stopped."""

    def __init__(self, path: Path, post: Callable[[Message], bool]) -> None:
        self._tail = OutputTail(path)
        self._post = post
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="output-source", daemon=True)

    def start(self) -> None:
        """Begin tailing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop tailing."""
        self._stopped.set()

    def _poll(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._tail.poll() and not self._stopped.is_set():
                    self._post(OutputReceived(self._tail.view()))
                self._stopped.wait(POLL_SECONDS)
        except OSError as error:
            self._post(SourceFailed(f"the script's output cannot be read: {error}"))
