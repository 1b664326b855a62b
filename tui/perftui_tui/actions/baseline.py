"""The run that the one on screen is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.look.rows import row

if TYPE_CHECKING:
    from perftui.run.manifest import Manifest
    from perftui_tui.actions.host import Host
    from perftui_tui.reading.snapshot import Snapshot


class Baseline:
    """The run to compare with, read once on a thread."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self.snapshot: Snapshot | None = None
        """Newest snapshot of the run to compare with; None until one is chosen."""
        self._sought: Path | None = None

    def find(self) -> None:
        """Take the run that the one on screen repeats, where none was chosen."""
        shown = self._app.snapshot
        parent = shown.manifest.parent if shown and shown.manifest else None
        if self.snapshot is not None or shown is None or not parent:
            return
        root = shown.source.with_name(parent)
        if root != self._sought:
            self._sought = root
            self._app.on_thread(lambda: self._read(root))

    def choose(self) -> None:
        """Ask which recorded run to compare with."""
        shown = self._app.snapshot
        if shown is None or shown.run is None:
            self._app.warn("a trace cannot be compared: only recorded runs can")
            return
        source = shown.source
        self._app.on_thread(lambda: self._list(source))

    def _list(self, source: Path) -> None:
        from perftui.run.history import list_runs

        others = [
            (entry.run_id, entry.manifest)
            for entry in list_runs(source.parent)
            if entry.manifest is not None and entry.root != source
        ]
        self._app.call_from_thread(self._ask, source.parent, others)

    def _ask(self, directory: Path, runs: list[tuple[str, Manifest]]) -> None:
        if not runs:
            self._app.warn(f"there is no other run in {directory}")
            return

        def answered(run_id: str | None) -> None:
            if run_id:
                self._app.on_thread(lambda: self._read(directory / run_id))

        self._app.ask(_dialog(runs), answered)

    def _read(self, root: Path) -> None:
        from perftui_tui.reading.run_view import read_once

        self._app.call_from_thread(self._take, read_once(root))

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._app.refresh_screen()


def _dialog(runs: Sequence[tuple[str, Manifest]]) -> ChoiceDialog:
    """Offers the newest of ``runs`` (id and manifest, newest first); answers with an id, or ""."""
    choices = [
        Choice((key,), _label(run_id, manifest), run_id)
        for key, (run_id, manifest) in zip("123456789", runs, strict=False)
    ]
    choices.append(Choice(("escape", "q"), "keep what is compared now", ""))
    return ChoiceDialog("Compare with", (row("The newest runs:"),), choices)


def _label(run_id: str, manifest: Manifest) -> str:
    change = f"  {manifest.name}" if manifest.name else ""
    return f"{run_id}  {manifest.status.value}{change}"
