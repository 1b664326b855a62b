"""One step as a bar of labelled parts: where does the time go."""

from __future__ import annotations

from rich.cells import set_cell_size

from perftui_tui.budget import Budget, Part
from perftui_tui.charts.bar import apportion
from perftui_tui.charts.units import format_ns
from perftui_tui.format import milliseconds, per_second, share
from perftui_tui.rows import Row, Span, row
from perftui_tui.rows import width as width_of
from perftui_tui.snapshot import Snapshot

SHORTEST_NAME = 3
"""Letters of a name that can still be told from another; below, its initial is repeated."""

EDGE = "▏"
"""Begins every part, so that parts are told apart without colour."""


def step_bar(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """Three rows: the step in words, the bar with names, the bar with times."""
    return budget_bar(snapshot.budget, cells)


def budget_bar(budget: Budget | None, cells: int, room: int = 0) -> list[Row]:
    """The three rows for ``budget``: its bar ``cells`` wide, its figures in ``room`` if given."""
    if budget is None or not budget.mean:
        return [row(("Mean step: no step has been measured yet", "dim")), (), ()]
    columns = apportion([part.ns for part in budget.parts], cells)
    shown = [(part, width) for part, width in zip(budget.parts, columns, strict=True) if width]
    return [
        _heading(budget, max(cells, room)),
        tuple(_named(part, width) for part, width in shown),
        tuple(_timed(part, width, budget.mean) for part, width in shown),
    ]


def _heading(budget: Budget, cells: int) -> Row:
    """The mean in figures; what would be cut is left out, the least needed first."""
    subject = "Mean step: " if budget.count > 1 else "Step: "
    subject = subject if budget.is_step else "Whole trace: "
    heading = row((subject, "dim"), (format_ns(budget.mean), "bold"))
    for figure in _figures(budget):
        longer = (*heading, ("   ", ""), figure)
        if width_of(longer) > cells:
            break
        heading = longer
    return heading


def _figures(budget: Budget) -> tuple[Span, ...]:
    basis = (f"({budget.basis})", "dim")
    if not budget.is_step:
        return (basis,)
    spread = (
        (f"p50 {format_ns(budget.p50)}", ""),
        (f"p95 {format_ns(budget.p95)}", ""),
    )
    rate = (f"{per_second(budget.steps_per_second)} steps/s", "")
    return (*(spread if budget.count > 1 else ()), rate, basis)


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
