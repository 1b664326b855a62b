"""Who else uses the cores, and how long the training's threads wait for one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perftui.run.journal import Column
from perftui.telemetry.files import why_unreadable
from perftui.telemetry.pace import Pace
from perftui.telemetry.processes.programs import module_of, program
from perftui.telemetry.processes.roles import Roles

EVERY_SECONDS = 3.0
MOST_SHARE = 0.002
"""Between two readings, and at most so much of a core: of 1,000 processes one takes some 20 ms."""

COLUMNS = (
    Column(
        *("processes.delayed", "%", "waiting for a core", "/proc/<pid>/task/<tid>/schedstat"),
        "Share of the time that a thread was ready to run but had no core, for the thread of each "
        "training process that waited longest, every 3 s.",
    ),
    Column(
        *("processes.perftui_cpu", "%", "CPU of perftui", "/proc/<pid>/stat"),
        "CPU time of perftui itself: what records the run, and the app. Every 3 s; 100 % is one "
        "core.",
    ),
)

MOST_NAMED = 5

MOST_PIDS = 3
"""Processes of one program that are named by number."""

_PACKAGES = ("perftui", "perftui_tui")

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OtherPrograms:
    """Mean cores that each of the busiest other programs has kept busy over ``seconds``."""

    seconds: float
    cores: dict[str, float]
    pids: dict[str, list[int]]
    """Processes of each that lived at the last reading, busiest first; of many the first."""


class ContentionSource:
    """Reads both every few seconds; ``roles`` returns which processes train, ``own`` those of
    the run."""

    def __init__(
        self,
        roles: Callable[[], Roles],
        own: Callable[[], frozenset[int]],
        proc: Path = Path("/proc"),
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
        """Ticks by program and process, of processes that live."""
        self._seconds = 0.0
        why = why_unreadable(f"{proc}/self/schedstat")
        self.columns = () if why else COLUMNS
        self.missing = {column.name: f"schedstat: {why}" for column in COLUMNS} if why else {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``, None but every few seconds."""
        if not self.columns or not self._pace.is_due(now):
            return [None] * len(self.columns)
        seconds, self._at = now - self._at, now
        with self._pace.reading(now):
            perftui = self._read_others(seconds)
            longest = self._longest_waits()
        waited = sum(longest) / len(longest) / (seconds * 1e9) if longest else None
        return [None if waited is None else min(100.0 * waited, 100.0), perftui]

    def _longest_waits(self) -> list[int]:
        """For each training process how long the thread waited that did so the longest, ns."""
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
        """Nanoseconds that each thread has waited for a core so far."""
        try:
            for task in os.scandir(self._proc / str(pid) / "task"):
                words = _read(Path(task.path) / "schedstat").split()
                if len(words) >= 2:
                    yield task.name, int(words[1])
        except OSError:
            # It has ended.
            return

    def _read_others(self, seconds: float) -> float | None:
        """Count what others have used since the last reading; returns what perftui itself has, %
        of a core, None at the first reading."""
        own, recorder = self._own(), os.getpid()
        used: dict[tuple[int, str], int] = {}
        ours = 0
        changes: Counter[tuple[str, int]] = Counter()
        for entry in os.scandir(self._proc):
            if not entry.name.isdecimal() or (pid := int(entry.name)) in own:
                continue
            found = _cpu(_read(self._proc / entry.name / "stat"))
            if found is None or found[1] in own:
                continue
            name, parent, ticks = found
            used[pid, name] = ticks
            change = ticks - self._used.get((pid, name), ticks)
            if not change:
                continue
            words = _words(self._proc / entry.name)
            # What the recorder has started samples stacks.
            if recorder in (pid, parent) or _is_perftui(words):
                ours += change
            else:
                changes[program(name, words), pid] += change
        is_first = not self._used
        if not is_first:
            for (other, _), ticks in changes.items():
                self._totals[other] += ticks
            living = {pid for pid, _ in used}
            self._by_process += changes
            for gone in [each for each in self._by_process if each[1] not in living]:
                del self._by_process[gone]
            self._seconds += seconds
        self._used = used
        return None if is_first else 100.0 * ours / _TICKS / seconds


def _words(process: Path) -> list[str]:
    """The command line of a process."""
    return _read(process / "cmdline").decode("utf-8", "replace").split("\0")


def _is_perftui(words: list[str]) -> bool:
    """Whether it is our command, alone or run by Python, or one of our modules."""
    is_command = any(word.rpartition("/")[2] == "perftui" for word in words[:2])
    return is_command or module_of(words).partition(".")[0] in _PACKAGES


def _cpu(stat: bytes) -> tuple[str, int, int] | None:
    """Name, parent and ticks of user and system time, of one line of ``/proc/<pid>/stat``."""
    head, _, rest = stat.rpartition(b")")
    fields = rest.split()
    if len(fields) < 13:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return name, int(fields[1]), int(fields[11]) + int(fields[12])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        # It has ended meanwhile, or may not be read.
        return b""
