"""Two runs side by side as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui.diagnosis import words
from perftui.experiments.comparison import Comparison
from perftui.experiments.figures import RunFigures
from perftui.trace.text import printable


def render_comparison(comparison: Comparison) -> str:
    """The verdict first, then the figures and the budgets of both runs, then what is not said."""
    lines = (
        *_verdict(comparison),
        "",
        *_figures(comparison.before, comparison.after),
        *_phases(comparison),
        "",
        *(f"  {note}" for note in comparison.notes),
    )
    return "\n".join(printable(line) for line in lines) + "\n"


def _verdict(comparison: Comparison) -> Iterator[str]:
    speedup = comparison.speedup
    factor = f"  {speedup:.2f}x" if speedup is not None else ""
    yield f"{comparison.verdict.value.upper()}{factor}  ({comparison.reason})"
    if comparison.changes:
        yield f"changed: {', '.join(comparison.changes)}"


def _figures(before: RunFigures, after: RunFigures) -> Iterator[str]:
    yield _row("", before.manifest.run_id, after.manifest.run_id)
    yield _row("steady steps", str(before.steps), str(after.steps))
    first, second = before.share, after.share
    if first is None or second is None:
        return
    for label, name in (("mean step", "mean"), ("median step", "p50")):
        yield _row(label, *(words.duration(getattr(share, name)) for share in (first, second)))
    spreads = (f"{words.duration(s.p5)} to {words.duration(s.p95)}" for s in (first, second))
    yield _row("5 % to 95 % of steps", *spreads)
    rates = (f"{share.steps_per_second:.1f}" for share in (first, second))
    yield _row("steps a second", *rates)


def _phases(comparison: Comparison) -> Iterator[str]:
    for change in comparison.phases:
        if change.before or change.after:
            before, after = words.duration(change.before), words.duration(change.after)
            yield _row(f"  {change.phase.replace('_', ' ')}", before, after)


def _row(label: str, before: str, after: str) -> str:
    return f"{label:<24} {before:>26} {after:>26}"
