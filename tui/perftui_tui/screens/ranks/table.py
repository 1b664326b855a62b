"""The ranks of a training as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from textual.binding import BindingType

from perftui.facts.ranks.rank_table import RankRow, RankTable
from perftui.run.columns import phase_name
from perftui.trace.model import Int64
from perftui.trace.text import printable
from perftui_tui.keys.keymap import bindings
from perftui_tui.look.format import share
from perftui_tui.look.units import MISSING, format_bytes, format_count, format_ns
from perftui_tui.reading.step_breakdown import name_within
from perftui_tui.tables.rows import LEFT, Column, TableData
from perftui_tui.tables.virtual import VirtualTable

SLOWEST = "SLOWEST"
COMMUNICATION = "exposed communication"
TIME_CELLS = 9
MOST_PARTS = 10
"""Highest number of a part's column by its size, in the order in which columns go on a narrow
screen."""


class RanksView(VirtualTable):
    """One row for each rank; ``enter`` shows it on all screens."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("ranks.table")


def rank_table(
    table: RankTable, shown: int | None, empty: str, windows: Mapping[int, RankRow] | None = None
) -> TableData:
    """The columns, one for each part of a step. The rank that is ``shown`` is marked.

    ``windows`` are rows of ranks by the profiled windows, where their own clocks give the rest."""
    rows = table.rows
    slowest = table.straggler.rank if table.straggler else None
    names = [f"rank {row.rank} {row.host}" for row in rows]
    titles = [f"{'▶' if row.rank == shown else ' '} {row.rank}" for row in rows]
    numbers = np.array([row.rank for row in rows], np.int64)
    waits = np.array([row.waits / row.mean if row.mean else -1.0 for row in rows])
    columns = [
        Column("rank", numbers, titles.__getitem__, 7, LEFT),
        _times("step", [row.mean for row in rows], rows),
        _times("p50", [row.p50 for row in rows], rows, 16),
        _times("p95", [row.p95 for row in rows], rows, 15),
        *_parts(rows),
    ]
    if len(rows) > 1:
        # At most: backward computes too while it waits for the other ranks.
        waited = Column(
            "waits ≤", waits, lambda at: share(rows[at].waits, rows[at].mean), 8, optional=13
        )
        columns.append(waited)
    columns += [*_communication(rows, windows or {}), *_caused(rows)]
    if slowest is not None:
        marks = [SLOWEST if row.rank == slowest else "" for row in rows]
        columns.insert(1, Column("", marks, marks.__getitem__, len(SLOWEST), LEFT))
    if any(row.peak_memory is not None for row in rows):
        peaks = np.array([-1 if row.peak_memory is None else row.peak_memory for row in rows])
        sizes = [format_bytes(row.peak_memory) for row in rows]
        columns.append(Column("memory", peaks, sizes.__getitem__, 9, optional=14))
    counts = np.array([row.steps for row in rows], np.int64)
    columns.append(Column("steps", counts, lambda at: format_count(rows[at].steps), 7, optional=12))
    hosts = [printable(row.host) for row in rows]
    columns.append(Column("host", hosts, hosts.__getitem__, 0, LEFT, optional=17))
    return TableData(names, tuple(columns), sort_column=0, descending=False, empty=empty)


def _communication(rows: Sequence[RankRow], windows: Mapping[int, RankRow]) -> list[Column]:
    """Exposed communication by the windows, where any of them has some."""
    known = [windows.get(row.rank) for row in rows]
    values = [one.part(COMMUNICATION) if one else -1 for one in known]
    if max(values, default=0) <= 0:
        return []

    def text(at: int) -> str:
        return MISSING if values[at] < 0 else format_ns(values[at])

    return [Column("comm", np.array(values, np.int64), text, TIME_CELLS, optional=11)]


def _caused(rows: Sequence[RankRow]) -> list[Column]:
    """What each makes the others wait, where their traces tell."""
    values = [-1 if row.caused is None else row.caused for row in rows]
    if max(values, default=-1) < 0:
        return []

    def text(at: int) -> str:
        return MISSING if values[at] < 0 else format_ns(values[at])

    return [Column("waits caused", np.array(values, np.int64), text, 13, optional=10)]


def _parts(rows: Sequence[RankRow]) -> list[Column]:
    """A column for each part that takes time; on a narrow screen two stay, the largest."""
    names = dict.fromkeys(name for row in rows for name, _ in row.parts)
    used = [name for name in names if any(row.part(name) for row in rows)]
    rare = ("loader_start", "profiler", "other", "optimizer")
    largest = sorted(used, key=lambda name: -sum(row.part(name) for row in rows))
    columns = []
    for name in used:
        title = phase_name(name).replace("exposed ", "")
        order = min(max(largest.index(name) - 1, 0), MOST_PARTS)
        optional = 18 + rare.index(name) if name in rare else order
        columns.append(_times(title, [row.part(name) for row in rows], rows, optional))
    return columns


def _times(title: str, values: Sequence[int], rows: Sequence[RankRow], optional: int = 0) -> Column:
    keys: Int64 = np.array(values, np.int64)
    return Column(
        name_within(title, 13) or title[:13],
        keys,
        lambda at: format_ns(values[at]) if rows[at].mean else MISSING,
        max(TIME_CELLS, min(13, len(title) + 2)),
        optional=optional,
    )
