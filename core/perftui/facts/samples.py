"""Samples of the machine that a rank runs on."""

from __future__ import annotations

from perftui.facts.fact import Facts
from perftui.run.table import Table


def host_of(facts: Facts) -> str:
    """The host of the rank, by default the one on which the run was started; empty for a trace."""
    if facts.run is None:
        return ""
    return (facts.rank.host if facts.rank else "") or facts.run.manifest.host


def samples(facts: Facts) -> Table:
    """Telemetry of the rank's host, without columns where none was recorded."""
    return facts.run.telemetry.get(host_of(facts), Table()) if facts.run else Table()
