"""Facts of a run with some of them given, for tests of what reads them."""

from __future__ import annotations

from typing import Any

from perftui.facts.fact import Fact, Facts


def facts_with(facts: Facts, given: dict[Fact[Any], Any]) -> Facts:
    """Facts about what ``facts`` are about, nothing of it worked out but what is ``given``."""
    fresh = Facts(facts.run, facts.analysis)
    fresh.worked_out.update(given)
    return fresh
