"""The run or trace that the one on screen is compared with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.text import printable

if TYPE_CHECKING:
    from perftui.run.manifest import Manifest
    from perftui_tui.actions.host import Host
    from perftui_tui.dialogs.choice import ChoiceDialog
    from perftui_tui.reading.snapshot import Snapshot

_KEYS = "123456789"


@dataclass(frozen=True)
class _Other:
    """Something that can be compared with: a run directory or a trace file."""

    path: Path
    label: str


class Baseline:
    """What to compare with, read once on a thread."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self.snapshot: Snapshot | None = None
        """Newest snapshot of the run, or the trace, to compare with; None until one is chosen."""
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
        """Ask which recorded run or trace to compare with."""
        shown = self._app.snapshot
        if shown is None or shown.facts is None:
            self._app.warn("nothing to compare yet")
            return
        source, is_run = shown.source, shown.run is not None
        self._app.on_thread(lambda: self._list(source, is_run))

    def _list(self, source: Path, is_run: bool) -> None:
        """Runs beside a run, then traces where the app was started; for a trace those beside it,
        then the runs recorded there."""
        from perftui.run.layout import RUNS_DIRECTORY

        here = Path.cwd()
        runs = _runs(source.parent if is_run else here / RUNS_DIRECTORY, source)
        traces = _traces(here / source.name if is_run else source)
        found = [*runs, *traces] if is_run else [*traces, *runs]
        self._app.call_from_thread(self._ask, source.parent, found)

    def _ask(self, directory: Path, others: Sequence[_Other]) -> None:
        if not others:
            self._app.warn(f"no other run or trace in {directory}")
            return

        def answered(path: str | None) -> None:
            if path:
                self._app.on_thread(lambda: self._read(Path(path)))

        self._app.ask(_dialog(others), answered)

    def _read(self, path: Path) -> None:
        from perftui_tui.reading.run_view import read_once
        from perftui_tui.reading.trace_view import view_trace

        if path.is_file():
            found = view_trace(path, time.time_ns(), lambda _done: None, lambda: False)
        else:
            found = read_once(path)
        self._app.call_from_thread(self._take, found)

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._app.refresh_screen()


def _runs(directory: Path, shown: Path) -> list[_Other]:
    """The recorded runs, newest first, without the one that is shown."""
    from perftui.run.history import list_runs

    return [
        _Other(entry.root, _label(entry.run_id, entry.manifest))
        for entry in list_runs(directory)
        if entry.manifest is not None and entry.root != shown
    ]


def _traces(path: Path) -> list[_Other]:
    """The traces in the directory of ``path``, newest first."""
    from perftui.trace.formats import traces_beside

    return [_Other(one, f"{printable(one.name)}  trace") for one in traces_beside(path)]


def _dialog(others: Sequence[_Other]) -> ChoiceDialog:
    """Offers as many of ``others`` as there are digits; answers with a path, or ""."""
    from perftui_tui.dialogs.choice import Choice, ChoiceDialog
    from perftui_tui.look.rows import row

    choices = [
        Choice((key,), one.label, str(one.path)) for key, one in zip(_KEYS, others, strict=False)
    ]
    choices.append(Choice(("escape", "q"), "keep the current comparison", ""))
    title = (row("The newest runs and traces:"),)
    return ChoiceDialog("Compare with", title, choices)


def _label(run_id: str, manifest: Manifest) -> str:
    change = f"  {manifest.name}" if manifest.name else ""
    return f"{run_id}  {manifest.state}{change}"
