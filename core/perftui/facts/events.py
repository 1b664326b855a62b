"""What the agent has noted of a rank, by kind."""

from __future__ import annotations

from typing import Any

from perftui.run.table import Table


def events_of(events: Table, kind: str) -> Table:
    """The rows of that kind; empty where nothing was noted."""
    if "kind" not in events or not len(events):
        return Table()
    return events.where(events["kind"] == kind)


def notes_of(events: Table, kind: str) -> list[dict[str, Any]]:
    """The data of all ``events`` of that kind."""
    found = events_of(events, kind)
    return [data for data in found["data"] if isinstance(data, dict)] if len(found) else []
