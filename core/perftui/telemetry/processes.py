"""The training's own processes: the main one and everything it started."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psutil

from perftui.run.journal import Column
from perftui.telemetry.process_tree import ProcessReading, find, read, tree

COLUMNS = (
    Column("processes.cpu", "%", "CPU of the run", "100 % is one core; all its processes"),
    Column("processes.main_cpu", "%", "CPU of the main process", "100 % is one core"),
    Column(
        "processes.workers_cpu", "%", "CPU of its descendants", "data-loader workers, other ranks"
    ),
    Column(
        "processes.rss", "B", "resident memory", "a sum: pages that processes share count in each"
    ),
    Column("processes.read", "B/s", "read by the run", "from storage; /proc/<pid>/io, Linux only"),
    Column("processes.write", "B/s", "written by the run", "/proc/<pid>/io, Linux only"),
    Column("processes.switches_voluntary", "1/s", "waits", "voluntary context switches"),
    Column("processes.switches_involuntary", "1/s", "preemptions", "involuntary context switches"),
    Column("processes.threads", "count", "threads", "of all its processes"),
    Column("processes.count", "count", "processes", "the main one and its descendants"),
)

_RATES: tuple[Callable[[ProcessReading], float | None], ...] = (
    lambda reading: reading.read,
    lambda reading: reading.written,
    lambda reading: reading.voluntary,
    lambda reading: reading.involuntary,
)

Pair = tuple[ProcessReading, ProcessReading]
"""One process in two samples running."""


class ProcessTreeSource:
    """The process ``pid`` and its descendants.

    Rates sum the changes of the processes that are in two samples running; the first sample of a
    process gives none, so that neither a start nor an end makes a jump. A process is known by pid
    and creation time: a pid that was given to another process is another process.
    """

    columns = COLUMNS

    def __init__(self, pid: int) -> None:
        self._main = find(pid)
        self._before: dict[psutil.Process, ProcessReading] = {}
        self._at = 0.0

    def sample(self, now: float) -> list[float | None]:
        """Values of ``COLUMNS``; all None once the main process is gone."""
        processes = tree(self._main) if self._main else []
        after = {process: reading for process in processes if (reading := read(process))}
        pairs = {p: (self._before[p], reading) for p, reading in after.items() if p in self._before}
        seconds = now - self._at
        self._before, self._at = after, now
        if not after:
            return [None] * len(COLUMNS)
        return [
            *_cpu(pairs, self._main, seconds, len(after) > 1),
            sum(reading.rss for reading in after.values()),
            *(_rate(pairs.values(), counter, seconds) for counter in _RATES),
            sum(reading.threads for reading in after.values()),
            len(after),
        ]

    def pids(self) -> frozenset[int]:
        """Process numbers seen in the last sample."""
        return frozenset(process.pid for process in self._before)


def _cpu(
    pairs: dict[psutil.Process, Pair],
    main: psutil.Process | None,
    seconds: float,
    has_more: bool,
) -> list[float | None]:
    """[total, main, descendants] in per cent of one core; total = main + descendants.

    ``has_more`` where there are descendants; unknown while all of them are new.
    """
    if main not in pairs:
        return [None, None, None]
    own = _rate([pairs[main]], lambda reading: reading.cpu, seconds)
    below = [pair for process, pair in pairs.items() if process != main]
    rest = _rate(below, lambda reading: reading.cpu, seconds) if below or has_more else 0.0
    if own is None:
        return [None, None, None]
    if rest is None:
        return [None, 100.0 * own, None]
    return [100.0 * (own + rest), 100.0 * own, 100.0 * rest]


def _rate(
    pairs: Iterable[Pair], counter: Callable[[ProcessReading], float | None], seconds: float
) -> float | None:
    """Summed change per second; None before the second sample and where nothing is counted."""
    changes = []
    for before, after in pairs:
        old, new = counter(before), counter(after)
        if old is not None and new is not None:
            changes.append(new - old)
    return sum(changes) / seconds if changes and seconds > 0 else None
