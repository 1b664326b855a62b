"""Two runs or traces compared, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.experiments import comparison
from perftui.experiments.comparison import (
    BYTES,
    CORES,
    NS,
    SHARE,
    Amount,
    Comparison,
    FigureChange,
    Verdict,
    Whole,
    WorkChange,
    split,
)
from perftui.experiments.conditions import Difference, Effect
from perftui.fixes.apply_and_undo import last_applied, patch_store
from perftui.report.next_command import command
from perftui.report.output_text import (
    LETTERS,
    SCHEMA,
    Command,
    High,
    InForce,
    Low,
    Notes,
    Ratio,
    Schema,
    cut,
    cut_lists,
    filled,
    fitting_lines,
    said,
    whole,
)
from perftui.run.columns import phase_name
from perftui.trace.text import printable

Comparable = Annotated[
    Literal["yes", "partly", "no"],
    said(
        "Whether machine, versions, command and number of training processes allow the comparison, "
        "as far as they are known. Another commit does not limit it."
    ),
]


class RepeatsOutput(TypedDict):
    """Several runs on each side of a comparison, in the order of their starts."""

    before: list[str]
    after: list[str]
    pairs: Annotated[list[float], said("Step before over step after of each pair.")]


class _Compared(TypedDict):
    schema: Schema
    outcome: comparison.Verdict
    headline: Annotated[str, said("The ratio in words, and whether it is certain.")]
    proven: Annotated[
        str | None, said("What pairs of runs came to for this change: it counts for more.")
    ]
    ratio: Ratio
    low: Low
    high: High
    reason: str
    comparable: Comparable
    changes: InForce
    notes: Notes
    next: Command


class ComparisonOutput(_Compared):
    """`perftui compare`: one run or trace against another."""

    repeats: Annotated[
        RepeatsOutput | None, said("Null if there is one run or trace on each side.")
    ]
    differences: Annotated[
        list[Difference], said("Of two runs, those that limit the comparison most first.")
    ]
    steps_of: Annotated[
        Literal["run", "trace"],
        said("Whose steps are compared: for two runs, those of the training thread."),
    ]
    parts_ns: Annotated[
        dict[str, tuple[int, int]], said("Mean time of each part of the step, before and after.")
    ]
    table_steps: Annotated[
        tuple[int, int] | None,
        said(
            "Steps in which operators and kernels were profiled; 0 for all of a trace that marks "
            "no steps; null if a side has no trace."
        ),
    ]
    operators: Annotated[
        list[WorkChange],
        said(
            "For the mean step, those with another number of calls first, then the most changed; a "
            "side with 0 calls does not have it."
        ),
    ]
    operators_by: Annotated[
        Literal["name", "name and shapes"],
        said("By shapes, which follow the name, if both sides have recorded them."),
    ]
    operators_of: Annotated[Whole | None, said("What the CPU times of `operators` sum to.")]
    kernels: Annotated[list[WorkChange], said("Kernels, copies and memsets of the mean step.")]
    kernels_of: Annotated[
        Whole | None,
        said(
            "What the times of `kernels` sum to, less what was counted twice because kernels ran "
            "at the same time."
        ),
    ]
    figures: Annotated[
        list[FigureChange],
        said("Memory, data loader and machine; null where a side does not know it."),
    ]


class BriefComparison(_Compared):
    """`perftui compare --json --brief`: at most 2,000 bytes."""

    differences: Annotated[list[str], said("Of two runs, in words: torch 2.8.0 -> 2.9.1.")]
    largest_change: Annotated[str | None, said("The phase of the step that changed most.")]
    largest_change_ns: Annotated[int | None, said("By how much; below 0 is less time.")]


MOST_ROWS = 10
"""Operators, and kernels, that are listed."""

_NAME, _CALLS, _TIME = 30, 18, 9
_FIGURE = 34
"""Columns of a name, of calls, of a time, and of the name of a figure."""


def _tables(result: Comparison) -> Iterator[str]:
    """All tables, each with a blank line above it; not yet safe to show."""
    yield from _figures(result)
    scope = "a step" if result.tables and result.tables[0].steps else "all of the trace"
    names = short_names((row.name for row in result.kernels[:MOST_ROWS]), _NAME)
    yield from _table(
        f"Kernels and copies of {scope}, most changed first",
        "kernel or copy",
        result.kernels,
        result.kernels_whole,
        lambda amount: amount.gpu_ns,
        names,
    )
    yield from _table(
        f"Operators of {scope} by {result.operators_by}, self CPU time, changed calls first",
        "operator",
        result.operators_by_cpu,
        result.operators_whole,
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


def _figures(result: Comparison) -> Iterator[str]:
    if not result.figures:
        return
    yield ""
    yield "Memory, data loader and machine"
    yield f"  {'':<{_FIGURE}} {'before':>12} {'after':>12} {'change':>15}"
    for figure in result.figures:
        before, after = (value_of(figure, value) for value in (figure.before, figure.after))
        name = fmt.middle(figure.name, _FIGURE)
        yield f"  {name:<{_FIGURE}} {before:>12} {after:>12} {change_of(figure):>15}".rstrip()


def _table(
    title: str,
    head: str,
    rows: tuple[WorkChange, ...],
    whole: Whole | None,
    time: Callable[[Amount], int],
    names: Mapping[str, str],
) -> Iterator[str]:
    """The rows that changed most, then the sum of the others, and the whole."""
    if not rows or whole is None:
        return
    yield ""
    yield title
    heads = "".join(f"{word:>{_TIME}}" for word in ("before", "after", "change"))
    yield f"  {head:<{_NAME}}{'calls':>{_CALLS}}{heads}"
    listed, others = split(rows, MOST_ROWS)
    for row in (*listed, *([others] if others else [])):
        name = names.get(row.name, row.name)
        yield _row(name, calls_of(row), time(row.before), time(row.after), row)
    twice = -whole.twice_before_ns, -whole.twice_after_ns
    if any(twice):
        yield _row("ran at the same time", "", *twice)
    yield _row(whole.what, "", whole.before_ns, whole.after_ns)


def calls_of(row: WorkChange) -> str:
    """``1 -> 2``, ``2, only after``."""
    before, after = (f"{side.calls:.1f}".removesuffix(".0") for side in (row.before, row.after))
    if not row.before.calls:
        return f"{after}, only after"
    return f"{before} -> {after}" if row.after.calls else f"{before}, only before"


def _row(name: str, calls: str, before: int, after: int, of: WorkChange | None = None) -> str:
    sides = ((before, of.before.calls), (after, of.after.calls)) if of else None
    times = [
        fmt.duration(time) if calls_ else "-" for time, calls_ in sides or ((before, 1), (after, 1))
    ]
    change = f"{'+' if after > before else ''}{fmt.duration(after - before)}"
    shown = fmt.middle(printable(name), _NAME)
    figures = "".join(f"{cell:>{_TIME}}" for cell in (*times, change))
    return f"  {shown:<{_NAME}}{calls:>{_CALLS}}{figures}"


ALONE = "these two runs, one each and at different times"
"""What says less than pairs of runs."""


def text(result: Comparison) -> str:
    """The verdict, what limits the comparison, the parts of both mean steps, memory, loader and
    machine, operators and kernels that changed most, and what the comparison does not show."""
    headline = _headline(result)
    shown = [result.proven, f"{ALONE}: {headline}"] if result.proven else [headline]
    shown += (f"  {line}" for line in difference_lines(result.differences))
    shown += [
        f"  {phase_name(row.phase):<18} {fmt.duration(row.before):>10} -> {fmt.duration(row.after)}"
        for row in result.phases
        if row.before or row.after
    ]
    shown += [*_rest(result), *(f"  {note}" for note in result.table_notes)]
    shown += _tables(result)
    return "\n".join(map(printable, shown)) + "\n"


def _headline(result: Comparison) -> str:
    is_partly = any(row.effect is Effect.PARTLY for row in result.differences)
    limit = f", {_INTRODUCED[Effect.PARTLY]}" if is_partly else ""
    return f"{result.headline}{limit}: {result.reason}"


_INTRODUCED = {
    Effect.NOT_COMPARABLE: "not comparable",
    Effect.PARTLY: "only partly comparable",
    Effect.SOURCE: "source",
}


def difference_lines(differences: Sequence[Difference]) -> list[str]:
    """A line for each effect that one of ``differences`` has: ``only partly comparable: torch 2.8.0
    -> 2.9.1, host a -> b``. Not yet safe to show."""
    return [
        f"{introduction}: {', '.join(texts)}"
        for effect, introduction in _INTRODUCED.items()
        if (texts := [row.text for row in differences if row.effect is effect])
    ]


def _rest(result: Comparison) -> list[str]:
    changes = [f"  in force: {', '.join(result.changes)}"] if result.changes else []
    return [*changes, *(f"  {note}" for note in (result.basis, *result.notes) if note)]


def as_object(result: Comparison) -> ComparisonOutput:
    """The comparison as JSON; times are integer nanoseconds."""
    repeats, tables = result.repeats, result.tables
    effects = {change.effect for change in result.differences}
    partly: Literal["partly", "yes"] = "partly" if Effect.PARTLY in effects else "yes"
    return filled(
        ComparisonOutput,
        result,
        result.estimate,
        schema=SCHEMA,
        outcome=result.verdict,
        ratio=result.speedup,
        repeats={
            "before": [run.run_id for run in repeats.before],
            "after": [run.run_id for run in repeats.after],
            "pairs": repeats.ratios,
        }
        if repeats
        else None,
        comparable="no" if Effect.NOT_COMPARABLE in effects else partly,
        steps_of="trace" if result.of_traces else "run",
        parts_ns={part.phase: (part.before, part.after) for part in result.phases},
        table_steps=(tables[0].steps, tables[1].steps) if tables else None,
        operators_of=msgspec.to_builtins(result.operators_whole),
        kernels_of=msgspec.to_builtins(result.kernels_whole),
        notes=[*result.notes, *result.table_notes],
        next=_next(result),
    )


def _next(result: Comparison) -> list[str] | None:
    """The next command: diagnose the faster run, or undo the fix that was written between both runs
    and made it slower."""
    before, after = result.before.run, result.after.run
    if before is None or after is None:
        return None
    if result.verdict is Verdict.FASTER:
        return command("report", after.root)
    applied = last_applied(patch_store(after.root))
    began, ended = before.manifest.started_ns, after.manifest.started_ns
    if result.verdict is Verdict.SLOWER and applied and began < applied.applied_ns < ended:
        return command("undo", after.root)
    return None


def brief_text(result: Comparison) -> str:
    """The verdict, what limits the comparison, the next command and the phase that changed most,
    then notes."""
    following, largest = _next(result), _largest(result)
    lines = [cut(_headline(result), LETTERS)]
    lines += [f"  {cut(line, LETTERS)}" for line in difference_lines(result.differences)]
    lines += [printable(f"  next: {shlex.join(following)}")] if following else []
    if largest:
        phase, before, after = largest
        lines.append(f"  {phase_name(phase)} {fmt.duration(before)} -> {fmt.duration(after)}")
    return fitting_lines((*lines, *(cut(line, LETTERS) for line in _rest(result))))


def brief_object(result: Comparison) -> BriefComparison:
    """The brief comparison as JSON."""
    whole_result, largest = as_object(result), _largest(result)
    names = BriefComparison.__annotations__.keys()
    plain: Any = {name: value for name, value in whole_result.items() if name in names}
    plain["reason"] = cut(plain["reason"], LETTERS)
    plain["proven"] = result.proven and cut(result.proven, LETTERS)
    plain["largest_change"] = largest[0] if largest else None
    plain["largest_change_ns"] = largest[2] - largest[1] if largest else None
    plain["next"] = whole(plain["next"])
    plain["differences"] = [change.text for change in result.differences]
    cut_lists(plain, "notes", "changes", "differences")
    return cast(BriefComparison, plain)


def _largest(result: Comparison) -> tuple[str, int, int] | None:
    """The phase that changed most, with its time before and after."""
    changed = [(part.phase, part.before, part.after) for part in result.phases]
    return max(changed, key=lambda part: abs(part[2] - part[1]), default=None)
