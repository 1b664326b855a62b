"""Resources used by the processes of a run, in all and by role, from /proc or psutil."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple, Protocol

import psutil

from perftui.telemetry.files import (
    PROC,
    count_of,
    exists,
    names_in,
    numbers,
    read_or_empty,
    record,
    why_unreadable,
)
from perftui.telemetry.source import Pace, columns


class ProcessReading(NamedTuple):
    """Counters of a process; None if the platform does not count or report them.

    No data class: hundreds are made for each sample, and making one takes five times as long.
    """

    pid: int
    started: float
    """Start time, in any unit: a pid alone may be that of an earlier process."""
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
    minor_faults: float | None = None
    """Pages that only had to be mapped."""
    system: float | None = None
    """Seconds of system time, part of ``cpu``."""

    @property
    def identity(self) -> tuple[int, float]:
        """Identifies the process, even if its number is used again later."""
        return self.pid, self.started


class ProcessTable(Protocol):
    """The processes of this machine."""

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None if it has ended or may not be read."""

    def below(self, pid: int) -> Sequence[int]:
        """Its living descendants, without itself; empty if it is gone."""


Pair = tuple[ProcessReading, ProcessReading]
"""One process in two samples running."""


@dataclass(frozen=True)
class Change:
    """Change between two samples."""

    after: Sequence[ProcessReading]
    """All living processes."""
    pairs: Sequence[Pair]
    """Those of them that were there before."""
    by_role: dict[str, list[Pair]]
    seconds: float
    is_new: bool
    """Whether the main process, or all its descendants, are new."""
    resident: Mapping[str, float]
    """Resident memory by role, bytes; those of ``after`` sum to it."""

    def rate(self, counter: str, role: str = "", factor: float = 1.0) -> float | None:
        """Summed change per second of a field of the readings, of all or of one of ``ROLES``; None
        if nothing is known."""
        rates = self.rates(counter, role)
        return factor * sum(rates) if rates else None

    def rates(self, counter: str, role: str = "") -> list[float]:
        """The change per second of each process."""
        if self.seconds <= 0:
            return []
        pairs = self.by_role[role] if role else self.pairs
        values = ((getattr(before, counter), getattr(after, counter)) for before, after in pairs)
        return [
            (new - old) / self.seconds for old, new in values if old is not None and new is not None
        ]


class Portable:
    """The processes of any platform that psutil supports."""

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None if it has ended or belongs to another user."""
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
                    minor_faults=None,
                    system=times.system,
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

_STATE, _MINOR, _MAJOR, _USER, _SYSTEM, _THREADS, _STARTED, _RSS = 0, 7, 9, 11, 12, 17, 19, 21
"""Places of ``/proc/<pid>/stat`` after the name, which may hold anything (proc_pid_stat(5))."""

_COUNTS = itemgetter(_MINOR, _MAJOR, _USER, _SYSTEM, _THREADS, _STARTED, _RSS)

_ENDED = (b"Z", b"X", b"x")


class Proc:
    """The processes listed below ``root``."""

    def __init__(self, root: str = PROC) -> None:
        self._root = root

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None if it has ended."""
        place = f"{self._root}/{pid}"
        words = record(f"{place}/stat").rpartition(b")")[2].split()
        if len(words) <= _RSS or words[_STATE] in _ENDED:
            return None
        counts = numbers(_COUNTS(words))
        if counts is None:
            return None
        minor, major, user, system, threads, started, pages = counts
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
            major,
            minor,
            system / _TICKS,
        )

    def below(self, pid: int) -> list[int]:
        """Uses the kernel's own lists: their cost grows with the tree, that of a walk over all
        processes with the machine (17 us against 1 ms and more)."""
        pids = {pid: None}
        waiting = [pid]
        while waiting:
            # A number may be reused while this goes on.
            children = [child for child in self._children(waiting.pop()) if child not in pids]
            pids.update(dict.fromkeys(children))
            waiting += children
        return [*pids][1:]

    def _children(self, pid: int) -> list[int]:
        """Processes started by any thread of ``pid``."""
        place = f"{self._root}/{pid}/task"
        lists = (read_or_empty(f"{place}/{task}/children").split() for task in names_in(place))
        return [child for words in lists for child in numbers(words) or ()]


def has_process_lists(root: str = PROC) -> bool:
    """Whether the kernel lists the children of a thread (built in since Linux 4.2, mostly)."""
    pid = os.getpid()
    return exists(f"{root}/{pid}/task/{pid}/children")


MOST_SHARE = 0.001
"""Share of a core for searches for newly started processes: with every sample in a small run, as
workers may live for seconds only."""


class ProcessTree:
    """The process ``pid``, those in ``others``, and all their descendants.

    ``pid`` is gone for good once it has ended, even if its number is used again.
    """

    def __init__(self, table: ProcessTable, pid: int, others: Callable[[], Sequence[int]]) -> None:
        self._table = table
        self._others = others
        self._pace = Pace(0.0, MOST_SHARE)
        self._pids: list[int] = []
        self.main = table.read(pid)
        """The first reading of ``pid``, None if it was gone by then or has ended since."""

    def readings(self, now: float) -> list[ProcessReading]:
        """Counters of all living processes."""
        if self._pace.is_due(now):
            self._find(now)
        readings = self._read()
        if self.main and all(reading.identity != self.main.identity for reading in readings):
            # Its descendants are no longer known.
            self.main = None
            self._find(now)
            readings = self._read()
        return readings

    def _read(self) -> list[ProcessReading]:
        readings = map(self._table.read, self._pids)
        return [reading for reading in readings if reading is not None]

    def _find(self, now: float) -> None:
        with self._pace.reading(now):
            mains = [*([self.main.pid] if self.main else []), *self._others()]
            trees = ([main, *self._table.below(main)] for main in mains)
            # Any of them may have started another.
            self._pids = [*dict.fromkeys(pid for tree in trees for pid in tree)]


ROLES = {
    "ranks": "the processes that train",
    "workers": "data loader workers",
    "rest": "other processes of the run",
}
"""What they are; the rest are launchers, compilers, and whatever else the training has started."""


@dataclass(frozen=True)
class Roles:
    """Processes by role, by number; those in neither set are the rest."""

    ranks: frozenset[int] = frozenset()
    workers: frozenset[int] = frozenset()

    def of(self, pid: int) -> str:
        """The role of process ``pid``, one of ``ROLES``."""
        if pid in self.ranks:
            return "ranks"
        return "workers" if pid in self.workers else "rest"


_STAT, _STATUS, _IO = (f"/proc/<pid>/{name}" for name in ("stat", "status", "io"))

_OF_ROLE = f"""processes.{{role}}_cpu | % | CPU of {{processes}} | {_STAT} |
    CPU time of {{processes}}; 100 % is one core.
processes.{{role}}_read | B/s | read from storage by {{processes}} | {_IO} |
    Bytes a second that {{processes}} read from storage.
processes.{{role}}_write | B/s | written by {{processes}} | {_IO} |
    Bytes a second that {{processes}} wrote to storage.
processes.{{role}}_rss | B | resident memory of {{processes}} | {_STAT} |
    Memory of {{processes}}; a shared page counts once per process.
"""

PROCESS_COLUMNS = columns(f"""
processes.cpu | % | CPU of the run | {_STAT} |
    CPU time of all processes of the run; 100 % is one core.
{"".join(_OF_ROLE.format(role=role, processes=text) for role, text in ROLES.items())}\
processes.worker_cpu_max | % | CPU of the busiest data loader worker | {_STAT} |
    CPU time of the busiest data loader worker; 100 % is one core.
processes.rss | B | resident memory | {_STAT} |
    Memory of all processes of the run; a shared page counts once per process.
processes.read | B/s | read by the run | {_IO} |
    Bytes a second that all processes of the run read from storage.
processes.write | B/s | written by the run | {_IO} |
    Bytes a second that all processes of the run wrote to storage.
processes.switches_voluntary | 1/s | waits | {_STATUS} |
    Times a second that main threads began to wait (voluntary context switches).
processes.switches_involuntary | 1/s | preemptions | {_STATUS} |
    Times a second that main threads had to give up a core (involuntary switches).
processes.ranks_involuntary | 1/s | preemptions of the processes that train | {_STATUS} |
    Times a second that main threads of the processes that train had to give up a core.
processes.workers_involuntary | 1/s | preemptions of data loader workers | {_STATUS} |
    Times a second that main threads of data loader workers had to give up a core.
processes.major_faults | 1/s | major page faults | {_STAT} |
    Pages a second, of files or swap, that a thread had to wait for a disk to read.
processes.ranks_minor_faults | 1/s | pages mapped by the processes that train | {_STAT} |
    Pages a second that the processes that train used for the first time since they were mapped.
processes.ranks_system | % | system time of the processes that train | {_STAT} |
    CPU time of the processes that train in the kernel; 100 % is one core.
processes.threads | count | threads | {_STAT} | Threads of all processes of the run.
processes.count | count | processes | /proc/<pid>/task/<tid>/children |
    The main process and its descendants.
""")

Value = Callable[[Change], float | None]


def _rate(counter: str, role: str = "", factor: float = 1.0) -> tuple[str, Value]:
    return counter, lambda change: change.rate(counter, role, factor)


def _resident(role: str) -> tuple[str, Value]:
    return "rss", lambda change: change.resident[role]


_VALUES: dict[str, tuple[str, Value]] = {
    "cpu": ("cpu", lambda change: None if change.is_new else change.rate("cpu", factor=100.0)),
    "worker_cpu_max": (
        "cpu",
        lambda change: max((100.0 * part for part in change.rates("cpu", "workers")), default=None),
    ),
    "rss": ("rss", lambda change: sum(r.rss for r in change.after)),
    "read": _rate("read"),
    "write": _rate("written"),
    "switches_voluntary": _rate("voluntary"),
    "switches_involuntary": _rate("involuntary"),
    "major_faults": _rate("major_faults"),
    "ranks_minor_faults": _rate("minor_faults", "ranks"),
    "ranks_system": _rate("system", "ranks", 100.0),
    "threads": ("threads", lambda change: sum(r.threads for r in change.after)),
    "count": ("pid", lambda change: len(change.after)),
    **{f"{role}_cpu": _rate("cpu", role, 100.0) for role in ROLES},
    **{f"{role}_read": _rate("read", role) for role in ROLES},
    **{f"{role}_write": _rate("written", role) for role in ROLES},
    **{f"{role}_involuntary": _rate("involuntary", role) for role in ROLES},
    **{f"{role}_rss": _resident(role) for role in ROLES},
}
"""By name without ``processes.``: the field that a process must report, and the value of a
change."""


class ProcessTreeSource:
    """The process ``pid``, those in ``others``, and their descendants; ``roles`` returns their
    roles.

    A run may be started rank by rank, hence ``others``. Rates sum the changes of the processes that
    are in two consecutive samples; the first sample of a process gives none, so that neither a
    start nor an end makes a jump.
    """

    def __init__(
        self,
        pid: int,
        roles: Callable[[], Roles] = Roles,
        others: Callable[[], Sequence[int]] = list,
        table: ProcessTable | None = None,
    ) -> None:
        table = table or (Proc() if has_process_lists() else Portable())
        self._tree = ProcessTree(table, pid, others)
        self._roles = roles
        self._before: dict[tuple[int, float], ProcessReading] = {}
        self._at = 0.0
        main = self._tree.main
        asked = {column: _VALUES[column.name.partition(".")[2]] for column in PROCESS_COLUMNS}
        known = [c for c, (need, _) in asked.items() if not main or getattr(main, need) is not None]
        self.columns = tuple(known)
        self._values = [asked[column][1] for column in known]
        self.missing = {}
        for column in (c for c in asked if c not in known):
            why = why_unreadable(column.source.replace("<pid>", str(pid)))
            self.missing[column.name] = f"{column.source}: {why or 'not available'}"

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; all None once all main processes are gone."""
        after = {reading.identity: reading for reading in self._tree.readings(now)}
        pairs = [(self._before[key], new) for key, new in after.items() if key in self._before]
        seconds = now - self._at
        self._before, self._at = after, now
        if not after:
            return [None] * len(self.columns)
        by_role: dict[str, list[Pair]] = {role: [] for role in ROLES}
        roles = self._roles()
        for pair in pairs:
            by_role[roles.of(pair[1].pid)].append(pair)
        main = self._tree.main
        had_main = main is not None and any(old.identity == main.identity for old, _ in pairs)
        is_new = not had_main or (len(after) > 1 and len(pairs) == 1)
        resident = dict.fromkeys(ROLES, 0.0)
        # Until one trains, that is taken to be the script.
        owners = roles if roles.ranks or not main else replace(roles, ranks=frozenset([main.pid]))
        for reading in after.values():
            resident[owners.of(reading.pid)] += reading.rss
        change = Change([*after.values()], pairs, by_role, seconds, is_new, resident)
        return [value(change) for value in self._values]

    def pids(self) -> frozenset[int]:
        """Process numbers seen in the last sample."""
        return frozenset(pid for pid, _ in self._before)
