"""What every source of telemetry is, and rates made from counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from perftui.run.journal import Column


class Source(Protocol):
    """One part of the machine; ``sample`` returns one value for each of ``columns``.

    A value that cannot be known now is None. A source drops, when it is made, the columns that
    this machine does not have.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the values are."""

    def sample(self, now: float) -> Sequence[float | None]:
        """Values at ``now``, seconds on the monotonic clock."""


@runtime_checkable
class Closing(Protocol):
    """A source that holds something, such as a thread of its own."""

    def close(self) -> None:
        """Let go of it."""


class Rate:
    """Change per second of a counter that only grows."""

    def __init__(self) -> None:
        self._value: float | None = None
        self._at = 0.0

    def update(self, value: float | None, now: float) -> float | None:
        """The rate since the last call; None at first, after a gap, and where the counter fell."""
        before, at = self._value, self._at
        self._value, self._at = value, now
        if value is None or before is None or value < before or now <= at:
            return None
        return (value - before) / (now - at)
