"""Sources that are asked on threads of their own, since a driver may take long or never answer."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

from perftui.telemetry.source import Source, close

T = TypeVar("T")

PATIENCE_SECONDS = 0.05
"""That a sample waits for a reading: calls of a driver take a few milliseconds."""

STALE_SECONDS = 3.0
"""From this age on a reading is no longer the present."""


@dataclass(frozen=True)
class _Reading:
    """What a source said, or raised, when it was asked at ``now``; it took ``seconds``."""

    now: float
    values: Sequence[float | None]
    seconds: float = 0.0
    error: Exception | None = None


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
        self._due = 0.0
        self._asked: SimpleQueue[float | None] = SimpleQueue()
        """Times of samples; None ends the thread."""
        self._read: SimpleQueue[_Reading] = SimpleQueue()
        self._is_reading = self._has_thread = False
        self._latest = _Reading(-math.inf, ())

    def sample(self, now: float) -> Sequence[float | None]:
        """The reading of this moment, or the one before; None where that is too old."""
        self._take(0.0)
        if not self._is_reading and now >= self._due:
            self._begin(now)
            if self._latest.seconds <= self._patience:
                self._take(self._patience)
        if self._latest.error is not None:
            raise self._latest.error
        is_fresh = now - self._latest.now < self._every + STALE_SECONDS
        return self._latest.values if is_fresh else [None] * len(self.columns)

    def close(self) -> None:
        """Close the source, where no call of it hangs that may still use what it holds."""
        self._take(0.0)
        if not self._is_reading:
            close(self._source)

    def _begin(self, now: float) -> None:
        if not self._has_thread:
            self._has_thread = True
            arguments = self._source, self._asked, self._read
            # One that a lost card keeps waiting ends with the process.
            threading.Thread(target=_answer, args=arguments, name=self.name, daemon=True).start()
            weakref.finalize(self, self._asked.put, None)
        self._due = now + self._every
        self._is_reading = True
        self._asked.put(now)

    def _take(self, seconds: float) -> None:
        """Take the reading under way, if it comes within ``seconds``."""
        if self._is_reading:
            with suppress(Empty):
                self._latest = self._read.get(timeout=seconds)
                self._is_reading = False


def _answer(source: Source, asked: SimpleQueue[float | None], read: SimpleQueue[_Reading]) -> None:
    while (now := asked.get()) is not None:
        began = time.monotonic()
        values: Sequence[float | None] = ()
        error: Exception | None = None
        try:
            values = source.sample(now)
        except Exception as raised:  # noqa: BLE001 - raised by the next sample
            error = raised
        read.put(_Reading(now, values, time.monotonic() - began, error))


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
