"""Operators and kernels of both sides as rows: calls, time before and after, and the difference,
also as a share of all that they took before."""

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

_CALLS, _TIME, _SHARE = 15, 10, 9
_NARROWEST = 16
"""Cells of the name from which on calls are shown as well, and the share."""
_NOTABLE = 0.01
"""Share of the time of one side: a change below it is called neither better nor worse."""


def lacks_tables(facts: Facts) -> bool:
    """Whether operators and kernels of a trace are still to be worked out."""
    return facts.analysis is not None and step_tables not in facts.analysis.worked_out


def work_rows(found: Comparison, cells: int) -> tuple[list[Row], list[Row]]:
    """Kernels, and operators, each with a blank row above; nothing where a side has no trace."""
    if found.tables is None:
        return [], []
    of = "a step" if found.tables[0].steps else "the whole trace"
    kernels, operators = found.kernels[:MOST_ROWS], found.operators
    names = short_names(one.name for one in kernels)
    own = sorted(operators, key=lambda one: -abs(one.cpu_ns))[:MOST_ROWS]
    on_gpu = [(names[one.name], one, _gpu(one)) for one in kernels]
    on_cpu = [(one.name, one, _cpu(one)) for one in own]
    whole, all_own = (
        sum(each(one)[0] for one in every)
        for each, every in ((_gpu, found.kernels), (_cpu, operators))
    )
    return (
        list(_table(f"kernels of {of}", on_gpu, whole, cells)),
        list(_table(f"operators of {of}, own CPU", on_cpu, all_own, cells)),
    )


def _gpu(one: WorkChange) -> tuple[int, int]:
    return one.before.gpu_ns, one.after.gpu_ns


def _cpu(one: WorkChange) -> tuple[int, int]:
    return one.before.cpu_ns, one.after.cpu_ns


def _table(
    title: str,
    rows: Sequence[tuple[str, WorkChange, tuple[int, int]]],
    whole: int,
    cells: int,
) -> Iterator[Row]:
    """The name has what the numbers leave; where that is too little calls are left out, then the
    share of ``whole``, what all of them took before."""
    if not rows:
        return
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


def _of_all(change: int, whole: int) -> str:
    """The change as a share of all before: ``-26.6 %``; a dash where nothing was before."""
    return f"{100 * change / whole:+.1f} %" if whole else "–"


def _figure(ns: int) -> str:
    return f"{format_ns(ns) if ns else '–':>{_TIME}}"


def _times(amount: Amount) -> str:
    """Calls of a mean step: whole where each step makes as many."""
    return f"{amount.calls:.1f}".removesuffix(".0") if amount.calls else "–"
