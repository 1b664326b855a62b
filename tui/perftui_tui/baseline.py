"""The run that the one on screen is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui_tui.app import PerftuiApp
    from perftui_tui.snapshot import Snapshot


class Baseline:
    """Reads it on a thread, once."""

    def __init__(self, app: PerftuiApp) -> None:
        self._app = app
        self.snapshot: Snapshot | None = None
        """Its newest picture; None until one is chosen."""

    def find(self) -> None:
        """Take the run that the one on screen repeats, where none was chosen."""
        shown = self._app.snapshot
        parent = shown.manifest.parent if shown and shown.manifest else None
        if self.snapshot is None and shown is not None and parent:
            self._read(shown.source.with_name(parent))

    def choose(self) -> None:
        """Ask which recorded run to compare with."""
        from perftui.run.history import list_runs
        from perftui_tui.dialogs.baseline import BaselineDialog

        shown = self._app.snapshot
        if shown is None or shown.run is None:
            self._app.warn("a trace cannot be compared: only recorded runs can")
            return
        runs = shown.source.parent
        entries = [e for e in list_runs(runs) if e.manifest and e.root != shown.source]
        if not entries:
            self._app.warn(f"there is no other run in {runs}")
            return

        def answered(run_id: str | None) -> None:
            if run_id:
                self._read(runs / run_id)

        self._app.push_screen(BaselineDialog(entries), answered)

    def _read(self, root: Path) -> None:
        def read() -> None:
            from perftui_tui.run_view import read_once

            self._app.call_from_thread(self._take, read_once(root))

        self._app.run_worker(read, thread=True, exit_on_error=False)

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._app.refresh_screen()
