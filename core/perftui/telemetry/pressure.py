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
    """Stall shares from the ``total`` counters (us), which have no averaging lag.

    No columns where the kernel has no PSI (before Linux 4.20, not built in, or not Linux).
    """

    def __init__(self, root: Path = PRESSURE) -> None:
        self._files = {r: root / r for r in RESOURCES if _stalled(root / r) is not None}
        self._rates = {resource: Rate() for resource in self._files}
        self.columns = tuple(COLUMNS[resource] for resource in self._files)
        self.missing = {
            COLUMNS[resource].name: f"{root / resource}: {_why_missing(root / resource)}"
            for resource in RESOURCES
            if resource not in self._files
        }

    def sample(self, now: float) -> list[float | None]:
        """One share for each resource."""
        values: list[float | None] = []
        for resource, path in self._files.items():
            rate = self._rates[resource].update(_stalled(path), now)
            values.append(None if rate is None else min(100.0, rate / 1e4))
        return values


def _stalled(path: Path) -> int | None:
    """Microseconds of "some" stall so far, None where they cannot be read."""
    # Reading fails with EOPNOTSUPP where PSI is built in but switched off.
    for word in read_or_empty(str(path)).partition(b"\n")[0].split():
        if word.startswith(b"total="):
            return number(word[6:])
    return None


def _why_missing(path: Path) -> str:
    return why_unreadable(str(path)) or "no total in it"
