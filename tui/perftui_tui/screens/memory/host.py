"""Memory of the host: of the run's processes by role, the page cache, swap and /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perftui_tui.charts.area import over_all_columns, sparkline
from perftui_tui.look.rows import Row, crop, fit, row, with_fitting, wrap
from perftui_tui.look.units import format_bytes
from perftui_tui.panes.meter import Meter, draw_chart
from perftui_tui.reading.telemetry import RESIDENT, last_known, table_of, why_absent
from perftui_tui.screens.memory.stack import AXIS_CELLS, below_axis, stacked_cells, with_axis

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perftui.run.table import Table
    from perftui_tui.reading.snapshot import Snapshot


class Role(NamedTuple):
    """Processes that do one thing."""

    label: str
    column: str
    glyph: str
    style: str


ROLES = (
    Role("main", "processes.ranks_rss", "█", "memory-parameters"),
    Role("workers", "processes.workers_rss", "▓", "memory-activations"),
    Role("other processes", "processes.rest_rss", "░", "memory-before"),
)
"""What trains, what loads its data, and what else the run has started."""

ROWS = (
    *((role.label, role.column, "") for role in ROLES),
    ("all (RSS)", RESIDENT, ""),
    ("shared once (PSS)", "processes.pss", ""),
    ("machine in use", "memory.used", "memory.total"),
    ("page cache", "memory.page_cache", ""),
    ("swap", "swap.used", ""),
    ("/dev/shm", "memory.shm_used", "memory.shm_total"),  # noqa: S108 - its size is shown
)
"""What each row is called, its metric, and that of its capacity."""

NAME_CELLS, FIGURE_CELLS = 18, 10

NOTE = "RSS counts a shared page in every process, PSS splits it between them."


def host_rows(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row for each kind of memory that was sampled: now, highest, capacity and history."""
    table = table_of(snapshot)
    if table is None:
        return wrap(f"the host's memory: {why_absent(snapshot)}", cells, "dim")
    chart = cells - NAME_CELLS - 3 * FIGURE_CELLS - 1
    has_capacity = chart >= MOST_NARROW
    if not has_capacity:
        chart += FIGURE_CELLS
    names = ("now", "highest", "capacity")[: 3 if has_capacity else 2]
    head = " " * NAME_CELLS + "".join(f"{name:>{FIGURE_CELLS}}" for name in names)
    rows = [row((head, "dim"))]
    for name, column, limit in sampled(table):
        values = table[column]
        known = values[values == values]
        most = float(known.max())
        of = last_known(table, limit) if limit else None
        figures = [format_bytes(float(known[-1])), format_bytes(most)]
        if has_capacity:
            figures.append("" if of is None else format_bytes(of))
        text = "".join(f"{figure:>{FIGURE_CELLS}}" for figure in figures)
        line = _history(known, max(1, chart), max(most, 1.0))
        rows.append(fit(row(f"{name:<{NAME_CELLS}}", text, (f" {line}", "chart")), cells))
    if len(rows) == 1:
        return wrap(f"the host's memory: {why_absent(snapshot)}", cells, "dim")
    notes = wrap(NOTE, cells, "dim") if "processes.pss" in table else []
    return [*rows, *(notes if len(rows) + len(notes) <= height else [])][:height]


MOST_NARROW = 12
"""Cells of history below which the capacities give way."""


def sampled(table: Table) -> Iterator[tuple[str, str, str]]:
    """Those of ``ROWS`` of which there is a sample; other processes only where there are any."""
    for name, column, limit in ROWS:
        if column not in table:
            continue
        values = table[column]
        # NaN is not equal to itself.
        known = values[values == values]
        if len(known) and (column != ROLES[-1].column or known.max() > 0):
            yield name, column, limit


def host_line(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """What is used now, in one row, as much as fits."""
    table = table_of(snapshot)
    if table is None:
        return []
    line = row(("Host ", "dim"))
    spans = []
    for name, column, limit in sampled(table):
        now, of = last_known(table, column), last_known(table, limit) if limit else None
        if column in _IN_LINE and now is not None:
            spans.append(
                (f"{name} {format_bytes(now)}{f' of {format_bytes(of)}' if of else ''}", "")
            )
    return [with_fitting(line, spans, cells)]


_IN_LINE = (RESIDENT, "processes.pss", "memory.page_cache", "swap.used", "memory.shm_used")


def _history(values: npt.NDArray[np.float64], columns: int, high: float) -> str:
    """The known samples over the whole width."""
    return sparkline(over_all_columns(values.tolist(), columns), columns, 0, high)


def processes_chart(snapshot: Snapshot, cells: int, height: int) -> Sequence[Row]:
    """Resident memory of the run's processes, stacked by role where that was sampled."""
    if snapshot.run is None:
        return []
    table = table_of(snapshot)
    if table is not None and all(role.column in table for role in ROLES):
        return _by_role(snapshot, table, cells, height)
    return _resident(snapshot, table, cells, height)


def _by_role(snapshot: Snapshot, table: Table, cells: int, height: int) -> Sequence[Row]:
    import numpy as np

    from perftui_tui.charts.stacked import highest_of_bins

    parts = np.array([table[role.column] for role in ROLES])
    known = ~np.isnan(parts).any(axis=0)
    if not known.any():
        return wrap(f"the processes' memory: {why_absent(snapshot)}", cells, "dim")
    columns, rows = max(1, cells - AXIS_CELLS), max(1, height - 2)
    sizes = parts[:, known].astype(np.int64)
    shown = highest_of_bins(sizes, columns, snapshot.phase.is_live)
    top = max(int(sizes.sum(axis=0).max()), 1)
    glyphs = {at: (one.glyph, one.style) for at, one in enumerate(ROLES)}
    drawn = with_axis(stacked_cells(shown, rows, top, glyphs), top)
    seconds = (
        (table["time"][known][-1] - table["time"][known][0]) / 1e9 if "time" in table else None
    )
    at = sizes.shape[1] - 1 if snapshot.phase.is_live else int(sizes.sum(axis=0).argmax())
    when = "now" if snapshot.phase.is_live else "highest"
    legend = _legend(when, sizes[:, at].tolist(), cells)
    return [*drawn, _time_row(seconds, shown.shape[1]), legend]


def _time_row(seconds: float | None, columns: int) -> Row:
    last = "" if seconds is None else f"{seconds:.0f} s"
    return below_axis(f"0{last:>{max(0, columns - 1)}}")


def _legend(when: str, held: Sequence[int], cells: int) -> Row:
    line = row((f"{when} {format_bytes(sum(held))}: ", "dim"))
    for role, size in zip(ROLES, held, strict=True):
        line = (*line, (role.glyph * 2, role.style), (f" {role.label} {format_bytes(size)}   ", ""))
    return crop(line, cells)


def _resident(snapshot: Snapshot, table: Table | None, cells: int, height: int) -> Sequence[Row]:
    """Resident memory of all processes together, which older runs have alone."""
    values = tuple(table[RESIDENT].tolist()) if table and RESIDENT in table else ()
    known = [value for value in values if value == value]
    if not known:
        return wrap(f"the processes' memory: {why_absent(snapshot)}", cells, "dim")
    whole = snapshot.manifest.memory_bytes if snapshot.manifest else 0
    high = max(known) * 1.1
    meter = Meter(
        "RSS",
        format_bytes(known[-1]),
        values=values,
        high=high,
        limit=format_bytes(high).replace(" ", "")[:5],
        notes=(
            f"highest {format_bytes(max(known))}",
            *((f"{format_bytes(whole)} in the machine",) if whole else ()),
            "shared pages count once per process",
        ),
        total=len(values),
    )
    return draw_chart(meter, cells, height, live=snapshot.phase.is_live)
