"""Step time: every training step, from zero to the slowest usual one."""

from __future__ import annotations

from perftui_tui.charts.axis import usual_top
from perftui_tui.look.units import format_ns
from perftui_tui.panes.meter import Meter
from perftui_tui.panes.own_cost import own_cost
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
        notes=tuple(filter(None, [_slow(slow)])),
        total=snapshot.train_steps,
        marked=slow,
    )


def _slow(slow: tuple[bool, ...]) -> str:
    """How many of the steps that are charted are slow."""
    count = sum(slow)
    return f"! {count} slow (from {SLOW_RATIO:g}x the median)" if count else ""


def _scale(milliseconds: float) -> str:
    """The top of the axis in five cells: ``341ms``, ``12.5s``."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 100 else f"{seconds:.0f}s"
