"""What processes did between two samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perftui.telemetry.processes.reading import ProcessReading

Pair = tuple[ProcessReading, ProcessReading]
"""One process in two samples running."""

Counter = Callable[[ProcessReading], float | None]


@dataclass(frozen=True)
class Change:
    """What happened between two samples."""

    after: Sequence[ProcessReading]
    """All processes that live."""
    pairs: Sequence[Pair]
    """Those of them that were there before."""
    by_role: dict[str, list[Pair]]
    seconds: float
    is_new: bool
    """Whether the main process, or all that it has started, was not there before."""
    resident: Mapping[str, float]
    """Resident memory by role, bytes; those of ``after`` sum to it."""

    def rate(self, counter: Counter, role: str = "") -> float | None:
        """Summed change per second, of all or of one of ``ROLES``; None where nothing is known."""
        rates = self.rates(counter, role)
        return sum(rates) if rates else None

    def rates(self, counter: Counter, role: str = "") -> list[float]:
        """The change per second of each process."""
        if self.seconds <= 0:
            return []
        pairs = self.by_role[role] if role else self.pairs
        values = ((counter(before), counter(after)) for before, after in pairs)
        return [
            (new - old) / self.seconds for old, new in values if old is not None and new is not None
        ]
