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
)

MOST_NAMED = 5

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OtherPrograms:
    """Mean cores that each of the busiest other programs has kept busy over ``seconds``."""

    seconds: float
    cores: dict[str, float]


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
        self._seconds = 0.0
        why = why_unreadable(f"{proc}/self/schedstat")
        self.columns = () if why else COLUMNS
        self.missing = {COLUMNS[0].name: f"schedstat: {why}"} if why else {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``, None but every few seconds."""
        if not self.columns or not self._pace.is_due(now):
            return [None] * len(self.columns)
        seconds, self._at = now - self._at, now
        with self._pace.reading(now):
            longest = self._read(seconds)
        if not longest:
            return [None]
        return [min(100.0 * sum(longest) / len(longest) / (seconds * 1e9), 100.0)]

    def _read(self, seconds: float) -> list[int]:
        """For each training process how long the thread waited that did so the longest, ns."""
        self._read_others(seconds)
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
        return OtherPrograms(round(self._seconds, 1), cores)

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

    def _read_others(self, seconds: float) -> None:
        own = {*self._own(), os.getpid()}
        used: dict[tuple[int, str], int] = {}
        changes: Counter[str] = Counter()
        for entry in os.scandir(self._proc):
            if entry.name.isdecimal() and (pid := int(entry.name)) not in own:
                found = _cpu(_read(self._proc / entry.name / "stat"))
                # What the recorder has started samples stacks.
                if found is not None and found[1] not in own:
                    name, _, ticks = found
                    used[pid, name] = ticks
                    change = ticks - self._used.get((pid, name), ticks)
                    if change:
                        changes[self._program(pid, name)] += change
        if self._used:
            self._totals += changes
            self._seconds += seconds
        self._used = used

    def _program(self, pid: int, name: str) -> str:
        """The name with the script of an interpreter, and nothing else of its command line."""
        words = _read(self._proc / str(pid) / "cmdline").decode("utf-8", "replace").split("\0")[1:]
        script = next((word for word in words if word.endswith((".py", ".sh", ".pl"))), "")
        if not script and "-m" in words[:-1]:
            script = f"-m {words[words.index('-m') + 1]}"
        return f"{name} {script.rpartition('/')[2]}".strip()


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
