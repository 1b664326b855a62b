"""Memory of a run in which shared pages count once."""

from __future__ import annotations

from collections.abc import Callable

from perftui.run.journal import Column
from perftui.telemetry.files import PROC, exists, fields, read, why_unreadable
from perftui.telemetry.pace import Pace

EVERY_SECONDS, MOST_SHARE = 10.0, 0.001
"""The kernel walks all pages of a process for it (0.7 ms for 50 MB) while it holds the lock for
which an allocation in the training may wait."""

COLUMNS = (
    Column(
        *("processes.pss", "B", "memory of the run", "/proc/<pid>/smaps_rollup"),
        "Memory of all processes of the run; a shared page is split between its processes. Every "
        "10 s or less often.",
    ),
)


class PssSource:
    """Proportional set size of the processes that ``pids`` names; of ``pid`` it must be readable,
    so that the others' can be expected to be."""

    def __init__(self, pid: int, pids: Callable[[], frozenset[int]], proc: str = PROC) -> None:
        self._pids = pids
        self._proc = proc
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        self._has_begun = False
        asked = pid if exists(f"{proc}/{pid}") else "self"
        why = why_unreadable(f"{proc}/{asked}/smaps_rollup")
        self.columns = () if why else COLUMNS
        self.missing = {COLUMNS[0].name: f"smaps_rollup: {why}"} if why else {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None but every few seconds, and while a process denies it."""
        if not self._has_begun:
            # The first reading would be of a training that only begins, and stand for long.
            self._has_begun = True
            self._pace.spent(now, 0.0)
        pids = self._pids()
        if not self.columns or not pids or not self._pace.is_due(now):
            return [None] * len(self.columns)
        with self._pace.reading(now):
            return [self._sum(pids)]

    def _sum(self, pids: frozenset[int]) -> float | None:
        sizes = []
        for pid in pids:
            try:
                size = fields(read(f"{self._proc}/{pid}/smaps_rollup")).get(b"Pss")
            except PermissionError:
                return None
            except OSError:
                # It has ended.
                continue
            if size is not None:
                sizes.append(1024 * size)
        return sum(sizes) if sizes else None
