"""Operators and kernels of both sides as rows: calls, time before and after, and the difference,
also as a share of all that they took before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftui.analysis.kernels.names import short_names
from perftui.experiments.comparison import Amount, Comparison, Whole, WorkChange, split
from perftui.facts.fact import Facts
from perftui.facts.step.step_tables import operators_by_shape, step_tables
from perftui.format import middle
from perftui.trace.text import printable
from perftui_tui.look.rows import Row, row
from perftui_tui.look.units import format_ns

MOST_ROWS = 20
"""Operators, and kernels, that are listed: those that changed most."""

_CALLS, _TIME, _SHARE = 15, 10, 9
_NARROWEST = 16
"""Cells of the name from which on calls are shown as well, and the share."""
TABLES = (step_tables, operators_by_shape)
_NOTABLE = 0.01
"""Share of the time of one side: a change below it is called neither better nor worse."""


def lacks_tables(facts: Facts) -> bool:
    """Whether operators and kernels of a trace are still to be worked out."""
    if facts.analysis is None:
        return False
    return any(table not in facts.analysis.worked_out for table in TABLES)


def work_out(facts: Facts) -> None:
    """Work them out: of a million rows that takes a second, with shapes some more."""
    for table in TABLES:
        table.or_none(facts)


def work_rows(found: Comparison, cells: int) -> tuple[list[Row], list[Row]]:
    """Kernels, and operators, each with a blank row above; nothing where a side has no trace."""
    if found.tables is None:
        return [], []
    of = "a step" if found.tables[0].steps else "the whole trace"
    kernels, others = split(found.kernels, MOST_ROWS)
    names = short_names(one.name for one in kernels)
    own = sorted(found.operators, key=lambda one: -abs(one.cpu_ns))
    operators, other = split(own, MOST_ROWS)
    on_gpu = [(names[one.name], one, _gpu(one)) for one in kernels]
    on_gpu += [(others.name, others, _gpu(others))] if others else []
    on_cpu = [(one.name, one, _cpu(one)) for one in (*operators, *([other] if other else []))]
    shaped = " by shape" if found.operators_by != "name" else ""
    return (
        list(_table(f"kernels of {of}", on_gpu, found.kernels_whole, cells)),
        list(_table(f"operators of {of}{shaped}, own CPU", on_cpu, found.operators_whole, cells)),
    )


def _gpu(one: WorkChange) -> tuple[int, int]:
    return one.before.gpu_ns, one.after.gpu_ns


def _cpu(one: WorkChange) -> tuple[int, int]:
    return one.before.cpu_ns, one.after.cpu_ns


def _table(
    title: str,
    rows: Sequence[tuple[str, WorkChange, tuple[int, int]]],
    all_of: Whole | None,
    cells: int,
) -> Iterator[Row]:
    """The name has what the numbers leave; where that is too little calls are left out, then the
    share of what all of them took before. The last row is what they are parts of."""
    if not rows or all_of is None:
        return
    whole = all_of.before_ns + all_of.twice_before_ns
    left = cells - 3 * _TIME - _NARROWEST
    with_share = left >= _SHARE
    with_calls = left >= _SHARE + _CALLS
    room = max(cells - 3 * _TIME - _SHARE * with_share - _CALLS * with_calls, 1)
    calls = f"{'calls':>{_CALLS}}" if with_calls else ""
    heads = "".join(f"{one:>{_TIME}}" for one in ("before", "after", "change"))
    share = f"{'of all':>{_SHARE}}" if with_share else ""
    yield ()
    yield row((f"{middle(title, room):<{room}}{calls}{heads}{share}", "dim"))
    for name, one, (before, after) in rows:
        shown = f"{middle(printable(name), room):<{room}}"
        counts = f"{_times(one.before)} → {_times(one.after)}" if with_calls else ""
        figures = f"{counts:>{_CALLS if with_calls else 0}}{_figure(before)}{_figure(after)}"
        change = after - before
        style = "" if abs(change) < _NOTABLE * whole else ("bad" if change > 0 else "good")
        by = f"{format_ns(change) if change <= 0 else '+' + format_ns(change):>{_TIME}}"
        part = f"{_of_all(change, whole):>{_SHARE}}" if with_share else ""
        yield row(f"{shown}{figures}", (by + part, style or "dim"))
    blank = " " * (_CALLS if with_calls else 0)
    for name, before, after in _sums(all_of):
        change = after - before
        by = f"{format_ns(change) if change <= 0 else '+' + format_ns(change):>{_TIME}}"
        figures = f"{middle(name, room):<{room}}{blank}{_figure(before)}{_figure(after)}"
        yield row((figures + by, "dim"))


def _sums(of: Whole) -> Iterator[tuple[str, int, int]]:
    if of.twice_before_ns or of.twice_after_ns:
        yield "ran at the same time", -of.twice_before_ns, -of.twice_after_ns
    yield of.what, of.before_ns, of.after_ns


def _of_all(change: int, whole: int) -> str:
    """The change as a share of all before: ``-26.6 %``; a dash where nothing was before."""
    return f"{100 * change / whole:+.1f} %" if whole else "–"


def _figure(ns: int) -> str:
    return f"{format_ns(ns) if ns else '–':>{_TIME}}"


def _times(amount: Amount) -> str:
    """Calls of a mean step: whole where each step makes as many."""
    return f"{amount.calls:.1f}".removesuffix(".0") if amount.calls else "–"
