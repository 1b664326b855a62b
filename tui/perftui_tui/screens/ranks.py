"""The Ranks screen: the ranks of a distributed training side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np
from textual import on
from textual.widget import Widget

from perftui.facts.ranks.rank_table import (
    WAITS_IN,
    WAITS_IN_TRACE,
    RankRow,
    RankTable,
    SlowRank,
    StepGrid,
    step_grid,
)
from perftui.facts.ranks.rank_table import rank_table as rank_table_of
from perftui.run.columns import phase_name
from perftui.trace.text import printable
from perftui_tui.charts.cells import LOWER_EIGHTHS, apportion, filled_steps
from perftui_tui.keys.own_keys import bindings
from perftui_tui.look.format import format_bytes, format_count, format_ns, format_percent, share
from perftui_tui.look.rows import Row, Span, behind, crop, fit, joined, row, wrap
from perftui_tui.panes.step_bar import EDGE
from perftui_tui.reading.snapshot import Snapshot, name_within, style_of
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.tables.rows import LEFT, Column, TableData, known_column
from perftui_tui.tables.virtual import TABLE_ROWS, VirtualTable
from perftui_tui.widgets.row_view import RowView

LABEL_WIDTH = 10


def rank_headline(table: RankTable | None, cells: int, doing: str = "") -> list[Row]:
    """One to three rows: who is slow, by how much and in what, or that nobody is."""
    if table is None or not table.rows:
        return [row((doing, "dim"))] if doing else []
    rows = _sentence(table, cells)
    for note in (*table.notes, doing):
        if note:
            rows += wrap(note, cells, "dim")
    return rows


def _sentence(table: RankTable, cells: int) -> list[Row]:
    known = [one for one in table.rows if one.steps]
    if table.straggler is not None:
        return _slow(table.straggler, cells, holds_up=table.holds_up)
    if len(table.rows) == 1:
        return wrap("Only one rank trains: there is nothing to compare.", cells, "dim")
    if len(known) < 2 or table.spread is None:
        return wrap("Too few ranks have steady steps yet to compare.", cells, "dim")
    text = (
        f"The ranks are even: the slowest is {format_percent(max(table.spread, 0))} behind "
        f"the median of the others ({len(known)} ranks)."
    )
    return wrap(text, cells, "good")


def _slow(slow: SlowRank, cells: int, *, holds_up: bool) -> list[Row]:
    part = phase_name(slow.part)
    most = f", {format_ns(slow.part_lag)} of it in {part}" if slow.part_lag > 0 else ""
    held = "; the others wait for it" if holds_up else ""
    text = f"Rank {slow.rank} is {format_ns(slow.lag)} a step behind the others{most}{held}."
    return behind(row((" STRAGGLER  ", "bad")), text, cells, "bold")


def rank_bars(table: RankTable | None, cells: int, height: int) -> list[Row]:
    """A bar for each rank, all on one scale, and under them what the colours mean."""
    rows = [one for one in table.rows if one.mean] if table else []
    if not rows:
        return []
    longest = max(one.mean for one in rows)
    room = max(1, cells - LABEL_WIDTH - 10)
    drawn = [_bar(one, longest, room) for one in rows[: max(1, height - 1)]]
    hidden = len(rows) - len(drawn)
    legend = row(" " * LABEL_WIDTH)
    for name in dict.fromkeys(name for one in rows for name, ns in one.parts if ns):
        legend = (*legend, (f"{EDGE}{phase_name(name)} ", f"part-{style_of(name)}"), ("  ", ""))
    return [*drawn, crop((*legend, (f"and {hidden} more ranks" if hidden else "", "dim")), cells)]


def _bar(one: RankRow, longest: int, room: int) -> Row:
    widths = apportion([ns for _, ns in one.parts], max(1, room * one.mean // longest))
    spans: list[Span] = [
        (_label(name, ns, one.mean, width), f"part-{style_of(name)}")
        for (name, ns), width in zip(one.parts, widths, strict=True)
        if width
    ]
    label = fit(row((f"rank {one.rank}", "bold")), LABEL_WIDTH)
    return (*label, *fit(tuple(spans), room), (f" {format_ns(one.mean):>9}", ""))


def _label(name: str, ns: int, whole: int, width: int) -> str:
    """The first that fits: name and share, a shorter name and share, the share, the edge."""
    part, room = share(ns, whole), width - 1
    name = name_within(phase_name(name), room - 1 - len(part))
    text = f"{name} {part}" if name else part
    return EDGE + (text if len(text) <= room else "").ljust(room)


NAME_CELLS, DIFFERENCE_CELLS, SHARE_CELLS = 24, 12, 9
NOTABLE = 0.01
"""Share of a step: parts that differ by less are dim."""


def rank_beside(table: RankTable | None, rank: int | None, cells: int) -> list[Row]:
    """The parts that differ most first, then the step; nothing without another rank.

    Of the others it is the median, of each part its own: theirs need not sum to their step. A part
    in which ranks wait for each other is neither better nor worse where it is longer."""
    known = [one for one in table.rows if one.mean] if table else []
    mine = next((one for one in known if one.rank == rank), None)
    others = [one for one in known if one.rank != rank]
    if mine is None or not others:
        return []
    names = dict.fromkeys(name for one in known for name, _ in one.parts)
    usual = {name: round(median(one.part(name) for one in others)) for name in names}
    found = [(name, mine.part(name), usual[name]) for name in names]
    found = [one for one in found if one[1] or one[2]]
    found.sort(key=lambda one: -abs(one[1] - one[2]))
    found.append(("step", mine.mean, round(median(one.mean for one in others))))
    titles = (f"rank {mine.rank}", "others, p50", "difference")
    head = "".join(f"{title:>{DIFFERENCE_CELLS}}" for title in titles)
    rows = [row((f"{'part':<{NAME_CELLS}}{head}{'of step':>{SHARE_CELLS}}", "dim"))]
    rows += [_line(*one, mine.mean) for one in found]
    return [crop(one, cells) for one in rows]


def _line(name: str, own: int, usual: int, step: int) -> Row:
    difference = own - usual
    sign = "+" if difference > 0 else ""
    style = "bad" if difference > 0 else "good"
    if abs(difference) < NOTABLE * step or name in (WAITS_IN, WAITS_IN_TRACE):
        style = "dim"
    by = f"{sign + format_ns(difference):>{DIFFERENCE_CELLS}}"
    part = f"{('-' if difference < 0 else sign) + share(abs(difference), step):>{SHARE_CELLS}}"
    figures = f"{format_ns(own):>{DIFFERENCE_CELLS}}{format_ns(usual):>{DIFFERENCE_CELLS}}"
    return row(f"{phase_name(name):<{NAME_CELLS}}{figures}", (by + part, style))


FULL_AT = 2.0
"""Times the median at which a cell is full."""

LATE_FROM, SLOW_FROM = 1.25, 2.0
"""Times the median from which a cell is highlighted."""


TALLEST = 12
"""Rows for a rank beyond which more show nothing new."""


def step_heat(grid: StepGrid | None, cells: int, height: int) -> list[Row]:
    """As many rows for each rank as fit in ``height``, the newest steps at the right, and below
    them what a column is."""
    room = cells - LABEL_WIDTH
    if grid is None or room < 1 or height < 2:
        return []
    binned = grid.binned(room)
    wide = room // binned.shape[1]
    tall = min(max((height - 1) // len(grid.ranks), 1), TALLEST)
    shown = range(min(len(grid.ranks), height - 1))
    rows = [line for at in shown for line in _rank(grid.ranks[at], binned[at].tolist(), wide, tall)]
    hidden = len(grid.ranks) - len(shown)
    return [crop(line, cells) for line in (*rows, _heat_legend(grid, binned.shape[1], hidden))]


def _rank(number: int, ratios: list[float], wide: int, tall: int) -> list[Row]:
    """A column of ``wide`` cells for each ratio; the name stands beside the lowest row."""
    columns = [_column(ratio, wide, tall) for ratio in ratios]
    lines = [joined(list(cells)) for cells in zip(*columns, strict=True)]
    names = [""] * (tall - 1) + [f"rank {number}"]
    return [
        row((name.ljust(LABEL_WIDTH), "bold"), *line)
        for name, line in zip(names, lines, strict=True)
    ]


def _column(ratio: float, wide: int, tall: int) -> list[Span]:
    """From the top down. Of three rows or more one stays empty, between the rank and the next."""
    if math.isnan(ratio):
        return [(" " * wide, "")] * tall
    style = "chart-bad" if ratio >= SLOW_FROM else "chart-warn" if ratio >= LATE_FROM else "chart"
    full = len(LOWER_EIGHTHS) - 1
    drawn = tall if tall < 3 else tall - 1
    filled = max(filled_steps(ratio / FULL_AT, drawn * full), 1)
    levels = [min(max(filled - below * full, 0), full) for below in range(tall)]
    return [(LOWER_EIGHTHS[level] * wide, style) for level in reversed(levels)]


def _heat_legend(grid: StepGrid, columns: int, hidden: int) -> Row:
    steps = grid.ratios.shape[1]
    each = -(-steps // columns)
    what = "a step" if each == 1 else f"the longest of {each:,} steps"
    last = grid.first + steps - 1
    more = f"; and {hidden} more ranks" if hidden else ""
    text = (
        f"{'':{LABEL_WIDTH}}a column is {what}, {grid.first:,} to {last:,}, without waits for "
        f"others; a full one is {FULL_AT:g}x the median of {format_ns(grid.usual)}{more}"
    )
    return row((text, "dim"))


SLOWEST = "SLOWEST"
TIME_CELLS = 9
MOST_PARTS = 10
"""Highest number of a part's column by its size, in the order in which columns go on a narrow
screen."""


class RanksView(VirtualTable):
    """One row for each rank; ``enter`` shows it on all screens."""

    BINDINGS = bindings("ranks.table")


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
        texts = [share(row.waits, row.mean) for row in rows]
        columns.append(Column("waits ≤", waits, texts.__getitem__, 8, optional=13))
    known = [(windows or {}).get(row.rank) for row in rows]
    exposed = [one.part("exposed communication") if one else None for one in known]
    if any(exposed):
        columns.append(known_column("comm", exposed, format_ns, TIME_CELLS, 11, "ns"))
    caused = [row.caused for row in rows]
    if any(one is not None for one in caused):
        columns.append(known_column("waits caused", caused, format_ns, 13, 10, "ns"))
    if slowest is not None:
        marks = [SLOWEST if row.rank == slowest else "" for row in rows]
        columns.insert(1, Column("", marks, marks.__getitem__, len(SLOWEST), LEFT))
    peaks = [row.peak_memory for row in rows]
    if any(peak is not None for peak in peaks):
        columns.append(known_column("memory", peaks, format_bytes, 9, 14))
    counts = np.array([row.steps for row in rows], np.int64)
    columns.append(Column("steps", counts, lambda at: format_count(rows[at].steps), 7, optional=12))
    hosts = [printable(row.host) for row in rows]
    columns.append(Column("host", hosts, hosts.__getitem__, 0, LEFT, optional=17))
    return TableData(names, tuple(columns), sort_column=0, descending=False, empty=empty)


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
    known = [value if row.mean else None for value, row in zip(values, rows, strict=True)]
    name = name_within(title, 13) or title[:13]
    return known_column(name, known, format_ns, TIME_CELLS, optional, "ns")


NO_RANK = "no rank has recorded a step yet"
ONE_TRACE = (
    "only one trace is open: perftui DIR, with the directory of the traces of all ranks, compares "
    "them"
)

FRAME_ROWS = 3
"""The border around the bars, and what their colours mean."""

OTHER_ROWS = 3
"""The header, the verdict and the keys."""


class RanksScreen(RunScreen):
    """A table of ranks with the parts of their steps, and a bar for each."""

    NAME = "ranks"
    PART_WITH_KEYS = RanksView
    HELP = (
        "The mean steady step of every rank and its parts, on one scale. Ranks that reduce "
        "gradients together take equally long, because the fast ones wait for the slow one. The "
        "slow rank is the one with the longest steps when the part in which ranks wait (backward, "
        "or exposed communication in a trace) is left out; waits ≤ is the share of that part. From "
        "5 % of a step it is called a straggler. Comm is the exposed communication per step in the "
        "rank's newest profiled window, once the run has ended. A directory of traces shows which "
        'rank arrives last at each collective: "waits caused" is how long all other ranks together '
        "wait there for that rank per step, computing nothing, and the rank with the most is the "
        "straggler. "
        "On a large screen the selected rank is shown next to the median of the others. "
        "{ranks.table.open} shows a rank on all screens."
    )
    BINDINGS = bindings("ranks")

    DEFAULT_CSS = """
    RanksScreen {
        #rank-verdict { height: auto; max-height: 5; overflow: hidden hidden; }
        #ranks-table { height: 1fr; }
        #rank-bars, #rank-heat, #rank-beside {
            border: round $chart; overflow: hidden hidden; display: none;
        }
    }
    """

    _table: RankTable | None = None
    """What is shown."""
    _left = 0
    """Rows that table, bars and steps leave."""

    def body(self) -> Iterable[Widget]:
        yield RowView(id="rank-verdict")
        yield RanksView(id="ranks-table")
        yield RowView(id="rank-bars", title="Mean step of each rank")
        yield RowView(id="rank-heat", title="Steps of each rank")
        yield RowView(id="rank-beside")

    def on_screen_resume(self) -> None:
        """Catch up, and read the ranks' traces where there are any."""
        super().on_screen_resume()
        self.session.rank_traces.read()

    def show(self, snapshot: Snapshot) -> None:
        traces = self.session.rank_traces
        if snapshot.run is not None:
            self.session.rank_traces.read()
            self._draw(snapshot.ask(rank_table_of), snapshot.rank_number, NO_RANK, traces.doing)
        elif len(files := self.session.ranks) > 1:
            rank = next((file.rank for file in files if file.path == snapshot.source), None)
            self._draw(traces.table, rank, traces.doing, traces.doing)
        else:
            self._draw(None, None, ONE_TRACE, "")

    def _draw(self, table: RankTable | None, shown: int | None, empty: str, doing: str) -> None:
        verdict = self.query_one("#rank-verdict", RowView)
        bars = self.query_one("#rank-bars", RowView)
        rows = rank_headline(table, self.size.width, doing)
        verdict.styles.height = max(1, min(5, len(rows)))
        verdict.rows = rows
        # Each rank of a run, from its newest window.
        has_run = self.snapshot is not None and self.snapshot.run is not None
        traced = self.session.rank_traces.table if has_run else None
        windows = {row.rank: row for row in traced.rows} if traced is not None else {}
        self.query_one(RanksView).show(rank_table(table or RankTable(), shown, empty, windows))
        count = len(table.rows) if table else 0
        bars.display = count > 0 and self.has_class("-tall")
        half = self.size.height // 2
        bars.styles.height = min(count + FRAME_ROWS, half)
        # The bars stand under the table, as long as both fit.
        fits = bars.display and count + TABLE_ROWS <= half
        self.query_one(RanksView).styles.height = count + TABLE_ROWS if fits else "1fr"
        bars.rows = rank_bars(table, bars.content_size.width, min(count + 1, half - 2))
        grid = self.snapshot.ask(step_grid) if fits and self.snapshot is not None else None
        heat = self.query_one("#rank-heat", RowView)
        left = self.size.height - OTHER_ROWS - len(rows) - 2 * count - TABLE_ROWS - FRAME_ROWS
        self._table = table
        beside = len(self._beside()) + 2
        spare = left - beside if left - beside >= count + FRAME_ROWS else left
        each = min(max((spare - FRAME_ROWS) // max(count, 1), 1), TALLEST)
        high = min(count * each + FRAME_ROWS, left)
        heat.display = grid is not None and left > FRAME_ROWS
        heat.styles.height = high
        heat.rows = step_heat(grid, heat.content_size.width, high - 2)
        self._left = left - (high if heat.display else 0) if fits else 0
        self._draw_beside()

    @on(VirtualTable.RowHighlighted)
    def _draw_beside(self) -> None:
        """The selected rank beside the others, where rows are left for it."""
        pane, rows = self.query_one("#rank-beside", RowView), self._beside()
        pane.display = bool(rows) and len(rows) + 2 <= self._left
        pane.styles.height = len(rows) + 2
        pane.entitle(f"Rank {self._selected_rank()} beside the others")
        pane.rows = rows

    def _beside(self) -> list[Row]:
        return rank_beside(self._table, self._selected_rank(), self.size.width - 2)

    def _selected_rank(self) -> int | None:
        row = self.query_one(RanksView).selected_row
        return self._table.rows[row].rank if self._table and row is not None else None

    @on(VirtualTable.RowSelected)
    def _row_selected(self, event: VirtualTable.RowSelected) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        table = snapshot.ask(rank_table_of)
        if snapshot.run is not None and table is not None:
            self.session.show_rank(table.rows[event.row].rank)
        elif snapshot.run is None:
            self.session.rank_traces.open(event.row)
