"""Two runs or traces side by side: figures, operators and kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from perftui.analysis.kernels.names import short_names
from perftui.experiments.comparison import (
    BYTES,
    NS,
    SHARE,
    Amount,
    Comparison,
    FigureChange,
    PhaseChange,
    Verdict,
    Whole,
    WorkChange,
    split,
)
from perftui.experiments.journal import Proof
from perftui.facts.fact import Facts
from perftui.facts.step.step_tables import operators_by_shape, step_tables
from perftui.facts.step.steps import StepBreakdown
from perftui.format import middle
from perftui.report.comparison import difference_lines, value_of
from perftui.run.columns import phase_name
from perftui.trace.text import printable
from perftui_tui.look.format import format_ns, per_second
from perftui_tui.look.rows import Row, crop, fold, row, wrap
from perftui_tui.panes.verdict import proof_style

NAME_WIDTH = 16
VALUE_WIDTH = 11
CHANGE_WIDTH = 9
WORD_WIDTH = 8
SAME_WITHIN = 0.03
"""A change within 3 % is called the same: below what two runs of one program differ by."""

NOTABLE_SHARE = 0.01
"""Share of the whole step, or of all operators or kernels: a part that changed by less is not
judged, however much of itself that is."""

MANY_TIMES = 10.0
"""A larger relative change is shown in the figure's own unit: +2252 % is hard to read."""

STYLES = {
    Verdict.FASTER: "good",
    Verdict.SLOWER: "bad",
    Verdict.NO_CLEAR_DIFFERENCE: "warn",
    Verdict.INCONCLUSIVE: "warn",
}


@dataclass(frozen=True)
class Line:
    """One figure of both sides; ``lower_is_better`` is None where neither is."""

    name: str
    before: float | None
    after: float | None
    show: Callable[[float], str]
    lower_is_better: bool | None = True
    matters: bool = True
    """Whether the difference is large enough beside the step to be called better or worse."""


def comparison(result: Comparison, cells: int, proof: Proof | None = None) -> list[Row]:
    """The verdict, then one row for each figure, then the limits of the comparison.

    ``proof`` is what pairs of runs came to for the change that the second run has: that counts for
    more than one run each."""
    rows = []
    if proof is not None:
        said = (proof.headline, proof_style(proof))
        rows = fold(row((f"{proof.title}: ", "bold"), said, " by pairs of runs"), cells)
        rows.append(row(("These two runs alone say:", "dim")))
    rows += _verdict(result, cells)
    head = f"{'':<{NAME_WIDTH}}{'before':>{VALUE_WIDTH}}{'after':>{VALUE_WIDTH}}{'change':>9}"
    rows.append(row((head, "dim")))
    judges = result.verdict is not Verdict.INCONCLUSIVE
    rows += [crop(_line(line, cells, judges=judges), cells) for line in _lines(result)]
    for note in result.notes:
        rows += wrap(note, cells, "dim")
    return rows


def _verdict(result: Comparison, cells: int) -> list[Row]:
    changes = ", ".join(result.changes)
    effective = f"in force: {changes}" if changes else "no changed arguments of loader or optimizer"
    return [
        *wrap(result.headline, cells, STYLES[result.verdict]),
        *wrap(result.reason, cells),
        *(each for line in difference_lines(result.differences) for each in wrap(line, cells)),
        *(() if result.of_traces else wrap(effective, cells, "dim")),
        (),
    ]


def _lines(result: Comparison) -> list[Line]:
    first, second = result.steps
    before, after = (_of(step, "steps_per_second") for step in (first, second))
    lines = [Line("steps/s", before, after, per_second, False)]
    lines += [
        Line(f"step {name}", _of(first, name), _of(second, name), format_ns)
        for name in ("mean", "p50", "p95")
    ]
    whole = first.mean if first else 0
    lines += [_phase(one, whole) for one in result.phases if one.before or one.after]
    lines += map(_figure, result.figures)
    count, counted = (float(each.count) if each else 0.0 for each in (first, second))
    return [*lines, Line("steady steps", count, counted, "{:.0f}".format, None)]


def _figure(one: FigureChange) -> Line:
    """Less memory and waiting is better, and more use of a GPU; of cores neither is."""
    better = True if one.unit in (BYTES, NS) else False if one.unit == SHARE else None
    show: Callable[[float], str] = format_ns if one.unit == NS else partial(value_of, one)
    return Line(middle(printable(one.name), NAME_WIDTH - 1), one.before, one.after, show, better)


def _phase(change: PhaseChange, step: int) -> Line:
    matters = abs(change.after - change.before) >= NOTABLE_SHARE * step
    return Line(phase_name(change.phase), change.before, change.after, format_ns, matters=matters)


def _of(step: StepBreakdown | None, field: str) -> float | None:
    return float(getattr(step, field)) if step else None


def _line(line: Line, cells: int, *, judges: bool) -> Row:
    """A figure before and after; ``judges`` where a change may be called better or worse."""
    before, after = (
        "–" if value is None else line.show(value) for value in (line.before, line.after)
    )
    left = f"{line.name:<{NAME_WIDTH}}{before:>{VALUE_WIDTH}}{after:>{VALUE_WIDTH}}"
    if not line.before or line.after is None or line.lower_is_better is None:
        return row(left)
    change = line.after / line.before - 1
    if not line.matters:
        return row(left, (f"{_difference(line):>{CHANGE_WIDTH}}", "dim"))
    by = f"{100 * change:+.0f} %" if change < MANY_TIMES else _difference(line)
    if not judges:
        return row(left, (f"{by:>{CHANGE_WIDTH}}", "dim"))
    is_better = (change < 0) == line.lower_is_better
    word, style = ("better", "good") if is_better else ("worse", "bad")
    if abs(change) <= SAME_WITHIN:
        word, style = "same", "dim"
    room = cells - len(left) - CHANGE_WIDTH - WORD_WIDTH - 3
    bar = _bar(change, max(0, room))
    return row(left, f"{by:>{CHANGE_WIDTH}} ", (f" {word:<{WORD_WIDTH}}", style), (bar, style))


def _difference(line: Line) -> str:
    """The change in the unit of the figure itself, with its sign."""
    if line.before is None or line.after is None or line.after == line.before:
        return ""
    text = line.show(line.after - line.before)
    return text if text.startswith("-") else f"+{text}"


def _bar(change: float, cells: int) -> str:
    """Left of the middle for less, right for more; the whole half is a change of 100 %."""
    half = cells // 2
    if half < 2:
        return ""
    length = min(half, round(abs(change) * half))
    left = "█" * length if change < 0 else ""
    right = "█" * length if change > 0 else ""
    return f"{left:>{half}}│{right}"


MOST_ROWS = 20
"""Operators, and kernels, that are listed: those that changed most."""

_CALLS, _TIME, _SHARE = 15, 10, 9
_NARROWEST = 16
"""Cells of the name from which on calls are shown as well, and the share."""
TABLES = (step_tables, operators_by_shape)


def lacks_tables(facts: Facts) -> bool:
    """Whether operators and kernels of a trace are still to be worked out."""
    analysis = facts.analysis
    return analysis is not None and any(table not in analysis.worked_out for table in TABLES)


def work_rows(found: Comparison, cells: int) -> tuple[list[Row], list[Row]]:
    """Kernels, and operators, each with a blank row above; nothing where a side has no trace."""
    if found.tables is None:
        return [], []
    of = "a step" if found.tables[0].steps else "the whole trace"
    kernels, others = split(found.kernels, MOST_ROWS)
    names = short_names(one.name for one in kernels)
    by_change = sorted(found.operators, key=lambda one: -abs(one.cpu_ns))
    operators, other = split(by_change, MOST_ROWS)
    on_gpu = [
        (names.get(one.name, one.name), one, (one.before.gpu_ns, one.after.gpu_ns))
        for one in (*kernels, *([others] if others else []))
    ]
    on_cpu = [
        (one.name, one, (one.before.cpu_ns, one.after.cpu_ns))
        for one in (*operators, *([other] if other else []))
    ]
    shaped = " by shape" if found.operators_by != "name" else ""
    notes = [line for note in found.table_notes for line in wrap(note, cells, "dim")]
    titles = (f"operators of {of}{shaped}, own CPU", "operators, own CPU", "operators (CPU)")
    return (
        list(_table((f"kernels of {of}", "kernels"), on_gpu, found.kernels_whole, cells)),
        [*_table(titles, on_cpu, found.operators_whole, cells), *notes],
    )


def _table(
    titles: Sequence[str],
    rows: Sequence[tuple[str, WorkChange, tuple[int, int]]],
    all_of: Whole | None,
    cells: int,
) -> Iterator[Row]:
    """The name has what the numbers leave, and the first of ``titles`` that fits; where that is too
    little calls are left out, then the share of what all of them took before. The last row is what
    they are parts of."""
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
    title = next((one for one in titles if len(one) < room), middle(titles[-1], room))
    yield row((f"{title:<{room}}{calls}{heads}{share}", "dim"))

    def figures(name: str, counts: str, before: int, after: int) -> tuple[str, str]:
        times = "".join(f"{format_ns(ns) if ns else '–':>{_TIME}}" for ns in (before, after))
        by = ("+" if after > before else "") + format_ns(after - before)
        shown = f"{middle(name, room):<{room}}{counts:>{_CALLS if with_calls else 0}}{times}"
        return shown, f"{by:>{_TIME}}"

    for name, one, (before, after) in rows:
        # One number of calls where both sides make as many: another stands out.
        since = "" if one.is_called_alike else f"{_times(one.before)} → "
        counts = f"{since}{_times(one.after)}" if with_calls else ""
        shown, by = figures(printable(name), counts, before, after)
        change = after - before
        style = "dim" if abs(change) < NOTABLE_SHARE * whole else "bad" if change > 0 else "good"
        of_all = f"{100 * change / whole:+.1f} %" if whole else "–"
        part = f"{of_all:>{_SHARE}}" if with_share else ""
        yield row(shown, (by + part, style))
    if all_of.twice_before_ns or all_of.twice_after_ns:
        twice = -all_of.twice_before_ns, -all_of.twice_after_ns
        yield row(("".join(figures("ran at the same time", "", *twice)), "dim"))
    sums = all_of.before_ns, all_of.after_ns
    yield row(("".join(figures(all_of.what, "", *sums)), "dim"))


def _times(amount: Amount) -> str:
    """Calls of a mean step: whole where each step makes as many."""
    return f"{amount.calls:.1f}".removesuffix(".0") if amount.calls else "–"
