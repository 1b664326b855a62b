"""Notes of what became of overrides: kept until this process records, then written."""

from __future__ import annotations

from typing import Any

from ..output.notes import Notes

MOST = 1000
"""Notes of one process. A script that makes its loader anew for each epoch says the same each time,
which is written once."""


class OverrideNotes:
    """What became of overrides in this process, and in the one it was forked from."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}
        self._notes: Notes | None = None

    def tell(self, data: dict[str, Any]) -> None:
        """Something was made, or will never be."""
        key = repr(data)
        if key in self._told or len(self._told) >= MOST:
            return
        self._told[key] = data
        if self._notes is not None:
            self._notes.write("override", data)

    def begin(self, notes: Notes) -> None:
        """This process records from now on, into ``notes``."""
        self._notes = notes
        for data in self._told.values():
            notes.write("override", data)

    def reset(self) -> None:
        """This is a child of the process that recorded."""
        self._notes = None
