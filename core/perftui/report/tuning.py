"""What a tuning came to: the ladder of what was kept, as text and as plain values."""

from __future__ import annotations

from pathlib import Path

import msgspec

from perftui.experiments.trial.trial import Progress
from perftui.experiments.trial.verdict import Outcome
from perftui.experiments.tune.journal import Attempt, Kept
from perftui.experiments.tune.tune import Tuned
from perftui.report.next_command import undo_command
from perftui.report.outputs.changes import TuningOutput

SCHEMA = 1


def text(tuned: Tuned, root: Path) -> str:
    """The headline, the ladder, what was not kept, and how to take it back."""
    journal = tuned.journal
    lines = [_headline(tuned.final)]
    ratio = 1.0
    if journal.kept:
        lines.append(f"  {ratio:5.2f}x  as it was")
    for one in journal.kept:
        ratio *= one.ratio or 1.0
        lines.append(f"  {ratio:5.2f}x  + {one.title} ({one.headline})")
        if one.kept is Kept.OVERRIDE:
            lines.append(f"          not in the source; by hand: {one.advice}")
    lines += [f"  not kept: {one.title} ({one.headline})" for one in _left(tuned)]
    if tuned.final:
        lines.append(f"  {tuned.final.losses.sentence}")
    written = sorted({Path(one.path).name for one in journal.kept if one.path})
    if written:
        lines.append(f"  written to {', '.join(written)}; perftui undo {root} takes the last back")
    return "\n".join(lines) + "\n"


def as_object(tuned: Tuned, root: Path) -> TuningOutput:
    """The same for programs."""
    found = tuned.final.verdict.estimate if tuned.final else None
    written = [one for one in tuned.journal.kept if one.kept is Kept.WRITTEN]
    return {
        "schema": SCHEMA,
        "run": root.name,
        "outcome": tuned.final.verdict.outcome if tuned.final else Outcome.NO_DIFFERENCE,
        "headline": _headline(tuned.final),
        "ratio": found.ratio if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "kept": [msgspec.to_builtins(one) for one in tuned.journal.kept],
        "not_kept": [msgspec.to_builtins(one) for one in _left(tuned)],
        "base": tuned.journal.base,
        "undo": [undo_command(root) for _ in written],
        "losses": msgspec.to_builtins(tuned.final.losses) if tuned.final else None,
    }


def _headline(final: Progress | None) -> str:
    return final.verdict.headline if final else "nothing was kept: no fix is proven here"


def _left(tuned: Tuned) -> list[Attempt]:
    return [one for one in tuned.journal.attempts if one.kept is Kept.NO]
