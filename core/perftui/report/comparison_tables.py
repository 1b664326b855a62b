"""Tables of a comparison as text: memory and machine, kernels, operators; in 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.experiments.changes import (
    BYTES,
    CORES,
    NS,
    SHARE,
    Amount,
    FigureChange,
    Whole,
    WorkChange,
    split,
)
from perftui.experiments.comparison import Comparison
from perftui.trace.text import printable

MOST_ROWS = 10
"""Operators, and kernels, that are listed."""

_NAME, _CALLS, _TIME = 30, 18, 9
_FIGURE = 34
"""Columns of a name, of calls, of a time, and of the name of a figure."""


def lines(found: Comparison) -> Iterator[str]:
    """All tables, each with a blank line above it; not yet safe to show."""
    yield from _figures(found)
    of = "a step" if found.tables and found.tables[0].steps else "all of the trace"
    names = short_names((one.name for one in found.kernels[:MOST_ROWS]), _NAME)
    yield from _table(
        f"Kernels and copies of {of}",
        "kernel or copy",
        found.kernels,
        found.kernels_whole,
        lambda amount: amount.gpu_ns,
        names,
    )
    yield from _table(
        f"Operators of {of} by {found.operators_by}, self CPU time",
        "operator",
        tuple(sorted(found.operators, key=lambda one: -abs(one.cpu_ns))),
        found.operators_whole,
        lambda amount: amount.cpu_ns,
        {},
    )


def value_of(figure: FigureChange, value: float | None) -> str:
    """``31 GiB``, ``62 %``, ``1.88``; a dash where it is not known."""
    if value is None:
        return "-"
    if figure.unit == BYTES:
        return fmt.size(value)
    if figure.unit == NS:
        return fmt.duration(value)
    if figure.unit == SHARE:
        return fmt.percent(value)
    return f"{value:.2f}" if figure.unit == CORES else f"{value:g}"


def change_of(figure: FigureChange) -> str:
    """The difference with its sign, empty where a side is not known; shares in points."""
    if figure.before is None or figure.after is None:
        return ""
    change = figure.after - figure.before
    if figure.unit == SHARE:
        return f"{100 * change:+.1f} points"
    text = value_of(figure, change)
    return f"+{text}" if change > 0 else text


def _figures(found: Comparison) -> Iterator[str]:
    if not found.figures:
        return
    yield ""
    yield "Memory, data loader and machine"
    yield f"  {'':<{_FIGURE}} {'before':>12} {'after':>12} {'change':>15}"
    for one in found.figures:
        before, after = (value_of(one, value) for value in (one.before, one.after))
        name = fmt.middle(one.name, _FIGURE)
        yield f"  {name:<{_FIGURE}} {before:>12} {after:>12} {change_of(one):>15}".rstrip()


def _table(
    title: str,
    head: str,
    rows: tuple[WorkChange, ...],
    whole: Whole | None,
    time: Callable[[Amount], int],
    names: Mapping[str, str],
) -> Iterator[str]:
    """Those that changed most, then the sum of the others, and what all are parts of."""
    if not rows or whole is None:
        return
    yield ""
    yield f"{title}, most changed first"
    heads = "".join(f"{word:>{_TIME}}" for word in ("before", "after", "change"))
    yield f"  {head:<{_NAME}}{'calls':>{_CALLS}}{heads}"
    listed, others = split(rows, MOST_ROWS)
    for one in listed:
        yield _row(
            names.get(one.name, one.name), calls_of(one), time(one.before), time(one.after), one
        )
    if others is not None:
        yield _row(others.name, calls_of(others), time(others.before), time(others.after), others)
    twice = -whole.twice_before_ns, -whole.twice_after_ns
    if any(twice):
        yield _row("ran at the same time", "", *twice)
    yield _row(whole.what, "", whole.before_ns, whole.after_ns)


def calls_of(one: WorkChange) -> str:
    """``1 -> 2``, ``2, only after``."""
    before, after = (f"{side.calls:.1f}".removesuffix(".0") for side in (one.before, one.after))
    if not one.before.calls:
        return f"{after}, only after"
    return f"{before} -> {after}" if one.after.calls else f"{before}, only before"


def _row(name: str, calls: str, before: int, after: int, of: WorkChange | None = None) -> str:
    sides = ((before, of.before.calls), (after, of.after.calls)) if of else None
    times = [
        fmt.duration(time) if calls_ else "-" for time, calls_ in sides or ((before, 1), (after, 1))
    ]
    change = f"{'+' if after > before else ''}{fmt.duration(after - before)}"
    shown = fmt.middle(printable(name), _NAME)
    figures = "".join(f"{one:>{_TIME}}" for one in (*times, change))
    return f"  {shown:<{_NAME}}{calls:>{_CALLS}}{figures}"
