"""Two runs or traces compared, as text and as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from perftui import format as fmt
from perftui.experiments.comparison import Comparison, Verdict
from perftui.experiments.conditions import Difference, Effect
from perftui.experiments.repeats import Repeats
from perftui.fixes.apply import last_applied, patch_store
from perftui.report import comparison_tables
from perftui.report.blocks import cut
from perftui.report.fit import LETTERS, cut_lists, fitting_lines, whole
from perftui.report.next_command import report_command, undo_command
from perftui.report.outputs.changes import BriefComparison, ComparisonOutput, RepeatsOutput
from perftui.run.columns import phase_name
from perftui.trace.text import printable

SCHEMA = 1

_ONLY_WHOLE = (
    *("steps_of", "parts_ns", "table_steps", "operators", "operators_by", "operators_of"),
    *("kernels", "kernels_of", "figures", "repeats"),
)
"""Fields that the brief comparison does without."""


def text(found: Comparison) -> str:
    """The verdict, what limits the comparison, the parts of both mean steps, memory, loader and
    machine, operators and kernels that changed most, and what the comparison does not show."""
    lines = [_headline(found), *(f"  {line}" for line in difference_lines(found.differences))]
    lines += [
        f"  {phase_name(one.phase):<18} {fmt.duration(one.before):>10} -> {fmt.duration(one.after)}"
        for one in found.phases
        if one.before or one.after
    ]
    lines += [*_rest(found), *(f"  {note}" for note in found.table_notes)]
    lines += comparison_tables.lines(found)
    return "\n".join(map(printable, lines)) + "\n"


def _steps(found: Comparison) -> tuple[int, int]:
    """Steps that the operators and kernels are those of; 0 for all of a trace."""
    first, second = found.tables or (None, None)
    return first.steps if first else 0, second.steps if second else 0


def _headline(found: Comparison) -> str:
    ratio = f" {found.speedup:.2f}x" if found.speedup else ""
    return f"{found.verdict.value}{ratio}: {found.reason}"


_INTRODUCED = {
    Effect.NOT_COMPARABLE: "not comparable",
    Effect.PARTLY: "only partly comparable",
    Effect.SOURCE: "source",
}


def difference_lines(differences: Sequence[Difference]) -> list[str]:
    """A line for each effect that one of ``differences`` has: ``only partly comparable: torch 2.8.0
    -> 2.9.1, host a -> b``. Not yet safe to show."""
    found = {
        effect: [one.text for one in differences if one.effect is effect] for effect in _INTRODUCED
    }
    return [
        f"{_INTRODUCED[effect]}: {', '.join(texts)}" for effect, texts in found.items() if texts
    ]


def _comparable(differences: Sequence[Difference]) -> Literal["yes", "partly", "no"]:
    effects = {one.effect for one in differences}
    if Effect.NOT_COMPARABLE in effects:
        return "no"
    return "partly" if Effect.PARTLY in effects else "yes"


def _rest(found: Comparison) -> list[str]:
    changes = [f"  in force: {', '.join(found.changes)}"] if found.changes else []
    return [*changes, *(f"  {note}" for note in found.notes)]


def as_object(found: Comparison) -> ComparisonOutput:
    """The comparison as JSON; times are integer nanoseconds."""
    return {
        "schema": SCHEMA,
        "outcome": found.verdict,
        "ratio": found.speedup,
        "low": found.estimate.low if found.estimate else None,
        "high": found.estimate.high if found.estimate else None,
        "repeats": _repeats(found.repeats) if found.repeats else None,
        "reason": found.reason,
        "comparable": _comparable(found.differences),
        "differences": msgspec.to_builtins(found.differences),
        "steps_of": "trace" if found.of_traces else "run",
        "parts_ns": {one.phase: (one.before, one.after) for one in found.phases},
        "table_steps": _steps(found) if found.tables else None,
        "operators": msgspec.to_builtins(found.operators),
        "operators_by": found.operators_by,
        "operators_of": msgspec.to_builtins(found.operators_whole),
        "kernels": msgspec.to_builtins(found.kernels),
        "kernels_of": msgspec.to_builtins(found.kernels_whole),
        "figures": msgspec.to_builtins(found.figures),
        "changes": list(found.changes),
        "notes": [*found.notes, *found.table_notes],
        "next": _next(found),
    }


def _repeats(repeats: Repeats) -> RepeatsOutput:
    return {
        "before": [one.run_id for one in repeats.before],
        "after": [one.run_id for one in repeats.after],
        "pairs": repeats.ratios,
    }


def _next(found: Comparison) -> list[str] | None:
    """What goes on from here: the diagnosis of the faster run, or the fix taken out again that was
    written between both runs and made it slower."""
    before, after = found.before.run, found.after.run
    if before is None or after is None:
        return None
    if found.verdict is Verdict.FASTER:
        return report_command(after.root)
    applied = last_applied(patch_store(after.root))
    began, ended = before.manifest.started_ns, after.manifest.started_ns
    if found.verdict is Verdict.SLOWER and applied and began < applied.applied_ns < ended:
        return undo_command(after.root)
    return None


def brief_text(found: Comparison) -> str:
    """The verdict, what limits the comparison, the next command and the phase that changed most,
    then notes."""
    following, largest = _next(found), _largest(found)
    lines = [cut(_headline(found), LETTERS)]
    lines += [f"  {cut(line, LETTERS)}" for line in difference_lines(found.differences)]
    lines += [printable(f"  next: {shlex.join(following)}")] if following else []
    if largest:
        phase, before, after = largest
        lines.append(f"  {phase_name(phase)} {fmt.duration(before)} -> {fmt.duration(after)}")
    return fitting_lines((*lines, *(cut(line, LETTERS) for line in _rest(found))))


def brief_object(found: Comparison) -> BriefComparison:
    """The brief comparison as JSON."""
    plain: Any = as_object(found)
    largest = _largest(found)
    for listed in _ONLY_WHOLE:
        del plain[listed]
    plain["reason"] = cut(plain["reason"], LETTERS)
    plain["largest_change"] = largest[0] if largest else None
    plain["largest_change_ns"] = largest[2] - largest[1] if largest else None
    plain["next"] = whole(plain["next"])
    plain["differences"] = [one.text for one in found.differences]
    cut_lists(plain, "notes", "changes", "differences")
    return cast(BriefComparison, plain)


def _largest(found: Comparison) -> tuple[str, int, int] | None:
    """The phase that changed most, with its time before and after."""
    changed = [(one.phase, one.before, one.after) for one in found.phases]
    return max(changed, key=lambda one: abs(one[2] - one[1]), default=None)
