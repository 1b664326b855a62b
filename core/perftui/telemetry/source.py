"""The interface of telemetry sources, rates from counters, and samples of all sources."""

from __future__ import annotations

import math
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from perftui.run.journal import Column

TIME = Column("time", "ns", "when", "wall clock")


def cells(table: str) -> list[list[str]]:
    """Cells of each row ``a | b | c`` of ``table``; an indented line continues the one before."""
    rows = re.sub(r"\n +", " ", table.strip()).splitlines()
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def columns(table: str) -> tuple[Column, ...]:
    """The columns of a table of ``name | unit | label | source | meaning``."""
    return tuple(Column(*row) for row in cells(table))


Value = float | int | None


class Source(Protocol):
    """One part of the machine; ``sample`` returns one value for each of ``columns``.

    An unknown value is None. When constructed, a source drops columns that this machine does not
    have; a source without columns is never asked.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the values."""

    def sample(self, now: float) -> Sequence[float | None]:
        """Values at ``now``, seconds on the monotonic clock."""


class PartialSource(Source, Protocol):
    """A source that reports why columns are left out."""

    @property
    def missing(self) -> Mapping[str, str]:
        """Why a metric, or a group of them, cannot be sampled on this machine."""


def close(source: Source) -> None:
    """Free resources of ``source`` besides memory, if it has a ``close``."""
    end = getattr(source, "close", None)
    if end is not None:
        end()


class Rate:
    """Change per second of a counter that only grows."""

    def __init__(self) -> None:
        self._rates = Rates()

    def update(self, value: float | None, now: float) -> float | None:
        """The rate since the last call; None at first, after a gap, and if the counter fell."""
        return self._rates.update({} if value is None else {"": value}, now)


class Sampler:
    """Asks all ``sources`` at once; ``columns`` are the time and then those of all sources.

    A source that fails once is left out from then on (its columns stay, as None) and ``on_failure``
    is called with its ``name``, or that of its class, and the error: the others go on.
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
        """Free the resources of the sources; afterwards nothing can be sampled."""
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


class Pace:
    """Readings at least ``every`` seconds apart that take at most ``share`` of a core on average.

    A reading that costs more than its share is followed by a longer pause. ``ahead`` seconds of
    that pause may be left for later, so that an occasional costly reading delays none after it.
    """

    def __init__(self, every: float, share: float, ahead: float = 0.0) -> None:
        self._every = every
        self._share = share
        self._ahead = ahead
        self._paid = self._due = float("-inf")

    def is_due(self, now: float) -> bool:
        """Whether it is time for a reading at ``now``, seconds on the monotonic clock."""
        return now >= self._due

    def spent(self, now: float, cost: float) -> None:
        """A reading begun at ``now`` took ``cost`` seconds of a core."""
        self._paid = max(self._paid, now) + cost / self._share
        self._due = max(now + self._every, self._paid - self._ahead)

    @contextmanager
    def reading(self, now: float) -> Iterator[None]:
        """The body is a reading, begun at ``now``: its cost is this thread's CPU time in it."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.spent(now, time.thread_time() - began)


class Rates:
    """Summed change per second of counters that come and go, each with a key."""

    def __init__(self) -> None:
        self._values: Mapping[str, float] = {}
        self._at = 0.0

    def update(self, values: Mapping[str, float], now: float) -> float | None:
        """The rate since the last call, of counters that are in both calls and did not fall: a
        counter that is new or restarted makes no jump. None without any."""
        before, at = self._values, self._at
        self._values, self._at = values, now
        changes = [
            value - before[key]
            for key, value in values.items()
            if key in before and value >= before[key]
        ]
        return sum(changes) / (now - at) if changes and now > at else None


T = TypeVar("T")

PATIENCE_SECONDS = 0.05
"""Seconds that a sample waits for a reading: calls of a driver take a few milliseconds."""

STALE_SECONDS = 3.0
"""Age from which a reading is out of date."""


@dataclass(frozen=True)
class _Reading:
    """A source's result, or exception, when asked at ``now``; it took ``seconds``."""

    now: float
    values: Sequence[float | None]
    seconds: float = 0.0
    error: Exception | None = None


class BackgroundSource:
    """Asks ``sources`` on another thread, in turn, so that a hanging call costs only their columns.

    A sample waits for its reading, at most ``patience`` seconds (``PATIENCE_SECONDS`` if that is
    None), and not at all if the last one took longer. A later reading belongs to the next sample. A
    reading begins ``every`` seconds at most. An exception of a source is raised by the next sample.
    """

    def __init__(
        self, name: str, *sources: Source, patience: float | None = None, every: float = 0.0
    ) -> None:
        self.name = name
        """Name for reports of failures."""
        self._sources = [source for source in sources if source.columns]
        self.columns = tuple(column for source in self._sources for column in source.columns)
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._every = every
        self._due = 0.0
        self._asked: SimpleQueue[float | None] = SimpleQueue()
        """Times of samples; None ends the thread."""
        self._read: SimpleQueue[_Reading] = SimpleQueue()
        self._is_reading = self._has_thread = False
        self._latest = _Reading(-math.inf, ())

    def sample(self, now: float) -> Sequence[float | None]:
        """The current reading, or the one before; None if that is too old."""
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
        """Close the sources, unless a hanging call may still use them."""
        self._take(0.0)
        for source in () if self._is_reading else self._sources:
            close(source)

    def _begin(self, now: float) -> None:
        if not self._has_thread:
            self._has_thread = True
            arguments = self._sources, self._asked, self._read
            # A thread that waits for a lost card ends with the process.
            threading.Thread(target=_answer, args=arguments, name=self.name, daemon=True).start()
            weakref.finalize(self, self._asked.put, None)
        self._due = now + self._every
        self._is_reading = True
        self._asked.put(now)

    def _take(self, seconds: float) -> None:
        """Take the current reading, if it comes within ``seconds``."""
        if self._is_reading:
            with suppress(Empty):
                self._latest = self._read.get(timeout=seconds)
                self._is_reading = False


def _answer(
    sources: Sequence[Source], times: SimpleQueue[float | None], read: SimpleQueue[_Reading]
) -> None:
    while (now := times.get()) is not None:
        began = time.monotonic()
        values: Sequence[float | None] = ()
        error: Exception | None = None
        try:
            values = [value for source in sources for value in source.sample(now)]
        except Exception as raised:  # noqa: BLE001 - raised by the next sample
            error = raised
        read.put(_Reading(now, values, time.monotonic() - began, error))


def side_by_side(tasks: Sequence[Callable[[], T]], seconds: float) -> list[T | Exception]:
    """The result or exception of each task, all begun at once; ``TimeoutError`` after ``seconds``,
    while the task may go on for ever."""
    futures = [in_thread(task) for task in tasks]
    done, late = wait(futures, seconds).done, TimeoutError(f"no answer within {seconds:g} s")
    # ``in_thread`` keeps no other exceptions.
    return [one.exception() or one.result() if one in done else late for one in futures]  # type: ignore[misc]


def in_thread(task: Callable[[], T]) -> Future[T]:
    """The result of ``task``, which begins on a thread that nobody waits for at the end."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except Exception as error:  # noqa: BLE001 - for the caller to judge
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
