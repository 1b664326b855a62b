"""What the app asks of the recorder of the run on screen: a window, an end, another size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui_tui.actions.host import Host
    from perftui_tui.reading.snapshot import Snapshot


class RecorderRequests:
    """Writes requests to the run directory, which the recorder polls."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._windows_awaited: int | None = None
        self._size: Size | None = None
        self._sent_size: Size | None = None

    def watch(self, snapshot: Snapshot) -> None:
        """Notify of a window that was asked for, and send the terminal's size to a new run."""
        self._send_size()
        if self._windows_awaited is not None and _window_count(snapshot) > self._windows_awaited:
            self._windows_awaited = None
            self._app.notify("captured: Timeline and Ops show the new window")

    def capture(self, snapshot: Snapshot) -> None:
        """Ask for a window."""
        from perftui.run.control import CAPTURE

        if self._request(CAPTURE):
            self._windows_awaited = _window_count(snapshot)
            self._app.notify(
                "requested: a window will be profiled, of training steps if there are any soon"
            )

    def stop(self) -> None:
        """Ask for an interrupt of the training that is our own, whichever is on screen."""
        from perftui.run.control import STOP
        from perftui.run.manifest import StopReason

        self._request(STOP, self._app.own, reason=StopReason.USER)

    def started(self, size: Size) -> None:
        """A run has been started in a terminal of ``size``."""
        self._sent_size = size

    def resized(self, size: Size) -> None:
        """Give the script's terminal the size of ours: progress bars follow it."""
        # The first size is the one the script was started with.
        self._sent_size = self._sent_size or size
        self._size = size
        self._send_size()

    def _send_size(self) -> None:
        from perftui.run.control import RESIZE

        size, newest = self._size, self._app.newest
        if size is None or size == self._sent_size or newest is None or newest.run is None:
            return
        if newest.phase.is_live:
            self._sent_size = size
            self._request(RESIZE, rows=size.height, columns=size.width)

    def _request(self, kind: str, root: Path | None = None, **data: int | str) -> bool:
        """Write a request for the recorder; False, with a warning, where that fails."""
        from perftui.run.control import request
        from perftui.run.layout import RunLayout

        try:
            request(RunLayout(root or self._app.target), kind, **data)
        except OSError as error:
            self._app.warn(f"the run cannot be reached: {error}")
            return False
        return True


def _window_count(snapshot: Snapshot) -> int:
    rank = snapshot.rank
    return len(rank.windows) if rank else 0
