"""Two runs or traces side by side: what changed and by how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from perftui.experiments.comparison import (
    BYTES,
    NS,
    SHARE,
    Comparison,
    FigureChange,
    PhaseChange,
    Verdict,
)
from perftui.facts.step.steps import StepBreakdown
from perftui.format import middle
from perftui.report.comparison import difference_lines, value_of
from perftui.run.columns import phase_name
from perftui.trace.text import printable
from perftui_tui.look.format import per_second
from perftui_tui.look.rows import Row, crop, fold, row, wrap
from perftui_tui.look.units import format_ns
from perftui_tui.panes.verdict import proof_style

if TYPE_CHECKING:
    from perftui.experiments.journal import Proof

NAME_WIDTH = 16
VALUE_WIDTH = 11
CHANGE_WIDTH = 9
WORD_WIDTH = 8
SAME_WITHIN = 0.03
"""A change within 3 % is called the same: below what two runs of one program differ by."""

NOTABLE_SHARE = 0.01
"""Share of the step: a part that changed by less is not judged, however much of itself that is."""

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

    @property
    def change(self) -> float | None:
        """Relative change, None where it is not known."""
        if self.before is None or self.after is None or not self.before:
            return None
        return self.after / self.before - 1


def comparison(result: Comparison, cells: int, proof: Proof | None = None) -> list[Row]:
    """The verdict, then one row for each figure, then the limits of the comparison.

    ``proof`` is what pairs of runs came to for the change that the second run has: that counts for
    more than one run each."""
    rows = [*_proven(proof, cells), *_verdict(result, cells)]
    head = f"{'':<{NAME_WIDTH}}{'before':>{VALUE_WIDTH}}{'after':>{VALUE_WIDTH}}{'change':>9}"
    rows.append(row((head, "dim")))
    judges = result.verdict is not Verdict.INCONCLUSIVE
    rows += [crop(_line(line, cells, judges=judges), cells) for line in _lines(result)]
    for note in result.notes:
        rows += wrap(note, cells, "dim")
    return rows


def _proven(proof: Proof | None, cells: int) -> list[Row]:
    if proof is None:
        return []
    result = (proof.headline, proof_style(proof))
    said = row((f"{proof.title}: ", "bold"), result, " by pairs of runs")
    return [*fold(said, cells), row(("These two runs alone say:", "dim"))]


def _verdict(result: Comparison, cells: int) -> list[Row]:
    text = result.verdict.value.upper()
    if result.speedup and result.verdict in (Verdict.FASTER, Verdict.SLOWER):
        text = f"{text}  {result.speedup:.2f}x"
    changes = ", ".join(result.changes)
    effective = f"in force: {changes}" if changes else "no changed arguments of loader or optimizer"
    return [
        row((f" {text} ", STYLES[result.verdict])),
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
    name = phase_name(change.phase)
    return Line(name, change.before, change.after, format_ns, matters=matters)


def _of(step: StepBreakdown | None, field: str) -> float | None:
    return float(getattr(step, field)) if step else None


def _line(line: Line, cells: int, *, judges: bool) -> Row:
    """A figure before and after; ``judges`` where a change may be called better or worse."""
    before, after = (
        "–" if value is None else line.show(value) for value in (line.before, line.after)
    )
    left = f"{line.name:<{NAME_WIDTH}}{before:>{VALUE_WIDTH}}{after:>{VALUE_WIDTH}}"
    change = line.change
    if change is None or line.lower_is_better is None:
        return row(left)
    if not line.matters:
        return row(left, (f"{_difference(line):>{CHANGE_WIDTH}}", "dim"))
    by = f"{100 * change:+.0f} %" if change < MANY_TIMES else _difference(line)
    if not judges:
        return row(left, (f"{by:>{CHANGE_WIDTH}}", "dim"))
    word, style = _judge(change, line.lower_is_better)
    room = cells - len(left) - CHANGE_WIDTH - WORD_WIDTH - 3
    bar = _bar(change, max(0, room))
    return row(left, f"{by:>{CHANGE_WIDTH}} ", (f" {word:<{WORD_WIDTH}}", style), (bar, style))


def _difference(line: Line) -> str:
    """The change in the unit of the figure itself, with its sign."""
    if line.before is None or line.after is None or line.after == line.before:
        return ""
    text = line.show(line.after - line.before)
    return text if text.startswith("-") else f"+{text}"


def _judge(change: float, lower_is_better: bool) -> tuple[str, str]:
    if abs(change) <= SAME_WITHIN:
        return "same", "dim"
    return ("better", "good") if (change < 0) == lower_is_better else ("worse", "bad")


def _bar(change: float, cells: int) -> str:
    """Left of the middle for less, right for more; the whole half is a change of 100 %."""
    half = cells // 2
    if half < 2:
        return ""
    length = min(half, round(abs(change) * half))
    left = "█" * length if change < 0 else ""
    right = "█" * length if change > 0 else ""
    return f"{left:>{half}}│{right}"
