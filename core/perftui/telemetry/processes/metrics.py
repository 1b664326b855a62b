"""What is sampled of the processes of a run, a row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from perftui.run.journal import Column
from perftui.telemetry.processes.change import Change, Counter
from perftui.telemetry.processes.roles import ROLES

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

COLUMNS = tuple(metric.column for metric in METRICS)
