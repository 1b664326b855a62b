"""What the processes of a run use, all together and by what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from perftui.run.journal import Column
from perftui.telemetry.files import why_unreadable
from perftui.telemetry.processes.reading import (
    Change,
    Counter,
    Pair,
    Portable,
    Proc,
    ProcessReading,
    ProcessTable,
    ProcessTree,
    has_process_lists,
)

ROLES = {
    "ranks": "the processes that train",
    "workers": "data loader workers",
    "rest": "other processes of the run",
}
"""``rest``: launchers, compilers, and whatever else the training has started."""


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


Value = Callable[[Change], float | None]

_CPU: Counter = attrgetter("cpu")
_READ: Counter = attrgetter("read")
_WRITTEN: Counter = attrgetter("written")
_VOLUNTARY: Counter = attrgetter("voluntary")
_INVOLUNTARY: Counter = attrgetter("involuntary")
_FAULTS: Counter = attrgetter("major_faults")

_STAT, _STATUS, _IO = (f"/proc/<pid>/{name}" for name in ("stat", "status", "io"))

_CORE = "100 % is one core."


@dataclass(frozen=True)
class Metric:
    """One column, and how its value follows from a change."""

    column: Column
    value: Value
    needs: Counter = _CPU
    """What a process must report for it."""


def _rate(counter: Counter, role: str = "", factor: float = 1.0) -> Value:
    """The rate of ``counter`` times ``factor``."""

    def value(change: Change) -> float | None:
        rate = change.rate(counter, role)
        return None if rate is None else factor * rate

    return value


def _cpu(change: Change) -> float | None:
    return None if change.is_new else _rate(_CPU, factor=100.0)(change)


def _busiest_worker(change: Change) -> float | None:
    return max((100.0 * rate for rate in change.rates(_CPU, "workers")), default=None)


def _of_roles() -> Iterable[Metric]:
    """CPU time and storage of each of ``ROLES``."""
    for role, who in ROLES.items():
        column = Column(
            *(f"processes.{role}_cpu", "%", f"CPU of {who}", _STAT),
            f"CPU time of {who}; {_CORE}",
        )
        yield Metric(column, _rate(_CPU, role, 100.0))
    for role, who in ROLES.items():
        column = Column(
            *(f"processes.{role}_read", "B/s", f"read from storage by {who}", _IO),
            f"Bytes a second that {who} read from storage.",
        )
        yield Metric(column, _rate(_READ, role), _READ)
    for role, who in ROLES.items():
        column = Column(
            *(f"processes.{role}_write", "B/s", f"written by {who}", _IO),
            f"Bytes a second that {who} wrote to storage.",
        )
        yield Metric(column, _rate(_WRITTEN, role), _WRITTEN)


def _resident_of(role: str) -> Metric:
    column = Column(
        *(f"processes.{role}_rss", "B", f"resident memory of {ROLES[role]}", _STAT),
        f"Memory of {ROLES[role]}; a shared page counts once per process.",
    )
    return Metric(column, lambda change: change.resident[role])


def _preemptions_of(role: str) -> Metric:
    column = Column(
        *(f"processes.{role}_involuntary", "1/s", f"preemptions of {ROLES[role]}", _STATUS),
        f"Times a second that main threads of {ROLES[role]} had to give up a core.",
    )
    return Metric(column, _rate(_INVOLUNTARY, role), _INVOLUNTARY)


METRICS = (
    Metric(
        Column(
            *("processes.cpu", "%", "CPU of the run", _STAT),
            f"CPU time of all processes of the run; {_CORE}",
        ),
        _cpu,
    ),
    *_of_roles(),
    Metric(
        Column(
            *("processes.worker_cpu_max", "%", "CPU of the busiest data loader worker", _STAT),
            f"CPU time of the busiest data loader worker; {_CORE}",
        ),
        _busiest_worker,
    ),
    Metric(
        Column(
            *("processes.rss", "B", "resident memory", _STAT),
            "Memory of all processes of the run; a shared page counts once per process.",
        ),
        lambda change: sum(one.rss for one in change.after),
    ),
    *map(_resident_of, ROLES),
    Metric(
        Column(
            *("processes.read", "B/s", "read by the run", _IO),
            "Bytes a second that all processes of the run read from storage.",
        ),
        _rate(_READ),
        _READ,
    ),
    Metric(
        Column(
            *("processes.write", "B/s", "written by the run", _IO),
            "Bytes a second that all processes of the run wrote to storage.",
        ),
        _rate(_WRITTEN),
        _WRITTEN,
    ),
    Metric(
        Column(
            *("processes.switches_voluntary", "1/s", "waits", _STATUS),
            "Times a second that main threads began to wait (voluntary context switches).",
        ),
        _rate(_VOLUNTARY),
        _VOLUNTARY,
    ),
    Metric(
        Column(
            *("processes.switches_involuntary", "1/s", "preemptions", _STATUS),
            "Times a second that main threads had to give up a core (involuntary switches).",
        ),
        _rate(_INVOLUNTARY),
        _INVOLUNTARY,
    ),
    _preemptions_of("ranks"),
    _preemptions_of("workers"),
    Metric(
        Column(
            *("processes.major_faults", "1/s", "major page faults", _STAT),
            "Pages a second, of files or swap, that a thread had to wait for a disk to read.",
        ),
        _rate(_FAULTS),
        _FAULTS,
    ),
    Metric(
        Column(
            *("processes.threads", "count", "threads", _STAT),
            "Threads of all processes of the run.",
        ),
        lambda change: sum(one.threads for one in change.after),
    ),
    Metric(
        Column(
            *("processes.count", "count", "processes", "/proc/<pid>/task/<tid>/children"),
            "The main process and its descendants.",
        ),
        lambda change: len(change.after),
    ),
)

PROCESS_COLUMNS = tuple(metric.column for metric in METRICS)


class ProcessTreeSource:
    """The process ``pid`` and its descendants; ``roles`` returns what each is.

    So, too, those that ``others`` names: a run may be started rank by rank.

    Rates sum the changes of the processes that are in two samples running; the first sample of a
    process gives none, so that neither a start nor an end makes a jump.
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
        self._metrics = [m for m in METRICS if main is None or m.needs(main) is not None]
        self.columns = tuple(metric.column for metric in self._metrics)
        self.missing = {
            metric.column.name: _why_untold(metric.column, pid)
            for metric in METRICS
            if metric not in self._metrics
        }

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; all None once all main processes are gone."""
        after = {one.identity: one for one in self._tree.readings(now)}
        pairs = [(self._before[key], one) for key, one in after.items() if key in self._before]
        seconds = now - self._at
        self._before, self._at = after, now
        if not after:
            return [None] * len(self.columns)
        by_role: dict[str, list[Pair]] = {role: [] for role in ROLES}
        roles = self._roles()
        for pair in pairs:
            by_role[roles.of(pair[1].pid)].append(pair)
        main = self._tree.main
        had_main = main is not None and any(one.identity == main.identity for one, _ in pairs)
        is_new = not had_main or (len(after) > 1 and len(pairs) == 1)
        resident = dict.fromkeys(ROLES, 0.0)
        for one in after.values():
            resident[roles.of(one.pid)] += one.rss
        change = Change([*after.values()], pairs, by_role, seconds, is_new, resident)
        return [metric.value(change) for metric in self._metrics]

    def pids(self) -> frozenset[int]:
        """Process numbers seen in the last sample."""
        return frozenset(pid for pid, _ in self._before)


def _why_untold(column: Column, pid: int) -> str:
    why = why_unreadable(column.source.replace("<pid>", str(pid)))
    return f"{column.source}: {why or 'not available'}"
