"""The meters of the Overview, and how one is drawn at the size it has."""

from __future__ import annotations

from collections.abc import Callable

from perftui_tui.charts.cells import usual_top
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import Row
from perftui_tui.panes.gpu import gpu
from perftui_tui.panes.machine import cpu, disk, loader, memory, network
from perftui_tui.panes.meter import Draw, Meter, draw_chart, draw_line
from perftui_tui.panes.verdict import own_cost
from perftui_tui.reading.snapshot import SLOW_RATIO, Snapshot

UNSTEADY_RATIO = 1.5
"""p95 over p50 from which steps are called uneven: one in twenty takes half as long again."""


def step_time(snapshot: Snapshot) -> Meter:
    """Durations of the newest steps; beside them what perftui took of all."""
    values = snapshot.step_ms
    if not values:
        return Meter("Step", absent="no training step yet")
    top = usual_top(values)
    breakdown = snapshot.breakdown
    word = ""
    if breakdown is not None and breakdown.mean.count > 1:
        even = breakdown.mean.p95 < UNSTEADY_RATIO * breakdown.mean.p50
        word = "EVEN" if even else "UNEVEN"
    usual = sorted(values)[(len(values) - 1) // 2]
    slow = tuple(value >= SLOW_RATIO * usual for value in values)
    return Meter(
        "Step",
        format_ns(values[-1] * 1e6),
        word,
        values,
        high=top,
        limit=_scale(top),
        beside=own_cost(snapshot),
        notes=(f"! {sum(slow)} slow (from {SLOW_RATIO:g}x the median)",) if any(slow) else (),
        total=snapshot.train_steps,
        marked=slow,
    )


def _scale(milliseconds: float) -> str:
    """The top of the axis in five cells: ``341ms``, ``12.5s``."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 100 else f"{seconds:.0f}s"


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
    return lambda snapshot, cells, height: draw_at(read(snapshot), snapshot, cells, height)


def draw_at(meter: Meter, snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """``meter`` as a line in up to two rows, else as a chart."""
    live = snapshot.phase.is_live
    if height < 3:
        return draw_line(meter, cells, live=live)
    return draw_chart(meter, cells, height, live=live)
