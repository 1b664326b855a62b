"""How long the runs of a trial take, and how long until their steps are steady."""

from __future__ import annotations

from perftui.facts.fact import Facts
from perftui.facts.step.steps import steady_span, steady_step


def run_seconds(run: Facts, steps: int) -> float | None:
    """How long a run of ``steps`` steps takes, its start included, by one that was recorded; None
    where that is not known."""
    steady, start = steady_step.or_none(run), start_ns(run)
    return None if steady is None or start is None else (start + steps * steady.mean) / 1e9


def start_ns(run: Facts) -> int | None:
    """From the start of the command to where steps are steady, ns, without as much as that many
    steady steps take: imports, making of the model, compilation; None where that is not known."""
    steady, span = steady_step.or_none(run), steady_span.or_none(run)
    if steady is None or span is None or run.manifest is None:
        return None
    warming_up = int((run.steps["start"] < span[0]).sum())
    return max(0, round(span[0] - run.manifest.started_ns - warming_up * steady.mean))
