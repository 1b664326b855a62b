"""What every source of telemetry is, rates made from counters, and samples of all sources."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from perftui.run.journal import Column

TIME = Column("time", "ns", "when", "wall clock")

Value = float | int | None


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


class PartialSource(Source, Protocol):
    """A source that reports why columns are left out."""

    @property
    def missing(self) -> Mapping[str, str]:
        """Why a metric, or a group of them, cannot be sampled on this machine."""


def close(source: Source) -> None:
    """Free what ``source`` holds besides memory, where it has a ``close``."""
    end = getattr(source, "close", None)
    if end is not None:
        end()


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


class Sampler:
    """Asks all ``sources`` at once; ``columns`` are the time and then all of theirs.

    A source that fails once is left out from then on (its columns stay, as None) and
    ``on_failure`` is called with its ``name``, or that of its class, and the error: the others go
    on.
    """

    def __init__(
        self, sources: Sequence[Source], on_failure: Callable[[str, Exception], object]
    ) -> None:
        self._sources = [source for source in sources if source.columns]
        self._failed: set[int] = set()
        self._on_failure = on_failure
        self.columns = (TIME, *(column for source in self._sources for column in source.columns))

    def sample(self) -> list[Value]:
        """One row of ``columns``."""
        now = time.monotonic()
        row: list[Value] = [time.time_ns()]
        for number, source in enumerate(self._sources):
            row += self._ask(number, source, now)
        return row

    def close(self) -> None:
        """Free what the sources hold; nothing can be sampled any more."""
        for source in self._sources:
            close(source)

    def _ask(self, number: int, source: Source, now: float) -> Sequence[float | None]:
        try:
            if number not in self._failed:
                return source.sample(now)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, the others go on
            self._failed.add(number)
            self._on_failure(getattr(source, "name", type(source).__name__), error)
        return [None] * len(source.columns)
