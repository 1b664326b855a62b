"""Exposed communication that a more specific rule names, which the general one leaves to it."""

from __future__ import annotations

from perftui.diagnosis.judge import severity
from perftui.diagnosis.symptoms.ranks.buckets import SINGLE_BUCKET
from perftui.diagnosis.symptoms.ranks.collectives import MANY_SMALL, SYNC_BATCH_NORM
from perftui.facts.fact import Facts, NotApplicableError, UnknownError

SPECIFIC = (SYNC_BATCH_NORM, MANY_SMALL, SINGLE_BUCKET)
"""Rules about a part of the exposed communication each; none about the same."""


def explained(facts: Facts) -> int:
    """ns of the step that findings of those rules cost together."""
    whole = 0
    for rule in SPECIFIC:
        try:
            lost = rule.lost(facts)
        except (UnknownError, NotApplicableError):
            continue
        if lost is not None and not lost.doubt and severity(lost.part, rule.limits) is not None:
            whole += lost.cost_ns
    return whole
