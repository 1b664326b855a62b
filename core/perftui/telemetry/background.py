"""Sources that are asked on threads of their own, since a driver may take long or never answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from perftui.telemetry.source import Source, close

T = TypeVar("T")

PATIENCE_SECONDS = 0.05
"""That a sample waits for a reading: calls of a driver take a few milliseconds."""

STALE_SECONDS = 3.0
"""From this age on a reading is no longer the present."""


class BackgroundSource:
    """Asks ``source`` on another thread, so that a call that hangs costs its columns only.

    A sample waits for its reading, at most ``patience`` seconds (``PATIENCE_SECONDS`` where that is
    None), and not at all where the last one took longer. A reading that comes later is that of the
    next sample. One is begun ``every`` seconds at most. What ``source`` raises is raised by the
    next sample.
    """

    def __init__(
        self, name: str, source: Source, patience: float | None = None, every: float = 0.0
    ) -> None:
        self.name = name
        """What a failure is reported as."""
        self.columns = source.columns
        self._source = source
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._every = every
        self._due = self._began = 0.0
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._took = 0.0
        """Seconds of the last reading that came to an end."""
        self._unknown = [None] * len(self.columns)
        self._latest: Sequence[float | None] = self._unknown
        self._read_at = 0.0
        """When the latest was asked for, on the clock of the samples."""
        self._error: Exception | None = None

    def sample(self, now: float) -> Sequence[float | None]:
        """The reading of this moment, or the one before; None where that is too old."""
        if self._is_idle.is_set() and now >= self._due:
            self._begin(now)
        if self._error is not None:
            raise self._error
        is_fresh = now - self._read_at < self._every + STALE_SECONDS
        return self._latest if is_fresh else self._unknown

    def close(self) -> None:
        """Close the source, where no call of it hangs that may still use what it holds."""
        if self._is_idle.is_set():
            close(self._source)

    def _begin(self, now: float) -> None:
        self._due, self._began = now + self._every, now
        self._is_idle.clear()
        # One that a lost card keeps waiting ends with the process.
        threading.Thread(target=self._read, name=self.name, daemon=True).start()
        if self._took <= self._patience:
            self._is_idle.wait(self._patience)

    def _read(self) -> None:
        began = time.monotonic()
        try:
            latest = self._source.sample(self._began)
            self._latest, self._read_at = latest, self._began
        except Exception as error:  # noqa: BLE001 - raised by the next sample
            self._error = error
        self._took = time.monotonic() - began
        self._is_idle.set()


class Together:
    """Several sources as one, asked one after the other."""

    def __init__(self, *sources: Source) -> None:
        self._sources = [source for source in sources if source.columns]
        self.columns = tuple(column for source in self._sources for column in source.columns)

    def sample(self, now: float) -> list[float | None]:
        """The values of all of them."""
        return [value for source in self._sources for value in source.sample(now)]

    def close(self) -> None:
        """Close all of them."""
        for source in self._sources:
            close(source)


def side_by_side(tasks: Sequence[Callable[[], T]], seconds: float) -> list[T | Exception]:
    """What each task returns or raises, all begun at once; ``TimeoutError`` where that takes longer
    than ``seconds``, while the task may go on for ever."""
    found: list[T | Exception] = [TimeoutError(f"no answer within {seconds:g} s") for _ in tasks]

    def run(number: int, task: Callable[[], T]) -> None:
        try:
            found[number] = task()
        except Exception as error:  # noqa: BLE001 - for the caller to judge
            found[number] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(tasks)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    # A task that ends later must not change what was returned.
    return [*found]
