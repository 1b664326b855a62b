"""Pressure stall information: the share of time in which some task waited for a resource."""

from __future__ import annotations

from pathlib import Path

from perftui.run.journal import Column
from perftui.telemetry.source import Rate

RESOURCES = ("cpu", "io", "memory")

PRESSURE = Path("/proc/pressure")


class PressureSource:
    """Stall shares from the ``total`` counters (us), which have no averaging lag.

    No columns where the kernel has no PSI (before Linux 4.20, not built in, or not Linux).
    """

    def __init__(self, root: Path = PRESSURE) -> None:
        self._files = {r: root / r for r in RESOURCES if _stalled(root / r) is not None}
        self._rates = {resource: Rate() for resource in self._files}
        self.columns = tuple(
            Column(
                f"pressure.{resource}",
                "%",
                f"{resource} pressure",
                f"time in which some task waited for {resource}; /proc/pressure/{resource}",
            )
            for resource in self._files
        )

    def sample(self, now: float) -> list[float | None]:
        """One share for each resource."""
        values: list[float | None] = []
        for resource, path in self._files.items():
            rate = self._rates[resource].update(_stalled(path), now)
            values.append(None if rate is None else min(100.0, rate / 1e4))
        return values


def _stalled(path: Path) -> float | None:
    """Microseconds of "some" stall so far, None where they cannot be read."""
    try:
        first = path.read_text().split("\n", 1)[0]
    except OSError:
        # Reading fails with EOPNOTSUPP where PSI is built in but switched off.
        return None
    fields = dict(word.split("=", 1) for word in first.split()[1:])
    return float(fields["total"]) if "total" in fields else None
