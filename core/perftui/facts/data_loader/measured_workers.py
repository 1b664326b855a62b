"""With how many workers a training was tried, and what its step was then."""

from __future__ import annotations

from perftui.facts.fact import Facts, fact
from perftui.run.worker_curve import WorkerCurve, read_worker_curve


@fact
def measured_workers(facts: Facts) -> WorkerCurve | None:
    """The curve that a trial measured; None where none has."""
    return read_worker_curve(facts.run.root) if facts.run else None
