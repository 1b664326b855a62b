"""The cores of the machine, a block for each: one that is busy alone shows among idle ones."""

from __future__ import annotations

from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps
from perftui_tui.look.format import percent
from perftui_tui.look.rows import Row, crop, joined, row
from perftui_tui.panes.meter import NAME_WIDTH
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import latest, table_of

FULL = 95.0
"""Per cent of a core from which it is highlighted."""

_GROUPED = ", the busiest of {} in each"


def cores(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """One row; empty where single cores are not sampled."""
    busy = busy_of_cores(snapshot)
    if not busy:
        return []
    words = f"  {len(busy)} cores, {_busy_ones(busy)}"
    group, room = 1, cells - NAME_WIDTH - len(words)
    if len(busy) > room:
        group = -(-len(busy) // max(1, room - len(_GROUPED)))
        words += _GROUPED.format(group)
    shown = [max(busy[at : at + group]) for at in range(0, len(busy), group)]
    full = len(LOWER_EIGHTHS) - 1
    blocks = [
        (LOWER_EIGHTHS[max(filled_steps(value / 100, full), 1)], _style(value)) for value in shown
    ]
    drawn = row(("Cores".ljust(NAME_WIDTH), "bold"), *joined(blocks), (words, "dim"))
    return [crop(drawn, cells)]


def busy_of_cores(snapshot: Snapshot) -> list[float]:
    """Per cent of each core that is sampled now, in their order."""
    table = table_of(snapshot)
    if table is None:
        return []
    # Their numbers have gaps where cores are switched off.
    names = (column.name for column in table.columns if column.name.startswith("cpu.core"))
    known = (latest(table, name) for name in names if name[8:].isdecimal())
    return [value for value in known if value is not None]


def _busy_ones(busy: list[float]) -> str:
    full = sum(value >= FULL for value in busy)
    return f"{full} full" if full else f"busiest {percent(max(busy))}"


def _style(value: float) -> str:
    return "chart-warn" if value >= FULL else "chart"
