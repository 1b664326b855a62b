"""The meters of the Overview, and how one is drawn at the size it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perftui_tui.look.rows import Row, crop, row
from perftui_tui.panes.gpu import gpu
from perftui_tui.panes.loader import loader
from perftui_tui.panes.machine import cpu, disk, memory, network
from perftui_tui.panes.meter import Meter, draw_chart, draw_line
from perftui_tui.panes.snapshot_pane import Draw
from perftui_tui.panes.step_time import step_time
from perftui_tui.panes.top_ops import operators
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


def gpu_or_operators(snapshot: Snapshot, cells: int, height: int, *, lists: bool) -> Sequence[Row]:
    """The GPU; on a machine without one the operators of the newest window, where there is one and
    they may be listed here."""
    if not lists or not shows_operators(snapshot, height):
        return draw_meter(gpu)(snapshot, cells, height)
    note = row(("no GPU on this machine: CPU times", "dim"))
    return [*operators(snapshot, cells, height - 1), crop(note, cells)]


def shows_operators(snapshot: Snapshot, height: int) -> bool:
    """Whether the GPU's place is better given to operators."""
    return snapshot.analysis is not None and height >= OPERATORS_FROM and bool(gpu(snapshot).absent)


def draw_meter(read: Callable[[Snapshot], Meter]) -> Draw:
    """A drawing of the meter: one line where there is one row, else a chart."""

    def draw(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
        meter = read(snapshot)
        live = snapshot.phase.is_live
        if height < 3:
            return draw_line(meter, cells, live=live)
        return draw_chart(meter, cells, height, live=live)

    return draw
