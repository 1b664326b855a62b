"""The recorded runs as a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.binding import BindingType

from perftui.trace.text import printable
from perftui_tui.keys.keymap import bindings
from perftui_tui.look.format import date_and_time, share
from perftui_tui.look.units import MISSING, format_count, format_ns
from perftui_tui.tables.columns import name_column, text_column
from perftui_tui.tables.rows import LEFT, Column, TableData
from perftui_tui.tables.virtual import VirtualTable

if TYPE_CHECKING:
    from perftui_tui.reading.run_list import Listed, RunList


class RunTable(VirtualTable):
    """One row for each run; ``enter`` opens it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("runs.table")


def run_table(runs: RunList, shown: Path) -> TableData:
    """The columns; the run that is ``shown`` is marked."""
    listed = runs.runs
    titles = [_title(one, shown) for one in listed]
    started = np.array([_started(one) for one in listed], np.int64)
    steps = np.array([one.summary.train_steps if one.summary else -1 for one in listed], np.int64)
    means = np.array(
        [one.summary.mean or -1 if one.summary else -1 for one in listed], dtype=np.int64
    )
    columns = (
        # The name that a person gave stands in front.
        replace(name_column("run", titles, "runs"), middle=False),
        Column("started", started, lambda row: _clock(started[row]), 16, LEFT, optional=2),
        text_column("script", [_script(one) for one in listed], 16, 4),
        text_column("status", [_status(one) for one in listed], 11, 0),
        Column("steps", steps, lambda row: format_count(_known(steps[row])), 7, optional=3),
        Column("step", means, lambda row: format_ns(_known(means[row])), 8),
        text_column("verdict", [_verdict(one) for one in listed], 27, 0),
    )
    empty = runs.problem or "no runs here yet: perftui train.py records one"
    names = [f"{_name(one)} {one.entry.run_id} {_script(one)}" for one in listed]
    return TableData(names, columns, sort_column=1, empty=printable(empty))


def _known(value: int) -> float | None:
    return None if value < 0 else float(value)


def _name(one: Listed) -> str:
    return (one.entry.manifest.name if one.entry.manifest else None) or ""


def _title(one: Listed, shown: Path) -> str:
    """The name that was given, then the id, since several runs may have one name."""
    name = _name(one)
    mark = "▶ " if one.entry.root == shown else "  "
    return printable(mark + (f"{name}  {one.entry.run_id}" if name else one.entry.run_id))


def _started(one: Listed) -> int:
    return one.entry.manifest.started_ns if one.entry.manifest else 0


def _clock(started: int) -> str:
    if not started:
        return MISSING
    return date_and_time(started)


def _script(one: Listed) -> str:
    return printable(one.entry.manifest.script) if one.entry.manifest else MISSING


def _status(one: Listed) -> str:
    manifest = one.entry.manifest
    if manifest is None:
        return "damaged"
    if not manifest.status.is_over:
        return f"● {manifest.status.value}"
    return manifest.state


def _verdict(one: Listed) -> str:
    if one.entry.manifest is None:
        return printable(one.entry.problem or "")
    if one.summary is None:
        return "reading"
    summary = one.summary
    if not summary.verdict:
        return MISSING
    cost = f" {share(summary.share, 1)}" if summary.share else ""
    return f"{summary.verdict}{cost}"
