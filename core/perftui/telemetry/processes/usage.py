"""What the processes of a run use, all together and by what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from perftui.run.journal import Column
from perftui.telemetry.files import why_unreadable
from perftui.telemetry.processes.portable import Portable
from perftui.telemetry.processes.proc import Proc, has_process_lists
from perftui.telemetry.processes.reading import ProcessReading, ProcessTable
from perftui.telemetry.processes.roles import ROLES, Roles
from perftui.telemetry.processes.tree import ProcessTree

Pair = tuple[ProcessReading, ProcessReading]
"""One process in two samples running."""

Counter = Callable[[ProcessReading], float | None]

_CPU: Counter = attrgetter("cpu")
_READ: Counter = attrgetter("read")
_WRITTEN: Counter = attrgetter("written")
_VOLUNTARY: Counter = attrgetter("voluntary")
_INVOLUNTARY: Counter = attrgetter("involuntary")
_FAULTS: Counter = attrgetter("major_faults")


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


@dataclass(frozen=True)
class Metric:
    """One column, and how its value follows from a change."""

    column: Column
    value: Callable[[Change], float | None]
    needs: Counter = _CPU
    """What a process must tell for it."""


def _rate(
    counter: Counter, role: str = "", factor: float = 1.0
) -> Callable[[Change], float | None]:
    """The rate of ``counter`` times ``factor``."""

    def value(change: Change) -> float | None:
        rate = change.rate(counter, role)
        return None if rate is None else factor * rate

    return value


def _of_role(name: str, label: str, source: str, counter: Counter, unit: str) -> Iterable[Metric]:
    """One metric for each of ``ROLES``."""
    for role, processes in ROLES.items():
        column = Column(f"processes.{role}_{name}", unit, f"{label} {processes}", source)
        yield Metric(column, _rate(counter, role, 100.0 if unit == "%" else 1.0), counter)


def _cpu(change: Change) -> float | None:
    return None if change.is_new else _rate(_CPU, factor=100.0)(change)


def _busiest_worker(change: Change) -> float | None:
    return max((100.0 * rate for rate in change.rates(_CPU, "workers")), default=None)


_CORE = "100 % is one core; /proc/<pid>/stat"
_STORAGE = "/proc/<pid>/io"
_SWITCHES = "of the main thread of each process; /proc/<pid>/status"

METRICS = (
    Metric(
        Column("processes.cpu", "%", "CPU of the run", f"all its processes, {_CORE}"),
        _cpu,
    ),
    *_of_role("cpu", "CPU of", _CORE, _CPU, "%"),
    Metric(
        Column("processes.worker_cpu_max", "%", "CPU of the busiest data-loader worker", _CORE),
        _busiest_worker,
    ),
    Metric(
        Column(
            *("processes.rss", "B", "resident memory"),
            "a sum, in which pages that processes share count for each; /proc/<pid>/stat",
        ),
        lambda c: sum(one.rss for one in c.after),
    ),
    Metric(
        Column("processes.read", "B/s", "read by the run", f"from storage; {_STORAGE}"),
        _rate(_READ),
        _READ,
    ),
    Metric(
        Column("processes.write", "B/s", "written by the run", f"to storage; {_STORAGE}"),
        _rate(_WRITTEN),
        _WRITTEN,
    ),
    *_of_role("read", "read from storage by", _STORAGE, _READ, "B/s"),
    *_of_role("write", "written by", _STORAGE, _WRITTEN, "B/s"),
    Metric(
        Column(
            *("processes.switches_voluntary", "1/s", "waits"),
            f"voluntary context switches {_SWITCHES}",
        ),
        _rate(_VOLUNTARY),
        _VOLUNTARY,
    ),
    Metric(
        Column(
            *("processes.switches_involuntary", "1/s", "preemptions"),
            f"involuntary context switches {_SWITCHES}",
        ),
        _rate(_INVOLUNTARY),
        _INVOLUNTARY,
    ),
    *(
        Metric(
            Column(
                *(f"processes.{role}_involuntary", "1/s", f"preemptions of {ROLES[role]}"),
                f"involuntary context switches {_SWITCHES}",
            ),
            _rate(_INVOLUNTARY, role),
            _INVOLUNTARY,
        )
        for role in ("ranks", "workers")
    ),
    Metric(
        Column(
            *("processes.major_faults", "1/s", "major page faults"),
            "pages of files or swap that had to be read from a disk; /proc/<pid>/stat",
        ),
        _rate(_FAULTS),
        _FAULTS,
    ),
    Metric(
        Column("processes.threads", "count", "threads", "of all its processes; /proc/<pid>/stat"),
        lambda c: sum(one.threads for one in c.after),
    ),
    Metric(
        Column(
            *("processes.count", "count", "processes"),
            "the main one and its descendants; /proc/<pid>/task/*/children",
        ),
        lambda c: len(c.after),
    ),
)

COLUMNS = tuple(metric.column for metric in METRICS)


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
        change = Change([*after.values()], pairs, by_role, seconds, is_new)
        return [metric.value(change) for metric in self._metrics]

    def pids(self) -> frozenset[int]:
        """Process numbers seen in the last sample."""
        return frozenset(pid for pid, _ in self._before)


def _why_untold(column: Column, pid: int) -> str:
    path = column.source.rpartition("; ")[2]
    why = why_unreadable(path.replace("<pid>", str(pid)))
    return f"{path}: {why or 'it does not tell'}"
