"""Facts of a run with some of them given, for tests of what reads them."""

from pathlib import Path
from typing import Any

from perftui.facts.fact import Fact, Facts
from perftui_tui.reading.snapshot import Phase, Snapshot


def knowing(given: dict[Fact[Any], Any], phase: Phase = Phase.LIVE) -> Snapshot:
    """What the app draws of a run of which these facts are known."""
    facts = facts_with(Facts(None), given)
    return Snapshot(Path("run"), phase, "train.py", 0, facts=facts)


def facts_with(facts: Facts, given: dict[Fact[Any], Any]) -> Facts:
    """Facts about what ``facts`` are about, nothing of it worked out but what is ``given``."""
    fresh = Facts(facts.run, facts.analysis)
    fresh.worked_out.update(given)
    return fresh
