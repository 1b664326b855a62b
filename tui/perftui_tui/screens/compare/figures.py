"""Two runs or traces side by side: figures, operators and kernels."""

from __future__ import annotations

import math
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
from perftui.facts.fact import Facts
from perftui.facts.step.step_tables import operators_by_shape, step_tables
from perftui.facts.step.steps import StepBreakdown
from perftui.format import middle
from perftui.report.comparison import ALONE, difference_lines, value_of
from perftui.run.columns import phase_name
from perftui.trace.text import printable
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import Row, crop, fold, row, wrap
from perftui_tui.panes.verdict import proof_style

NAME_WIDTH, VALUE_WIDTH, CHANGE_WIDTH = 16, 11, 9
SAME_WITHIN = 0.03
"""A change within 3 % is called the same: below what two runs of one program differ by."""

NOTABLE_SHARE = 0.01
"""Share of the whole step, or of all operators or kernels: a part that changed by less is not
judged, however much of itself that is."""

STYLES = {Verdict.FASTER: "good", Verdict.SLOWER: "bad"}


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
    said: str = ""
    """What is said in place of better or worse."""

    @property
    def times(self) -> float:
        """By how much it changed, whichever way, as the logarithm of a ratio; 0 if unknown."""
        return abs(math.log(self.after / self.before)) if self.before and self.after else 0.0

    @property
    def is_alike(self) -> bool:
        """Whether it shows no change."""
        return not self.matters or self.times <= SAME_WITHIN


def comparison(result: Comparison, cells: int) -> list[Row]:
    """The verdict, then one row for each figure, then the limits of the comparison; first what
    pairs of runs came to for the change of the second run, if it was tried so."""
    changes = [f"in force: {', '.join(result.changes)}"] if result.changes else []
    told = [result.reason]
    if (proof := result.proof) is not None:
        said = (proof.headline, proof_style(proof))
        rows = fold(row((f"{proof.title}: ", "bold"), said, " by pairs of runs"), cells)
        rows += wrap(f"{ALONE}: {result.headline}", cells, "dim")
        told = [*proof.notes]
    else:
        rows = wrap(result.headline, cells, STYLES.get(result.verdict, "warn"))
    for line in filter(None, (*told, *difference_lines(result.differences), *changes)):
        rows += wrap(line, cells)
    head = f"{'':<{NAME_WIDTH}}{'before':>{VALUE_WIDTH}}{'after':>{VALUE_WIDTH}}{'change':>9}"
    rows.append(row((head, "dim")))
    judges = result.verdict in STYLES
    rows += [crop(_line(line, judges=judges), cells) for line in _lines(result)]
    for note in result.notes:
        rows += wrap(note, cells, "dim")
    return rows


def _lines(result: Comparison) -> list[Line]:
    """The step, then what changed, most of it first, then what did not."""
    names = {"mean": "mean", "usual": "mid 80 %", "p50": "p50", "p95": "p95"}

    def of_step(field: str) -> Line:
        before, after = (_of(step, field) for step in result.steps)
        said = f"{before / after:.2f}x" if before and after else ""
        said += "  <- the verdict" * (result.basis != "" and said == f"{result.speedup:.2f}x")
        return Line(f"step {names[field]}", before, after, format_ns, said=said)

    steps = [of_step(field) for field in names if result.basis or field != "usual"]
    whole = result.steps[0].mean if result.steps[0] else 0
    phases = sorted(result.phases, key=lambda one: -abs(one.after - one.before))
    parts = [_phase(one, whole) for one in phases if one.before or one.after]
    shown = [_figure(one) for one in result.figures if one.before or one.after]
    figures = sorted(shown, key=lambda line: -line.times)
    others = sorted((*parts, *figures), key=lambda line: line.is_alike)
    first, second = (_of(step, "count") or 0.0 for step in result.steps)
    return [*steps, *others, Line("steady steps", first, second, "{:.0f}".format, None)]


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


def _line(line: Line, *, judges: bool) -> Row:
    """A figure before and after; ``judges`` where a change may be called better or worse."""
    before, after = ("–" if one is None else line.show(one) for one in (line.before, line.after))
    left = f"{line.name:<{NAME_WIDTH}}{before:>{VALUE_WIDTH}}{after:>{VALUE_WIDTH}}"
    if not line.before or line.after is None or line.lower_is_better is None:
        return row(left)
    change = line.after / line.before - 1
    # +2252 % is hard to read.
    by = f"{100 * change:+.0f} %" if change < 10 else f"{change + 1:.0f}x"
    if not judges or not line.matters:
        return row(left, (f"{by:>{CHANGE_WIDTH}}  {line.said}".rstrip(), "dim"))
    is_better = (change < 0) == line.lower_is_better
    word, style = ("better", "good") if is_better else ("worse", "bad")
    if line.is_alike:
        word, style = "same", "dim"
    return row(left, f"{by:>{CHANGE_WIDTH}}  ", (line.said or word, style))


MOST_ROWS = 12
"""Operators, and kernels, that are listed: those that changed most."""

_CALLS, _TIME, _SHARE = 15, 10, 9
_NARROWEST = 24
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
    little the share of what all of them took before is left out, then calls. The last row is what
    they are parts of."""
    if not rows or all_of is None:
        return
    whole = all_of.before_ns + all_of.twice_before_ns
    left = cells - 3 * _TIME - _NARROWEST
    with_calls = left >= _CALLS
    with_share = left >= _SHARE + _CALLS
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
