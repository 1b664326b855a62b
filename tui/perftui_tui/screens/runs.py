"""The Runs screen: recorded runs to open, name and delete."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from textual import getters, on
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from perftui.experiments.removal import NotRemovableError, delete_run
from perftui.run.layout import RUNS_DIRECTORY, is_run_directory, without_time
from perftui.run.manifest import ManifestError, rename_run
from perftui.run.reader import recorded_where
from perftui.trace.text import printable
from perftui_tui.dialogs.choice import delete_run_dialog
from perftui_tui.keys.own_keys import bindings
from perftui_tui.look.format import (
    MISSING,
    date_and_time,
    format_count,
    format_ns,
    share,
    short_path,
)
from perftui_tui.look.rows import Row, behind, row
from perftui_tui.panes.gpu import MOST_CARDS, gpu_cards
from perftui_tui.panes.machine import cpu, disk, loader, memory, step_time
from perftui_tui.panes.meter import draw_chart, draw_line
from perftui_tui.panes.step_bar import step_bar
from perftui_tui.panes.verdict import headlines, verdict
from perftui_tui.reading.run_list import Listed, RunList, RunLister
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.view import read_once
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.tables.rows import LEFT, Column, TableData, known_column, name_column, text_column
from perftui_tui.tables.virtual import TABLE_ROWS, VirtualTable
from perftui_tui.widgets.row_view import Make, RowView

FEWEST_CHART_ROWS, MOST_CHART_ROWS = 4, 20


def preview(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """As much of the run as fits, what matters most on top."""
    name, text = verdict(snapshot)
    rows = behind(row(name, " "), text, cells, "bold")[:3]
    rows += [(), *step_bar(snapshot, cells, 0)]
    others = [
        line for one in snapshot.diagnosis.findings[1:] for line in headlines(one, snapshot, cells)
    ]
    left = height - len(rows) - len(others) - 3
    machine = gpu_cards(snapshot, cells, MOST_CARDS)
    for meter in (read(snapshot) for read in (loader, cpu, memory, disk)):
        machine += [] if meter.is_missing else draw_line(meter, cells)
    if left - len(machine) - 1 < FEWEST_CHART_ROWS:
        machine = []
    room = min(MOST_CHART_ROWS, left - len(machine) - bool(machine))
    if room >= FEWEST_CHART_ROWS:
        rows += [(), row(("Step time", "bold")), *draw_chart(step_time(snapshot), cells, room)]
    return [*rows, *([(), *machine] if machine else []), (), *others][:height]


def _words(text: str, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    return [row((text, "dim"))]


class RunTable(VirtualTable):
    """One row for each run; ``enter`` opens it."""

    BINDINGS = bindings("runs.table")


def run_table(runs: RunList, shown: Path, *, is_wide: bool) -> TableData:
    """The columns, ids whole where it ``is_wide``; the run that is ``shown`` is marked."""
    listed = runs.runs
    titles = [_title(one, shown, is_wide=is_wide) for one in listed]
    manifests = [one.entry.manifest for one in listed]
    started = np.array([one.started_ns if one else 0 for one in manifests], np.int64)

    def clock(row: int) -> str:
        return date_and_time(started[row]) if started[row] else MISSING

    scripts = [printable(one.script) if one else MISSING for one in manifests]
    steps = [one.summary.train_steps if one.summary else None for one in listed]
    means = [(one.summary.mean or None) if one.summary else None for one in listed]
    columns = (
        # The name that a person gave stands in front.
        replace(name_column("run", titles, "runs"), middle=False),
        Column("started", started, clock, 16, LEFT, optional=2),
        text_column("script", scripts, 16, 4),
        text_column("status", [_status(one) for one in listed], 11, 0),
        known_column("steps", steps, format_count, 7, 3),
        known_column("step", means, format_ns, 8),
        text_column("verdict", [_verdict(one) for one in listed], 27, 0),
    )
    empty = runs.problem or "no runs here yet: perftui train.py records one"
    names = [
        f"{_name(one)} {one.entry.run_id} {script}"
        for one, script in zip(listed, scripts, strict=True)
    ]
    return TableData(names, columns, sort_column=1, empty=printable(empty))


def _name(one: Listed) -> str:
    return (one.entry.manifest.name if one.entry.manifest else None) or ""


def _title(one: Listed, shown: Path, *, is_wide: bool) -> str:
    """The name that was given, then the id or its end, since several runs may have one name."""
    name = _name(one)
    mark = "▶ " if one.entry.root == shown else "  "
    run_id = one.entry.run_id if is_wide or not name else without_time(one.entry.run_id)
    return printable(mark + (f"{name}  {run_id}" if name else run_id))


def _status(one: Listed) -> str:
    manifest = one.entry.manifest
    if manifest is None:
        return "damaged"
    return f"● {manifest.status.value}" if not manifest.status.is_over else manifest.state


def _verdict(one: Listed) -> str:
    if one.entry.manifest is None:
        return printable(one.entry.problem or "")
    summary = one.summary
    if summary is None:
        return "reading"
    cost = f" {share(summary.share, 1)}" if summary.share else ""
    return f"{summary.verdict}{cost}" if summary.verdict else MISSING


REFRESH_SECONDS = 3.0
"""Seconds between two listings of the directory while the screen is shown."""

REST_SECONDS = 0.3
"""How long a run has to be selected before it is read: keys that are held pass over many."""


class RunsScreen(RunScreen):
    """All runs of the directory of the one on screen."""

    NAME = "runs"
    PART_WITH_KEYS = RunTable
    HELP = (
        "All runs in the directory of the current run, newest first; the current run is marked. "
        "Step is the mean steady step, the verdict is the finding that costs the most. "
        "{runs.table.open} shows a run on all screens; a running training is watched, and leaving "
        "it does not stop it. A name stays with the run. Deleting asks for confirmation; a run "
        "that is still going on cannot be deleted."
    )
    BINDINGS = bindings("runs")

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    _table = getters.query_one(RunTable)
    _input = getters.query_one(Input)

    def __init__(self) -> None:
        super().__init__()
        self._lister = RunLister()
        self._list: RunList | None = None
        self._stopped = threading.Event()
        self._is_reading = False
        self._previewed: Path | None = None
        """The run that is shown in short, or being read for that."""
        self._resting: Timer | None = None
        self._naming: Path | None = None
        """The run whose name is being typed; None while a filter is."""

    def body(self) -> Iterable[Widget]:
        yield Static(id="runs-title", markup=False)
        yield Input(id="runs-input")
        yield RunTable(id="runs-table")
        yield RowView(id="runs-preview", title="Selected run")
        yield Static(id="runs-detail", markup=False)

    def on_mount(self) -> None:
        self._input.cursor_blink = False
        super().on_mount()
        self.set_interval(REFRESH_SECONDS, self._refresh_list)

    def on_unmount(self) -> None:
        self._stopped.set()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._refresh_list()

    def show(self, snapshot: Snapshot) -> None:  # noqa: ARG002 - the list is of the directory
        """Mark the run that is shown now."""
        self._draw()

    # The list

    def _refresh_list(self) -> None:
        if self._is_reading or not self.is_active or not self.is_composed:
            return
        self._is_reading = True
        target = self.session.target
        # Beside a trace those of the working directory.
        here = Path(RUNS_DIRECTORY).absolute()
        directory = target.parent if is_run_directory(target) else here
        newest = self.session.newest
        sparing = newest is not None and newest.phase.is_live

        def receive(runs: RunList) -> None:
            if not self._stopped.is_set():
                self.app.call_from_thread(self._draw, runs)

        def read() -> None:
            try:
                self._lister.read(directory, receive, self._stopped, sparing=sparing)
            finally:
                self._is_reading = False

        self.session.on_thread(read)

    def _draw(self, runs: RunList | None = None) -> None:
        self._list = runs or self._list
        if not self.is_composed:
            return
        if self._list is None:
            self.query_one("#runs-title", Static).update("reading the directory of runs")
            return
        title = printable(f"Runs in {short_path(self._list.directory)}")
        self.query_one("#runs-title", Static).update(title)
        is_wide = self.has_class("-wide")
        self._table.show(run_table(self._list, self.session.target, is_wide=is_wide))
        # What few runs leave of a tall screen is the preview's.
        rows = min(len(self._list.runs) + TABLE_ROWS, self.size.height // 2)
        self._table.styles.height = rows if self.has_class("-tall") else "1fr"
        self._show_detail()

    @on(VirtualTable.RowHighlighted)
    def _show_detail(self) -> None:
        one = self._selected
        self.query_one("#runs-detail", Static).update(_detail(one) if one else "")
        self._preview(one)

    def _preview(self, one: Listed | None) -> None:
        """Show the selected run in short, once the selection has come to rest."""
        root = one.entry.root if one and one.entry.manifest else None
        if root == self._previewed or not self.has_class("-tall"):
            return
        self._previewed = root
        if self._resting is not None:
            self._resting.stop()
        if root is None:
            problem = (one.entry.problem or "") if one else ""
            self.query_one("#runs-preview", RowView).draw(partial(_words, problem))
        else:
            self._resting = self.set_timer(REST_SECONDS, lambda: self._read_preview(root))

    def _read_preview(self, root: Path) -> None:
        def read() -> None:
            try:
                make = partial(preview, read_once(root))
            except (ManifestError, OSError) as error:
                make = partial(_words, printable(str(error)))
            if not self._stopped.is_set():
                self.app.call_from_thread(self._show_preview, root, make)

        self.session.on_thread(read)

    def _show_preview(self, root: Path, make: Make) -> None:
        if root == self._previewed:
            pane = self.query_one("#runs-preview", RowView)
            pane.entitle(root.name)
            pane.draw(make)

    @property
    def _selected(self) -> Listed | None:
        row = self._table.selected_row
        return None if self._list is None or row is None else self._list.runs[row]

    # Opening

    @on(VirtualTable.RowSelected)
    def _row_selected(self) -> None:
        one = self._selected
        if one is None:
            return
        entry = one.entry
        if entry.manifest is None:
            self.session.warn(f"this run cannot be opened: {entry.problem}")
        else:
            if entry.root != self.session.target:
                self.session.open_run(entry.root, is_live=not entry.manifest.status.is_over)
            self.session.action_show("overview")

    # Naming

    def action_rename(self) -> None:
        one = self._selected
        if one is None or one.entry.manifest is None:
            self.session.warn("no run to name")
            return
        self._naming = one.entry.root
        self._type("name of the run; empty removes it", one.entry.manifest.name or "")

    def action_filter(self) -> None:
        self._naming = None
        self._type("part of a name, an id or a script", "")

    def _type(self, placeholder: str, value: str) -> None:
        self._input.placeholder = placeholder
        self._input.value = value
        self.add_class("-typing")
        self._input.focus()

    def action_close_input(self) -> None:
        was_filter, self._naming = self._naming is None, None
        self.remove_class("-typing")
        if was_filter:
            self._input.value = ""
            self._table.filter("")
        self._table.focus()

    @on(Input.Changed, "#runs-input")
    def _typed(self, event: Input.Changed) -> None:
        if self._naming is None:
            self._table.filter(event.value)
            self._show_detail()

    @on(Input.Submitted, "#runs-input")
    def _submitted(self, event: Input.Submitted) -> None:
        root, self._naming = self._naming, None
        self._table.focus()
        if root is not None:
            self.remove_class("-typing")
            self._on_disk(lambda: rename_run(root, event.value), "the name cannot be saved")

    # Deleting

    def action_delete(self) -> None:
        one = self._selected
        if one is None:
            self.session.warn("no run to delete")
            return
        root, manifest = one.entry.root, one.entry.manifest
        if root == self.session.target:
            self.session.warn("this run is on screen: open another one first")
        elif manifest is not None and not manifest.status.is_over:
            text = "this run is still going on: only a run that has ended can be deleted"
            self.session.warn(text)
        else:
            failed = f"{root.name} was not deleted"
            delete = partial(self._on_disk, partial(delete_run, root), failed)
            self.session.ask(delete_run_dialog(one.entry, delete))

    def _on_disk(self, work: Callable[[], None], failed: str) -> None:
        """Do it on a thread, warn where it fails, and list again."""

        def do() -> None:
            try:
                work()
            except (NotRemovableError, OSError) as error:
                self.app.call_from_thread(self.session.warn, f"{failed}: {error}")
            self.app.call_from_thread(self._refresh_list)

        self.session.on_thread(do)


def _detail(one: Listed) -> str:
    manifest = one.entry.manifest
    if manifest is None:
        return printable(one.entry.problem or "")
    command = printable(shlex.join(manifest.command))
    changes = "".join(f"   with {override.fix}" for override in manifest.overrides if override.fix)
    where = f"   {printable(heard)}" if (heard := recorded_where(one.entry)) else ""
    return f"{command}   in {printable(manifest.cwd)} on {printable(manifest.host)}{changes}{where}"
