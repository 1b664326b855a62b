"""Operators and kernels of both sides as rows: calls, time before and after, and the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftui.analysis.kernels.distinct_names import short_names
from perftui.experiments.comparison import Comparison
from perftui.experiments.work_changes import Amount, WorkChange
from perftui.facts.fact import Facts
from perftui.facts.step.step_tables import step_tables
from perftui.format import middle
from perftui.trace.text import printable
from perftui_tui.look.rows import Row, row
from perftui_tui.look.units import format_ns

MOST_ROWS = 20
"""Operators, and kernels, that are listed: those that changed most."""

_CALLS, _TIME = 15, 10
_NUMBERS = _CALLS + 3 * _TIME
_NARROWEST = 16
_NOTABLE = 0.01
"""Share of the time of one side: a change below it is called neither better nor worse."""


def lacks_tables(facts: Facts) -> bool:
    """Whether operators and kernels of a trace are still to be worked out."""
    return facts.analysis is not None and step_tables not in facts.analysis.worked_out


def work_rows(found: Comparison, cells: int) -> list[Row]:
    """Kernels, then operators; nothing where a side has no trace."""
    if found.tables is None:
        return []
    of = "a step" if found.tables[0].steps else "all of the trace"
    kernels, operators = found.kernels[:MOST_ROWS], found.operators
    names = short_names(one.name for one in kernels)
    own = sorted(operators, key=lambda one: -abs(one.cpu_ns))[:MOST_ROWS]
    return [
        *_table(f"kernels of {of}", [(names[one.name], one, _gpu(one)) for one in kernels], cells),
        *_table(f"operators of {of}, own CPU", [(one.name, one, _cpu(one)) for one in own], cells),
    ]


def _gpu(one: WorkChange) -> tuple[int, int]:
    return one.before.gpu_ns, one.after.gpu_ns


def _cpu(one: WorkChange) -> tuple[int, int]:
    return one.before.cpu_ns, one.after.cpu_ns


def _table(
    title: str, rows: Sequence[tuple[str, WorkChange, tuple[int, int]]], cells: int
) -> Iterator[Row]:
    """The name has what the numbers leave; where that is too little the calls are left out."""
    if not rows:
        return
    with_calls = cells - _NUMBERS >= _NARROWEST
    room = max(cells - _NUMBERS + (0 if with_calls else _CALLS), 1)
    calls = f"{'calls':>{_CALLS}}" if with_calls else ""
    heads = "".join(f"{one:>{_TIME}}" for one in ("before", "after", "change"))
    yield ()
    yield row((f"{middle(title, room):<{room}}{calls}{heads}", "dim"))
    whole = max(sum(before for _, _, (before, _) in rows), 1)
    for name, one, (before, after) in rows:
        shown = f"{middle(printable(name), room):<{room}}"
        counts = f"{_times(one.before)} → {_times(one.after)}" if with_calls else ""
        figures = f"{counts:>{_CALLS if with_calls else 0}}{_figure(before)}{_figure(after)}"
        change = after - before
        style = "" if abs(change) < _NOTABLE * whole else ("bad" if change > 0 else "good")
        sign = "+" if change > 0 else ""
        yield row(f"{shown}{figures}", (f"{sign + format_ns(change):>{_TIME}}", style or "dim"))


def _figure(ns: int) -> str:
    return f"{format_ns(ns) if ns else '–':>{_TIME}}"


def _times(amount: Amount) -> str:
    """Calls of a mean step: whole where each step makes as many."""
    return f"{amount.calls:.1f}".removesuffix(".0") if amount.calls else "–"
