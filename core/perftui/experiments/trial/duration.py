"""How long the runs of a trial take, before one has been made."""

from __future__ import annotations

from perftui.facts.fact import Facts
from perftui.facts.step.steps import steady_span, steady_step


def run_seconds(run: Facts, steps: int) -> float | None:
    """How long a run of ``steps`` steps takes, its start included, by one that was recorded; None
    where that is not known."""
    steady, span = steady_step.or_none(run), steady_span.or_none(run)
    if steady is None or span is None or run.manifest is None:
        return None
    warming_up = int((run.steps["start"] < span[0]).sum())
    # What the warm-up takes beyond so many steady steps belongs to the start.
    start_up = span[0] - run.manifest.started_ns - warming_up * steady.mean
    return (max(0, start_up) + steps * steady.mean) / 1e9
