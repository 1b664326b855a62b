"""The losses that a run of a trial began with."""

from __future__ import annotations

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact


@fact
def losses(facts: Facts) -> tuple[float, ...]:
    """Of the first steps of the rank that went backward, in order, each the sum over its backward
    passes; empty where they were not kept, or were no single numbers. What was no finite number is
    nan or infinite."""
    found = notes_of(facts.events, "losses")
    values = found[0].get("values") if found else None
    return tuple(map(float, values)) if isinstance(values, list) else ()
