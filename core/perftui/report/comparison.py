"""Two runs compared, as text and as plain values."""

from __future__ import annotations

import shlex
from typing import Any, cast

from perftui import format as fmt
from perftui.experiments.comparison import Comparison, Verdict
from perftui.fixes.apply import last_applied, patch_store
from perftui.report.blocks import cut
from perftui.report.fit import LETTERS, cut_lists, fitting_lines, whole
from perftui.report.next_command import report_command, undo_command
from perftui.report.outputs.changes import BriefComparison, ComparisonOutput
from perftui.run.columns import phase_name
from perftui.trace.text import printable

SCHEMA = 1


def text(found: Comparison) -> str:
    """The verdict, the parts of both mean steps, and what the comparison does not show."""
    lines = [_headline(found)]
    lines += [
        f"  {phase_name(one.phase):<18} {fmt.duration(one.before):>10} -> {fmt.duration(one.after)}"
        for one in found.phases
        if one.before or one.after
    ]
    return "\n".join(map(printable, (*lines, *_rest(found)))) + "\n"


def _headline(found: Comparison) -> str:
    ratio = f" {found.speedup:.2f}x" if found.speedup else ""
    return f"{found.verdict.value}{ratio}: {found.reason}"


def _rest(found: Comparison) -> list[str]:
    changes = [f"  in force: {', '.join(found.changes)}"] if found.changes else []
    return [*changes, *(f"  {note}" for note in found.notes)]


def as_object(found: Comparison) -> ComparisonOutput:
    """The same for programs; times are integer nanoseconds."""
    return {
        "schema": SCHEMA,
        "outcome": found.verdict,
        "ratio": found.speedup,
        "reason": found.reason,
        "parts_ns": {one.phase: (one.before, one.after) for one in found.phases},
        "changes": list(found.changes),
        "notes": list(found.notes),
        "next": _next(found),
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
    """The verdict, the next command and the phase that changed most, then notes."""
    following, largest = _next(found), _largest(found)
    lines = [cut(_headline(found), LETTERS)]
    lines += [printable(f"  next: {shlex.join(following)}")] if following else []
    if largest:
        phase, before, after = largest
        lines.append(f"  {phase_name(phase)} {fmt.duration(before)} -> {fmt.duration(after)}")
    return fitting_lines((*lines, *(cut(line, LETTERS) for line in _rest(found))))


def brief_object(found: Comparison) -> BriefComparison:
    """The same for programs."""
    plain: Any = as_object(found)
    largest = _largest(found)
    del plain["parts_ns"]
    plain["reason"] = cut(plain["reason"], LETTERS)
    plain["largest_change"] = largest[0] if largest else None
    plain["largest_change_ns"] = largest[2] - largest[1] if largest else None
    plain["next"] = whole(plain["next"])
    cut_lists(plain, "notes", "changes")
    return cast(BriefComparison, plain)


def _largest(found: Comparison) -> tuple[str, int, int] | None:
    """The phase that changed most, with its time before and after."""
    changed = [(one.phase, one.before, one.after) for one in found.phases]
    return max(changed, key=lambda one: abs(one[2] - one[1]), default=None)
