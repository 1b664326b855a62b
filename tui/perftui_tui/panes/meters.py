"""The meters of the Overview, and how one is drawn at the size it has."""

from __future__ import annotations

from collections.abc import Callable

from perftui_tui.look.rows import Row
from perftui_tui.panes.gpu import gpu
from perftui_tui.panes.loader import loader
from perftui_tui.panes.machine import cpu, disk, memory, network
from perftui_tui.panes.meter import Meter, draw_chart, draw_line
from perftui_tui.panes.snapshot_pane import Draw
from perftui_tui.panes.step_time import step_time
from perftui_tui.reading.snapshot import Snapshot

OPERATORS_FROM = 5
"""Rows of the GPU pane from which a list in it is worth reading."""

METERS: dict[str, tuple[Callable[[Snapshot], Meter], str]] = {
    "Step time": (step_time, "step"),
    "GPU": (gpu, "gpu"),
    "Data loader": (loader, "loader"),
    "CPU": (cpu, "cpu"),
    "Memory": (memory, ""),
    "Disk": (disk, "disk"),
    "Network": (network, "network"),
}
"""By name, in the order they are shown, each with the chart that a click on it opens."""


def gpu_place(snapshot: Snapshot, height: int, *, lists_below: bool) -> Meter | None:
    """What the chart of the GPU shows: the GPU; on a machine without one the CPU where operators
    are listed below it; else None for the operators, where a window and the height allow a list.
    """
    shown = gpu(snapshot)
    if not shown.absent:
        return shown
    if lists_below:
        processor = cpu(snapshot)
        return shown if processor.absent else processor
    is_listed = snapshot.analysis is not None and height >= OPERATORS_FROM
    return None if is_listed else shown


def draw_meter(read: Callable[[Snapshot], Meter]) -> Draw:
    """A drawing of the meter: one line where there is one row, else a chart."""

    def draw(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
        return draw_at(read(snapshot), snapshot, cells, height)

    return draw


def draw_at(meter: Meter, snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """``meter`` as a line in up to two rows, else as a chart."""
    live = snapshot.phase.is_live
    if height < 3:
        return draw_line(meter, cells, live=live)
    return draw_chart(meter, cells, height, live=live)
