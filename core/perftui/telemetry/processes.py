"""The training's own processes: those that train, their data-loader workers, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import psutil

from perftui.run.journal import Column
from perftui.telemetry.process_tree import ProcessReading, find, read, tree

ROLES = {
    "ranks": "the processes that train",
    "workers": "data-loader workers",
    "rest": "other processes of the run",
}
"""``rest``: launchers, compilers, and whatever else the training has started."""

COLUMNS = (
    Column("processes.cpu", "%", "CPU of the run", "100 % is one core; all its processes"),
    *(
        Column(f"processes.{role}_cpu", "%", f"CPU of {label}", "100 % is one core")
        for role, label in ROLES.items()
    ),
    Column(
        "processes.rss", "B", "resident memory", "a sum: pages that processes share count in each"
    ),
    Column("processes.read", "B/s", "read by the run", "from storage; /proc/<pid>/io, Linux only"),
    Column("processes.write", "B/s", "written by the run", "/proc/<pid>/io, Linux only"),
    *(
        Column(f"processes.{role}_{way}", "B/s", f"{done} by {label}", "/proc/<pid>/io, Linux only")
        for way, done in (("read", "read from storage"), ("write", "written"))
        for role, label in ROLES.items()
    ),
    Column("processes.switches_voluntary", "1/s", "waits", "voluntary context switches"),
    Column("processes.switches_involuntary", "1/s", "preemptions", "involuntary context switches"),
    Column("processes.threads", "count", "threads", "of all its processes"),
    Column("processes.count", "count", "processes", "the main one and its descendants"),
)

Pair = tuple[ProcessReading, ProcessReading]
"""One process in two samples running."""

Counter = Callable[[ProcessReading], float | None]

_CPU: Counter = attrgetter("cpu")
_READ: Counter = attrgetter("read")
_WRITTEN: Counter = attrgetter("written")
_VOLUNTARY: Counter = attrgetter("voluntary")
_INVOLUNTARY: Counter = attrgetter("involuntary")


@dataclass(frozen=True)
class Roles:
    """Which processes do what, by number; those in neither are the rest."""

    ranks: frozenset[int] = frozenset()
    workers: frozenset[int] = frozenset()

    def of(self, pid: int) -> str:
        """The role of process ``pid``, one of ``ROLES``."""
        if pid in self.ranks:
            return "ranks"
        return "workers" if pid in self.workers else "rest"


class ProcessTreeSource:
    """The process ``pid`` and its descendants; ``roles`` returns what each is.

    So, too, those that ``others`` names: a run may be started rank by rank.

    Rates sum the changes of the processes that are in two samples running; the first sample of a
    process gives none, so that neither a start nor an end makes a jump. A process is known by pid
    and creation time: a pid that was given to another process is another process.
    """

    columns = COLUMNS

    def __init__(
        self,
        pid: int,
        roles: Callable[[], Roles] = Roles,
        others: Callable[[], Sequence[int]] = list,
    ) -> None:
        self._main = find(pid)
        self._roles = roles
        self._others = others
        self._before: dict[psutil.Process, ProcessReading] = {}
        self._at = 0.0

    def sample(self, now: float) -> list[float | None]:
        """Values of ``COLUMNS``; all None once all main processes are gone."""
        mains = [self._main, *map(find, self._others())]
        # One of them may have started another.
        processes = dict.fromkeys(one for main in mains if main for one in tree(main))
        after = {process: reading for process in processes if (reading := read(process))}
        pairs = {p: (self._before[p], reading) for p, reading in after.items() if p in self._before}
        seconds = now - self._at
        self._before, self._at = after, now
        if not after:
            return [None] * len(COLUMNS)
        by_role = self._by_role(pairs)
        return [
            _percent(_rate(self._all_or_none(pairs, after), _CPU, seconds)),
            *(_percent(_rate(each, _CPU, seconds)) for each in by_role),
            sum(reading.rss for reading in after.values()),
            _rate(pairs.values(), _READ, seconds),
            _rate(pairs.values(), _WRITTEN, seconds),
            *(_rate(each, counter, seconds) for counter in (_READ, _WRITTEN) for each in by_role),
            _rate(pairs.values(), _VOLUNTARY, seconds),
            _rate(pairs.values(), _INVOLUNTARY, seconds),
            sum(reading.threads for reading in after.values()),
            len(after),
        ]

    def pids(self) -> frozenset[int]:
        """Process numbers seen in the last sample."""
        return frozenset(process.pid for process in self._before)

    def _by_role(self, pairs: dict[psutil.Process, Pair]) -> list[list[Pair]]:
        """The pairs of each of ``ROLES``."""
        found: dict[str, list[Pair]] = {role: [] for role in ROLES}
        roles = self._roles()
        for process, pair in pairs.items():
            found[roles.of(process.pid)].append(pair)
        return list(found.values())

    def _all_or_none(
        self, pairs: dict[psutil.Process, Pair], after: dict[psutil.Process, ProcessReading]
    ) -> list[Pair]:
        """All pairs; none while the main process, or all that it has started, are new."""
        is_new = self._main not in pairs or (len(after) > 1 and len(pairs) == 1)
        return [] if is_new else list(pairs.values())


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def _rate(pairs: Iterable[Pair], counter: Counter, seconds: float) -> float | None:
    """Summed change per second; None before the second sample and where nothing is counted."""
    changes = []
    for before, after in pairs:
        old, new = counter(before), counter(after)
        if old is not None and new is not None:
            changes.append(new - old)
    return sum(changes) / seconds if changes and seconds > 0 else None
