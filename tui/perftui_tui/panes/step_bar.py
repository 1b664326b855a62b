"""One step as a bar of labelled parts: where does the time go."""

from __future__ import annotations

from rich.cells import set_cell_size

from perftui_tui.budget import Budget, Part
from perftui_tui.charts.bar import apportion
from perftui_tui.charts.units import format_ns
from perftui_tui.format import milliseconds, share
from perftui_tui.rows import Row, Span, row
from perftui_tui.snapshot import Snapshot

SHORTEST_NAME = 3
"""Letters of a name that can still be told from another; below, its initial is repeated."""

EDGE = "▏"
"""Begins every part, so that parts are told apart without colour."""


def step_bar(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """Three rows: the step in words, the bar with names, the bar with times."""
    return budget_bar(snapshot.budget, cells)


def budget_bar(budget: Budget | None, cells: int) -> list[Row]:
    """The three rows for ``budget``, its bar ``cells`` wide."""
    if budget is None or not budget.mean:
        return [row(("One step: no step has been measured yet", "dim")), (), ()]
    columns = apportion([part.ns for part in budget.parts], cells)
    shown = [(part, width) for part, width in zip(budget.parts, columns, strict=True) if width]
    return [
        _heading(budget),
        tuple(_named(part, width) for part, width in shown),
        tuple(_timed(part, width, budget.mean) for part, width in shown),
    ]


def _heading(budget: Budget) -> Row:
    return row(
        ("One step: ", "dim"),
        (format_ns(budget.mean), "bold"),
        f"   p50 {format_ns(budget.p50)}   p95 {format_ns(budget.p95)}",
        f"   {budget.steps_per_second:.3g} steps/s",
        (f"   ({budget.basis})", "dim"),
    )


def _named(part: Part, width: int) -> Span:
    room = width - 1
    label = part.name[:room] if room >= SHORTEST_NAME else part.name[:1].upper() * room
    return (EDGE + set_cell_size(label, room), f"part-{part.style}")


def _timed(part: Part, width: int, whole: int) -> Span:
    for label in (
        f"{milliseconds(part.ns)} ms {share(part.ns, whole)}",
        f"{milliseconds(part.ns)} {share(part.ns, whole)}",
        share(part.ns, whole),
    ):
        if len(label) < width:
            return (EDGE + label.ljust(width - 1), f"part-{part.style}")
    return (EDGE + " " * (width - 1), f"part-{part.style}")
