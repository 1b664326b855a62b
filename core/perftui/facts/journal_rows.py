"""What was sampled and noted while a rank ran, by the journals of its run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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


def finite(table: Table, column: str) -> npt.NDArray[np.float64]:
    """Values of ``column`` that were sampled; none where there is no such column."""
    if column not in table:
        return np.zeros(0)
    values = np.asarray(table[column], dtype=np.float64)
    return values[np.isfinite(values)]


def noted_of_host(facts: Facts, name: str) -> object:
    """What the run noted of the rank's host as ``name``, one of ``BY_HOST``; None where nothing."""
    noted = facts.manifest.profile.get(name) if facts.manifest else None
    return noted.get(host_of(facts)) if isinstance(noted, dict) else None


def events_of(events: Table, kind: str) -> Table:
    """The rows of that kind; empty where nothing was noted."""
    if "kind" not in events or not len(events):
        return Table()
    return events.where(events["kind"] == kind)


def notes_of(events: Table, kind: str) -> list[dict[str, Any]]:
    """The data of all ``events`` of that kind."""
    found = events_of(events, kind)
    return [data for data in found["data"] if isinstance(data, dict)] if len(found) else []
