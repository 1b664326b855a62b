"""What single threads of the run compute and wait for: those that hold up a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from perftui.run.journal import Column
from perftui.telemetry.files import PROC, names_in, numbers, record, why_unreadable
from perftui.telemetry.pace import Pace
from perftui.telemetry.processes.roles import Roles

_SCHEDSTAT = "/proc/<pid>/task/<tid>/schedstat"

COLUMNS = (
    Column(
        *("processes.main_cpu", "%", "CPU of main threads", _SCHEDSTAT),
        "CPU time of the main threads of the processes that train; 100 % is one core.",
    ),
    Column(
        *("processes.autograd_cpu", "%", "CPU of autograd threads", _SCHEDSTAT),
        "CPU time of the threads that run the backward pass for a GPU (pt_autograd_*); 100 % is "
        "one core.",
    ),
    Column(
        *("processes.workers_delayed", "%", "workers waiting for a core", _SCHEDSTAT),
        "Share of the time that a data loader worker was ready to run but had no core, for the "
        "worker that waited longest.",
    ),
)

AUTOGRAD = b"pt_autograd_"
"""How PyTorch names the threads of its autograd engine, one for each GPU."""

EVERY_SECONDS, MOST_SHARE = 2.0, 0.001
"""Between two searches for autograd threads: a training process may have hundreds of threads."""

Thread = tuple[int, int]
"""Process and thread."""


class ThreadSource:
    """CPU time and run-queue delay of threads, which the kernel counts in ns."""

    def __init__(self, roles: Callable[[], Roles], proc: str = PROC) -> None:
        self._roles = roles
        self._proc = proc
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        self._autograd: list[Thread] = []
        self._before: dict[Thread, tuple[int, int]] = {}
        self._at = 0.0
        why = why_unreadable(f"{proc}/self/schedstat")
        self.columns = () if why else COLUMNS
        names = ", ".join(column.name for column in COLUMNS)
        self.missing = {names: f"schedstat: {why}"} if why else {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None where there are no such threads, or all are new."""
        if not self.columns:
            return []
        roles = self._roles()
        if self._pace.is_due(now):
            with self._pace.reading(now):
                self._autograd = [*self._find(roles.ranks)]
        mains, workers = ([(pid, pid) for pid in pids] for pids in (roles.ranks, roles.workers))
        after = {thread: self._read(thread) for thread in {*mains, *workers, *self._autograd}}
        known = {thread: one for thread, one in after.items() if one is not None}
        before, self._before = self._before, known
        seconds, self._at = now - self._at, now

        def spent(threads: Iterable[Thread], kind: int) -> list[float]:
            """Shares of the time, one for each thread that is in both samples."""
            changes = (
                known[one][kind] - before[one][kind]
                for one in threads
                if one in known and one in before
            )
            # One that falls is that of another thread, which was given the number.
            return [change / (seconds * 1e7) for change in changes if change >= 0 and seconds > 0]

        computed, delayed = 0, 1
        return [
            _sum(spent(mains, computed)),
            _sum(spent(self._autograd, computed)),
            max((min(share, 100.0) for share in spent(workers, delayed)), default=None),
        ]

    def _read(self, thread: Thread) -> tuple[int, int] | None:
        """ns on a core, and ns waiting for one, of a thread so far."""
        pid, task = thread
        found = numbers(record(f"{self._proc}/{pid}/task/{task}/schedstat").split())
        return (found[0], found[1]) if found and len(found) >= 2 else None

    def _find(self, pids: Iterable[int]) -> Iterable[Thread]:
        """Autograd threads of these processes."""
        for pid in pids:
            place = f"{self._proc}/{pid}/task"
            for task in names_in(place):
                if task.isdigit() and record(f"{place}/{task}/comm").startswith(AUTOGRAD):
                    yield pid, int(task)


def _sum(shares: list[float]) -> float | None:
    return sum(shares) if shares else None
