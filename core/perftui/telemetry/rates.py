"""Rates of several counters of a kind together."""

from __future__ import annotations

from collections.abc import Mapping


class Rates:
    """Summed change per second of counters that come and go, each by its own key."""

    def __init__(self) -> None:
        self._values: Mapping[str, float] = {}
        self._at = 0.0

    def update(self, values: Mapping[str, float], now: float) -> float | None:
        """The rate since the last call, of those that are in both and did not fall: a counter
        that came, or began anew, makes no jump. None without any."""
        before, at = self._values, self._at
        self._values, self._at = values, now
        changes = [
            value - before[key]
            for key, value in values.items()
            if key in before and value >= before[key]
        ]
        return sum(changes) / (now - at) if changes and now > at else None
