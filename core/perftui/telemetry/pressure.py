"""Pressure stall information: the share of time in which some task waited for a resource."""

from __future__ import annotations

from pathlib import Path

from perftui.run.journal import Column
from perftui.telemetry.files import number, read_or_empty, why_unreadable
from perftui.telemetry.source import Rate

RESOURCES = {"cpu": "a core", "io": "a disk", "memory": "memory"}

PRESSURE = Path("/proc/pressure")

COLUMNS = {
    resource: Column(
        *(f"pressure.{resource}", "%", f"{resource} pressure", f"/proc/pressure/{resource}"),
        f"Share of the time in which some task waited for {what}.",
    )
    for resource, what in RESOURCES.items()
}


class PressureSource:
    """Stall share of one of ``RESOURCES`` from its ``total`` counter (us), which has no averaging
    lag.

    No column where the kernel has no PSI (before Linux 4.20, not built in, or not Linux).
    """

    def __init__(self, resource: str, root: Path = PRESSURE) -> None:
        self._path = root / resource
        self._rate = Rate()
        column, is_known = COLUMNS[resource], _stalled(self._path) is not None
        self.columns = (column,) if is_known else ()
        why = f"{self._path}: {_why_missing(self._path)}"
        self.missing = {} if is_known else {column.name: why}

    def sample(self, now: float) -> list[float | None]:
        """The share since the last sample; nothing without a column."""
        if not self.columns:
            return []
        rate = self._rate.update(_stalled(self._path), now)
        return [None if rate is None else min(100.0, rate / 1e4)]


def _stalled(path: Path) -> int | None:
    """Microseconds of "some" stall so far, None where they cannot be read."""
    # Reading fails with EOPNOTSUPP where PSI is built in but switched off.
    for word in read_or_empty(str(path)).partition(b"\n")[0].split():
        if word.startswith(b"total="):
            return number(word[6:])
    return None


def _why_missing(path: Path) -> str:
    return why_unreadable(str(path)) or "no total in it"
