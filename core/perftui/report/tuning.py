"""What a tuning found: the ladder of what was kept, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from perftui.experiments.journal import Attempt, Journal, Kept
from perftui.experiments.trial_runs import Progress
from perftui.experiments.tune import Tuned
from perftui.experiments.verdict import LossCheck, Outcome
from perftui.fixes.model import FixOption, Patch
from perftui.report.encode import High, Low, Ratio, Schema
from perftui.report.next_command import undo_command
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.trace.text import printable


class TuningOutput(TypedDict):
    """`perftui tune`: all fixes tried one by one, and what was kept."""

    schema: Schema
    run: str
    outcome: Annotated[Outcome, Meta(description="All kept fixes together.")]
    headline: str
    ratio: Ratio
    low: Low
    high: High
    kept: list[Attempt]
    not_kept: list[Attempt]
    base: Annotated[str, Meta(description="Directory of the run recorded with all kept fixes.")]
    diff: Annotated[
        str | None, Meta(description="Unified diff of what was written; null if nothing was.")
    ]
    undo: Annotated[list[list[str]], Meta(description="The commands that undo it, in this order.")]
    losses: LossCheck | None


SCHEMA = 1


def text(tuned: Tuned, root: Path) -> str:
    """The headline, the ladder, what was not kept, how to take it back, and the diff."""
    journal = tuned.journal
    lines = [headline(tuned.final)]
    if journal.kept:
        lines.append(f"  {1.0:5.2f}x  as it was")
    for ratio, one in journal.ladder:
        lines.append(f"  {ratio:5.2f}x  + {one.title} ({one.headline})")
        if one.kept is Kept.OVERRIDE:
            lines.append(f"          not in the source; by hand: {one.advice}")
    lines += [f"  not kept: {one.title} ({one.headline})" for one in journal.left]
    if tuned.final:
        lines.append(f"  {tuned.final.losses.sentence}")
    if journal.files:
        files = ", ".join(journal.files)
        lines.append(f"  written to {files}; perftui undo {root} undoes the last one")
    return "\n".join(map(printable, (*lines, *_diff(journal).splitlines()))) + "\n"


def as_object(tuned: Tuned, root: Path) -> TuningOutput:
    """The tuning of the run ``root`` as JSON."""
    found = tuned.final.verdict.estimate if tuned.final else None
    written = [one for one in tuned.journal.kept if one.kept is Kept.WRITTEN]
    return {
        "schema": SCHEMA,
        "run": root.name,
        "outcome": tuned.final.verdict.outcome if tuned.final else Outcome.NO_DIFFERENCE,
        "headline": headline(tuned.final),
        "ratio": found.ratio if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "kept": [msgspec.to_builtins(one) for one in tuned.journal.kept],
        "not_kept": [msgspec.to_builtins(one) for one in tuned.journal.left],
        "base": tuned.journal.base,
        "diff": _diff(tuned.journal) or None,
        "undo": [undo_command(root) for _ in written],
        "losses": msgspec.to_builtins(tuned.final.losses) if tuned.final else None,
    }


def _diff(journal: Journal) -> str:
    """What was written, file by file; of a file that is gone since, or whose copy is, nothing."""
    diffs = []
    for path, copy in journal.originals.items():
        with suppress(OSError):
            before, after = (Path(one).read_bytes() for one in (copy, path))
            diffs.append(Patch(Path(path), before, after, becomes="tuned").diff("as it was"))
    return "\n".join(filter(None, diffs))


def headline(final: Progress | None) -> str:
    """What a tuning came to as a whole; ``final`` is None where nothing was kept."""
    return final.verdict.headline if final else "nothing was kept: no fix is proven here"


def offers(root: Path) -> Sequence[FixOption]:
    """The fixes for what the run in ``root`` shows, best first.

    Raises:
        SubjectError: the run cannot be read.
    """
    return make_report(load_subject(root)).fixes
