"""One loop's worth of telemetry: every source, one row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from perftui.run.journal import Column
from perftui.telemetry.source import Closing, Source

TIME = Column("time", "ns", "when", "wall clock")

Value = float | int | None


class Sampler:
    """Asks all ``sources`` at once; ``columns`` are the time and then all of theirs.

    A source that fails once is left out from then on (its columns stay, as None) and
    ``on_failure`` is told which and why: the others go on.
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
        """End the threads of sources that have one."""
        for source in self._sources:
            if isinstance(source, Closing):
                source.close()

    def _ask(self, number: int, source: Source, now: float) -> Sequence[float | None]:
        missing = [None] * len(source.columns)
        if number in self._failed:
            return missing
        try:
            values = source.sample(now)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, the others go on
            self._failed.add(number)
            self._on_failure(type(source).__name__, error)
            return missing
        return values
