"""Pauses of Python's garbage collector within the steady steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.analysis.steps.parts import OTHER
from perftui.facts.events import events_of
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.source.lines import LinesByTime
from perftui.facts.source.moments import FEWEST_MOMENTS, Moments, moments
from perftui.facts.step.steps import steady_rows, steady_step
from perftui.run.table import Table
from perftui.trace.model import Int64

FULL = 2
"""The generation whose collection visits every object."""


@dataclass(frozen=True)
class GcPauses:
    """Garbage collections in the steady steps that are still kept; times in ns."""

    per_step: int
    """Mean time of a step in collections."""
    outside: int
    """The part of ``per_step`` taken to lie in the script's own code, outside of the phases."""
    count: int
    full: int
    """How many of them visited every object."""
    longest: int
    longest_full_mean: int
    """Mean pause of those, 0 without any."""
    steps: int
    """Steps with a full collection."""
    lines: LinesByTime | None
    """Where the main thread was in them; None with too few samples."""


@fact
def gc_pauses(facts: Facts) -> GcPauses:
    """Collections in the steady steps; zeros where the collector was not at work.

    Raises:
        UnknownError: there are too few steps.
    """
    step, rows = steady_step(facts), steady_rows(facts)
    if not len(rows):
        raise UnknownError("no steady step is kept individually")
    pauses = gc_pauses_of(facts.events, rows)
    data = pauses["data"].tolist() if len(pauses) else []
    generation: Int64 = np.array([_number(each, "generation") for each in data], dtype=np.int64)
    standing: Int64 = np.array([_number(each, "count", 1) for each in data], dtype=np.int64)
    time: Int64 = pauses["duration"] if len(pauses) else np.zeros(0, dtype=np.int64)
    full = generation == FULL
    per_step = int(time.sum()) // len(rows)
    fulls = int(standing[full].sum())
    return GcPauses(
        per_step=per_step,
        outside=round(per_step * _outside(facts, pauses, step.part(OTHER) / step.mean)),
        count=int(standing.sum()),
        full=fulls,
        longest=int((time // np.maximum(standing, 1)).max(initial=0)),
        longest_full_mean=int(time[full].sum()) // fulls if fulls else 0,
        steps=len(np.unique(pauses["step"][full])) if len(pauses) else 0,
        lines=_lines(facts, pauses),
    )


def _outside(facts: Facts, pauses: Table, otherwise: float) -> float:
    """Share of the pauses in the script's own code, by samples in them where there are enough."""
    found = moments(facts)
    held = _held(found, pauses) if found else None
    if found is None or held is None or int((held > 0).sum()) < FEWEST_MOMENTS:
        return otherwise
    return int(held[found.stage == ""].sum()) / int(held.sum())


def _number(data: object, name: str, otherwise: int = 0) -> int:
    value = data.get(name, otherwise) if isinstance(data, dict) else otherwise
    return value if isinstance(value, int) else otherwise


def gc_pauses_of(events: Table, rows: Table) -> Table:
    """Collections that began in one of the steps ``rows``, or stand for several from then on."""
    found = events_of(events, "gc")
    during = union(rows["start"], rows["start"] + rows["duration"])
    return found.where(during.holds(found["time"])) if len(found) else found


def _lines(facts: Facts, pauses: Table) -> LinesByTime | None:
    found = moments(facts)
    held = _held(found, pauses) if found else None
    if found is None or held is None:
        return None
    lines = found.lines(held > 0, held)
    return lines if lines.samples >= FEWEST_MOMENTS else None


def _held(found: Moments, pauses: Table) -> Int64 | None:
    """The time within ``pauses`` that each sample stands for, ns."""
    if not len(pauses):
        return None
    during = union(pauses["time"], pauses["time"] + pauses["duration"])
    return during.within(found.time, found.time + found.length)
