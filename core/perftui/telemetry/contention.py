"""Other users of the cores, and how long tasks wait for a core, a disk or memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perftui.telemetry.files import (
    PROC,
    names_in,
    number,
    numbers,
    read_or_empty,
    record,
    why_unreadable,
)
from perftui.telemetry.processes import Roles
from perftui.telemetry.source import Pace, Rate, columns

THREAD_COLUMNS = columns("""
processes.main_cpu | % | CPU of main threads | /proc/<pid>/task/<tid>/schedstat |
    CPU time of the main threads of the processes that train; 100 % is one core.
processes.autograd_cpu | % | CPU of autograd threads | /proc/<pid>/task/<tid>/schedstat |
    CPU time of the threads that run the backward pass for a GPU (pt_autograd_*); 100 % is one core.
processes.workers_delayed | % | workers waiting for a core | /proc/<pid>/task/<tid>/schedstat |
    Share of the time that a data loader worker was ready to run but had no core, for the worker
    that waited longest.
""")

AUTOGRAD = b"pt_autograd_"
"""Prefix of the names of PyTorch's autograd threads, one for each GPU."""

THREADS_EVERY_SECONDS, MOST_THREADS_SHARE = 2.0, 0.001
"""Seconds between searches for autograd threads: a process may have hundreds of threads."""

Thread = tuple[int, int]
"""Process and thread."""


class ThreadSource:
    """CPU time and run-queue delay of threads, which the kernel counts in ns."""

    def __init__(self, roles: Callable[[], Roles], proc: str = PROC) -> None:
        self._roles = roles
        self._proc = proc
        self._pace = Pace(THREADS_EVERY_SECONDS, MOST_THREADS_SHARE)
        self._autograd: list[Thread] = []
        self._before: dict[Thread, tuple[int, int]] = {}
        self._at = 0.0
        why = why_unreadable(f"{proc}/self/schedstat")
        self.columns = () if why else THREAD_COLUMNS
        names = ", ".join(column.name for column in THREAD_COLUMNS)
        self.missing = {names: f"schedstat: {why}"} if why else {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None if there are no such threads, or all are new."""
        roles = self._roles()
        if self._pace.is_due(now):
            with self._pace.reading(now):
                self._autograd = [*self._find(roles.ranks)]
        mains, workers = ([(pid, pid) for pid in pids] for pids in (roles.ranks, roles.workers))
        threads = {*mains, *workers, *self._autograd}
        after = {(pid, task): cpu_times(f"{self._proc}/{pid}/task/{task}") for pid, task in threads}
        times = {thread: ns for thread, ns in after.items() if ns is not None}
        before, self._before = self._before, times
        seconds, self._at = now - self._at, now

        def spent(threads: Iterable[Thread], kind: int) -> list[float]:
            """Shares of the time, for each thread in both samples."""
            shared = [task for task in threads if task in times and task in before]
            changes = (times[task][kind] - before[task][kind] for task in shared)
            # A counter that fell is that of another thread, which got the same number.
            return [change / (seconds * 1e7) for change in changes if change >= 0 and seconds > 0]

        computed, delayed = 0, 1
        return [
            _sum(spent(mains, computed)),
            _sum(spent(self._autograd, computed)),
            max((min(share, 100.0) for share in spent(workers, delayed)), default=None),
        ]

    def _find(self, pids: Iterable[int]) -> Iterable[Thread]:
        """Autograd threads of these processes."""
        for pid in pids:
            place = f"{self._proc}/{pid}/task"
            for task in names_in(place):
                if task.isdigit() and record(f"{place}/{task}/comm").startswith(AUTOGRAD):
                    yield pid, int(task)


def _sum(shares: list[float]) -> float | None:
    return sum(shares) if shares else None


def cpu_times(place: str) -> tuple[int, int] | None:
    """Total time of the thread at ``place`` on a core, and waiting for one, ns."""
    counts = numbers(record(f"{place}/schedstat").split())
    return (counts[0], counts[1]) if counts and len(counts) >= 2 else None


def program(name: str, words: Sequence[str]) -> str:
    """``name`` with the script or module of the command line ``words``, without any other words,
    which may be secrets."""
    script = next((word for word in words[1:] if word.endswith((".py", ".sh", ".pl"))), "")
    module = module_of(words)
    if not script and module:
        script = f"-m {module}"
    return f"{name} {script.rpartition('/')[2]}".strip()


def module_of(words: Sequence[str]) -> str:
    """The module that Python was asked to run; empty for none."""
    return words[words.index("-m") + 1] if "-m" in words[1:-1] else ""


EVERY_SECONDS = 3.0
MOST_SHARE = 0.002
"""Between two readings, and at most so much of a core: of 1,000 processes one takes some 20 ms."""

CONTENTION_COLUMNS = columns("""
processes.delayed | % | waiting for a core | /proc/<pid>/task/<tid>/schedstat |
    Share of the time that a thread was ready to run but had no core, for the thread of each
    training process that waited longest, every 3 s.
processes.perftui_cpu | % | CPU of perftui | /proc/<pid>/stat |
    CPU time of perftui itself: what records the run, and the app. Every 3 s; 100 % is one core.
""")

MOST_NAMED = 5

MOST_PIDS = 3
"""Most process numbers that are listed for one program."""

_PACKAGES = ("perftui", "perftui_tui")

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OtherPrograms:
    """Mean number of cores that each of the busiest other programs used over ``seconds``."""

    seconds: float
    cores: dict[str, float]
    pids: dict[str, list[int]]
    """Living processes of each at the last reading, busiest first, at most ``MOST_PIDS``."""


class ContentionSource:
    """Reads both every few seconds; ``roles`` returns the processes that train, ``own`` those of
    the run."""

    def __init__(
        self, roles: Callable[[], Roles], own: Callable[[], frozenset[int]], proc: str = PROC
    ) -> None:
        self._roles = roles
        self._own = own
        self._proc = proc
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        self._at = 0.0
        self._delays: dict[int, dict[str, int]] = {}
        self._used: dict[tuple[int, str], int] = {}
        self._totals: Counter[str] = Counter()
        self._by_process: Counter[tuple[str, int]] = Counter()
        """Ticks by program and process, of living processes."""
        self._seconds = 0.0
        why = why_unreadable(f"{proc}/self/schedstat")
        self.columns = () if why else CONTENTION_COLUMNS
        names = [column.name for column in CONTENTION_COLUMNS] if why else []
        self.missing = dict.fromkeys(names, f"schedstat: {why}")

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``, None between readings every few seconds."""
        if not self._pace.is_due(now):
            return [None] * len(self.columns)
        seconds, self._at = now - self._at, now
        with self._pace.reading(now):
            perftui = self._read_others(seconds)
            longest = self._longest_waits()
        waited = sum(longest) / len(longest) / (seconds * 1e9) if longest else None
        return [None if waited is None else min(100.0 * waited, 100.0), perftui]

    def _longest_waits(self) -> list[int]:
        """The longest wait of a thread in each training process, ns."""
        before = self._delays
        self._delays = {pid: dict(self._thread_delays(pid)) for pid in self._roles().ranks}
        return [
            max((delay - before[pid].get(task, delay) for task, delay in tasks.items()), default=0)
            for pid, tasks in self._delays.items()
            if pid in before and tasks
        ]

    def others(self) -> OtherPrograms:
        """The busiest programs that do not belong to the run, since the first reading."""
        busiest = self._totals.most_common(MOST_NAMED)
        cores = {name: round(ticks / _TICKS / self._seconds, 2) for name, ticks in busiest if ticks}
        pids: dict[str, list[int]] = {name: [] for name in cores}
        for (name, pid), _ in self._by_process.most_common():
            if len(pids.get(name, range(MOST_PIDS))) < MOST_PIDS:
                pids[name].append(pid)
        return OtherPrograms(round(self._seconds, 1), cores, pids)

    def _thread_delays(self, pid: int) -> Iterator[tuple[str, int]]:
        """Total time that each thread has waited for a core, ns."""
        try:
            for task in os.scandir(f"{self._proc}/{pid}/task"):
                if (times := cpu_times(task.path)) is not None:
                    yield task.name, times[1]
        except OSError:
            # It has ended.
            return

    def _read_others(self, seconds: float) -> float | None:
        """Count the use by others since the last reading; returns perftui's own, % of a core, None
        at the first reading."""
        own, recorder = self._own(), os.getpid()
        used: dict[tuple[int, str], int] = {}
        ours = 0
        changes: Counter[tuple[str, int]] = Counter()
        for entry in os.scandir(self._proc):
            if not entry.name.isdecimal() or (pid := int(entry.name)) in own:
                continue
            stat = _cpu(record(f"{self._proc}/{entry.name}/stat"))
            if stat is None or stat[1] in own:
                continue
            name, parent, ticks = stat
            used[pid, name] = ticks
            change = ticks - self._used.get((pid, name), ticks)
            if not change:
                continue
            command = read_or_empty(f"{self._proc}/{entry.name}/cmdline")
            words = command.decode("utf-8", "replace").split("\0")
            # Children of the recorder sample stacks; others are our command, alone or run by
            # Python, or one of our modules.
            is_command = any(word.rpartition("/")[2] == "perftui" for word in words[:2])
            is_module = module_of(words).partition(".")[0] in _PACKAGES
            if recorder in (pid, parent) or is_command or is_module:
                ours += change
            else:
                changes[program(name, words), pid] += change
        is_first = not self._used
        if not is_first:
            for (other, _), ticks in changes.items():
                self._totals[other] += ticks
            living = {pid for pid, _ in used}
            self._by_process += changes
            for gone in [item for item in self._by_process if item[1] not in living]:
                del self._by_process[gone]
            self._seconds += seconds
        self._used = used
        return None if is_first else 100.0 * ours / _TICKS / seconds


def _cpu(stat: bytes) -> tuple[str, int, int] | None:
    """Name, parent and ticks of user and system time, of one line of ``/proc/<pid>/stat``."""
    head, _, rest = stat.rpartition(b")")
    fields = rest.split()
    if len(fields) < 13:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return name, int(fields[1]), int(fields[11]) + int(fields[12])


_PRESSURE = columns("""
pressure.cpu | % | cpu pressure | /proc/pressure/cpu |
    Share of the time in which some task waited for a core.
pressure.io | % | io pressure | /proc/pressure/io |
    Share of the time in which some task waited for a disk.
pressure.memory | % | memory pressure | /proc/pressure/memory |
    Share of the time in which some task waited for memory.
""")

PRESSURE_COLUMNS = dict(zip(("cpu", "io", "memory"), _PRESSURE, strict=True))
"""Pressure stall information by resource."""


class PressureSource:
    """Stall share of a resource from its ``total`` counter (us), which has no averaging lag.

    No column where the kernel has no PSI (before Linux 4.20, not built in, or not Linux).
    """

    def __init__(self, resource: str, root: Path = Path("/proc/pressure")) -> None:
        self._path = root / resource
        self._rate = Rate()
        column, is_known = PRESSURE_COLUMNS[resource], _stalled(self._path) is not None
        self.columns = (column,) if is_known else ()
        why = why_unreadable(str(self._path)) or "no total in it"
        self.missing = {} if is_known else {column.name: f"{self._path}: {why}"}

    def sample(self, now: float) -> list[float | None]:
        """The share since the last sample; empty without a column."""
        rate = self._rate.update(_stalled(self._path), now)
        return [None if rate is None else min(100.0, rate / 1e4)]


def _stalled(path: Path) -> int | None:
    """Microseconds of "some" stall so far, None where they cannot be read."""
    # Reading fails with EOPNOTSUPP where PSI is built in but switched off.
    for word in read_or_empty(str(path)).partition(b"\n")[0].split():
        if word.startswith(b"total="):
            return number(word[6:])
    return None
