"""Exposed communication that a more specific rule names, which the general one leaves to it."""

from __future__ import annotations

from perftui.diagnosis.judge import cost_of
from perftui.diagnosis.symptoms.ranks.buckets import SINGLE_BUCKET
from perftui.diagnosis.symptoms.ranks.collectives import MANY_SMALL, SYNC_BATCH_NORM
from perftui.diagnosis.symptoms.ranks.network import SLOW_NETWORK
from perftui.diagnosis.symptoms.ranks.uneven import CHANGING
from perftui.facts.fact import Facts

SPECIFIC = (SYNC_BATCH_NORM, MANY_SMALL, SINGLE_BUCKET, SLOW_NETWORK, CHANGING)
"""Rules about a part of the exposed communication each."""


def explained(facts: Facts) -> int:
    """ns of the step that findings of those rules cost together."""
    return sum(cost_of(rule, facts) for rule in SPECIFIC)
