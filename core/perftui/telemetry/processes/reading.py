"""Counters of processes, by /proc or psutil, and what they come to between two readings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Protocol

import psutil

from perftui.telemetry.files import PROC, count_of, exists, names_in, numbers, read_or_empty, record
from perftui.telemetry.source import Pace


class ProcessReading(NamedTuple):
    """Counters of a process so far; None where the platform does not count or does not report.

    No data class: hundreds are made for each sample, and making one takes five times as long.
    """

    pid: int
    started: float
    """When it began, in any unit: a pid alone may be that of an earlier process."""
    cpu: float
    """Seconds of user and system time."""
    rss: float
    threads: float
    voluntary: float | None
    """Context switches of the main thread."""
    involuntary: float | None
    read: float | None
    """Bytes from storage."""
    written: float | None
    major_faults: float | None
    """Pages that had to be read from a disk, of all threads."""

    @property
    def identity(self) -> tuple[int, float]:
        """The process, and no other that is given its number later."""
        return self.pid, self.started


class ProcessTable(Protocol):
    """The processes of this machine."""

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None where it has ended or may not be read."""

    def below(self, pid: int) -> Sequence[int]:
        """Its descendants that live, without itself; none where it is gone."""


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


class Portable:
    """The processes of any platform that psutil knows."""

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None where it has ended or belongs to another user."""
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                switches = process.num_ctx_switches()
                return ProcessReading(
                    pid,
                    process.create_time(),
                    times.user + times.system,
                    process.memory_info().rss,
                    process.num_threads(),
                    switches.voluntary,
                    switches.involuntary,
                    *_transferred(process),
                    major_faults=None,
                )
        except psutil.Error:
            return None

    def below(self, pid: int) -> list[int]:
        """Its descendants, by a walk over all processes."""
        try:
            return [process.pid for process in psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return []


def _transferred(process: psutil.Process) -> tuple[float | None, float | None]:
    """Bytes from and to storage so far. macOS has no such counter; a container may forbid it."""
    if not hasattr(process, "io_counters"):
        return None, None
    try:
        counters = process.io_counters()
    except psutil.AccessDenied:
        return None, None
    return counters.read_bytes, counters.write_bytes


_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

_STATE, _MAJOR_FAULTS, _USER, _SYSTEM, _THREADS, _STARTED, _RSS = 0, 9, 11, 12, 17, 19, 21
"""Places of ``/proc/<pid>/stat`` after the name, which may hold anything (proc_pid_stat(5))."""

_COUNTS = itemgetter(_MAJOR_FAULTS, _USER, _SYSTEM, _THREADS, _STARTED, _RSS)

_ENDED = (b"Z", b"X", b"x")


class Proc:
    """The processes below ``root``."""

    def __init__(self, root: str = PROC) -> None:
        self._root = root

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None where it has ended."""
        place = f"{self._root}/{pid}"
        words = record(f"{place}/stat").rpartition(b")")[2].split()
        if len(words) <= _RSS or words[_STATE] in _ENDED:
            return None
        found = numbers(_COUNTS(words))
        if found is None:
            return None
        faults, user, system, threads, started, pages = found
        status, io = record(f"{place}/status"), record(f"{place}/io")
        return ProcessReading(
            pid,
            started,
            (user + system) / _TICKS,
            pages * _PAGE,
            threads,
            count_of(b"\nvoluntary_ctxt_switches:", status),
            count_of(b"\nnonvoluntary_ctxt_switches:", status),
            count_of(b"\nread_bytes:", io),
            count_of(b"\nwrite_bytes:", io),
            faults,
        )

    def below(self, pid: int) -> list[int]:
        """By the kernel's own lists: these cost by the size of the tree, while a walk over all
        processes costs by the size of the machine (17 us against 1 ms and more)."""
        found = {pid: None}
        waiting = [pid]
        while waiting:
            # A number may be given to another while this goes on.
            children = [one for one in self._children(waiting.pop()) if one not in found]
            found.update(dict.fromkeys(children))
            waiting += children
        return [*found][1:]

    def _children(self, pid: int) -> list[int]:
        """Processes that any thread of ``pid`` has started."""
        place = f"{self._root}/{pid}/task"
        lists = (read_or_empty(f"{place}/{task}/children").split() for task in names_in(place))
        return [child for words in lists for child in numbers(words) or ()]


def has_process_lists(root: str = PROC) -> bool:
    """Whether the kernel lists the children of a thread (built in since Linux 4.2, mostly)."""
    pid = os.getpid()
    return exists(f"{root}/{pid}/task/{pid}/children")


MOST_SHARE = 0.001
"""Of a core, for searches for processes that have been started meanwhile: with every sample in a
small run, as workers may live for seconds only."""


class ProcessTree:
    """The process ``pid``, those that ``others`` names, and all their descendants.

    ``pid`` is gone for good once it has ended, also if its number is used again.
    """

    def __init__(self, table: ProcessTable, pid: int, others: Callable[[], Sequence[int]]) -> None:
        self._table = table
        self._others = others
        self._pace = Pace(0.0, MOST_SHARE)
        self._pids: list[int] = []
        self.main = table.read(pid)
        """The first reading of ``pid``, None where it was gone by then or has ended since."""

    def readings(self, now: float) -> list[ProcessReading]:
        """Counters of all that live."""
        if self._pace.is_due(now):
            self._find(now)
        found = self._read()
        if self.main and all(one.identity != self.main.identity for one in found):
            # What it had started is not known any more.
            self.main = None
            self._find(now)
            found = self._read()
        return found

    def _read(self) -> list[ProcessReading]:
        found = map(self._table.read, self._pids)
        return [reading for reading in found if reading is not None]

    def _find(self, now: float) -> None:
        with self._pace.reading(now):
            mains = [*([self.main.pid] if self.main else []), *self._others()]
            trees = ([main, *self._table.below(main)] for main in mains)
            # One of them may have started another.
            self._pids = [*dict.fromkeys(pid for tree in trees for pid in tree)]
