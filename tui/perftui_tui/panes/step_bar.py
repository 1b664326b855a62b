"""One step as a bar of labelled parts: where does the time go."""

from __future__ import annotations

from collections.abc import Sequence

from perftui_tui.charts.bar import apportion
from perftui_tui.look.format import part_of_step, per_second, share
from perftui_tui.look.rows import Row, Span, row, with_fitting
from perftui_tui.look.rows import width as width_of
from perftui_tui.look.units import format_ns
from perftui_tui.panes.own_cost import own_cost
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.step_breakdown import DrawnStep, Part, name_within

EDGE = "▏"
"""Begins every part, so that parts can be distinguished without colour."""


def step_bar(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """A heading, the bar with names, the bar with times, and what has no room in it."""
    breakdown = snapshot.breakdown
    rows = breakdown_bar(breakdown, cells, own=own_cost(snapshot))
    small = left_out(breakdown, cells) if breakdown else ()
    return [*rows, _legend(small, breakdown.mean.mean, cells)] if breakdown and small else rows


def bar_alone(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The bar with names and times, without its heading."""
    return breakdown_bar(snapshot.breakdown, cells)[1:]


def breakdown_bar(
    breakdown: DrawnStep | None, cells: int, room: int = 0, own: Sequence[Span] = ()
) -> list[Row]:
    """The bar of ``breakdown``, ``cells`` wide, and its figures, in ``room`` if given; among these
    ``own``, what perftui took."""
    if breakdown is None or not breakdown.mean.mean:
        return [row(("Mean step: no step has been measured yet", "dim")), (), ()]
    shown, whole = _columns(breakdown, cells), breakdown.mean.mean
    return [
        _heading(breakdown, max(cells, room), own),
        tuple(_cell(part, width, name_within(part.name, width - 1)) for part, width in shown),
        tuple(_cell(part, width, _figure(part, width, whole)) for part, width in shown),
    ]


def _columns(breakdown: DrawnStep, cells: int) -> list[tuple[Part, int]]:
    columns = apportion([part.ns for part in breakdown.parts], cells)
    return [(part, width) for part, width in zip(breakdown.parts, columns, strict=True) if width]


def left_out(breakdown: DrawnStep, cells: int) -> tuple[Part, ...]:
    """Parts that a bar so wide gives no name or no figure, and those it does not show."""
    columns, whole = dict(_columns(breakdown, cells)), breakdown.mean.mean

    def is_named(part: Part) -> bool:
        width = columns.get(part, 0)
        return bool(name_within(part.name, width - 1) and _figure(part, width, whole))

    return tuple(part for part in breakdown.parts if part.ns and not is_named(part))


def _legend(parts: tuple[Part, ...], whole: int, cells: int) -> Row:
    """``parts`` in the order of the bar; where they do not fit the largest, and how many more."""
    for with_time in (True, False):
        line = _entries(parts, whole, with_time)
        if width_of(line) <= cells:
            return line
    kept = sorted(parts, key=lambda part: -part.ns)
    for count in range(len(parts) - 1, 0, -1):
        some = [part for part in parts if part in kept[:count]]
        more = (f"and {len(parts) - count} smaller", "dim")
        line = (*_entries(some, whole, with_time=False), more)
        if width_of(line) <= cells:
            return line
    return ()


def _entries(parts: Sequence[Part], whole: int, with_time: bool) -> Row:
    spans: list[Span] = []
    for part in parts:
        time = f"{part_of_step(part.ns)} " if with_time else ""
        gap = "  " if with_time else " "
        spans += [
            (f"{EDGE}{part.name} ", f"part-{part.style}"),
            (f"{time}{share(part.ns, whole)}{gap}", ""),
        ]
    return tuple(spans)


def _heading(breakdown: DrawnStep, cells: int, own: Sequence[Span]) -> Row:
    """The mean in figures; what would be cut is left out, the least needed first."""
    subject = "Mean step: " if breakdown.mean.count > 1 else "Step: "
    subject = subject if breakdown.is_step else "Whole trace: "
    heading = row((subject, "dim"), (format_ns(breakdown.mean.mean), "bold"))
    return with_fitting(heading, _figures(breakdown, own), cells)


def _figures(breakdown: DrawnStep, own: Sequence[Span]) -> tuple[Span, ...]:
    basis = (f"({breakdown.basis})", "dim")
    if not breakdown.is_step:
        return (basis,)
    spread = (
        (f"p50 {format_ns(breakdown.mean.p50)}", ""),
        (f"p95 {format_ns(breakdown.mean.p95)}", ""),
    )
    rate = (f"{per_second(breakdown.mean.steps_per_second)} steps/s", "")
    return (*(spread if breakdown.mean.count > 1 else ()), rate, *own, basis)


def _cell(part: Part, width: int, text: str) -> Span:
    return (EDGE + text.ljust(width - 1), f"part-{part.style}")


def _figure(part: Part, width: int, whole: int) -> str:
    """The time of a part, shortened to fit; empty where nothing fits."""
    time, percentage = part_of_step(part.ns), share(part.ns, whole)
    figures = (f"{time} {percentage}", f"{time.removesuffix(' ms')} {percentage}", percentage)
    return next((each for each in figures if len(each) < width), "")
