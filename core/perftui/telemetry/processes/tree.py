"""The processes of a run: its main ones and whatever they have started."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perftui.telemetry.pace import Pace
from perftui.telemetry.processes.reading import ProcessReading, ProcessTable

MOST_SHARE = 0.001
"""Of a core, for searches for processes that have been started meanwhile: with every sample in a
small run, as workers may live for seconds only."""


class ProcessTree:
    """The process ``pid``, those that ``others`` names, and all their descendants.

    ``pid`` is gone for good once it has ended, also if its number is used again.
    """

    def __init__(self, table: ProcessTable, pid: int, others: Callable[[], Sequence[int]]) -> None:
        self._table = table
        self._others = others
        self._pace = Pace(0.0, MOST_SHARE)
        self._pids: list[int] = []
        self.main = table.read(pid)
        """The first reading of ``pid``, None where it was gone by then or has ended since."""

    def readings(self, now: float) -> list[ProcessReading]:
        """Counters of all that live."""
        if self._pace.is_due(now):
            self._find(now)
        found = self._read()
        if self.main and all(one.identity != self.main.identity for one in found):
            # What it had started is not known any more.
            self.main = None
            self._find(now)
            found = self._read()
        return found

    def _read(self) -> list[ProcessReading]:
        found = map(self._table.read, self._pids)
        return [reading for reading in found if reading is not None]

    def _find(self, now: float) -> None:
        with self._pace.reading(now):
            mains = [*([self.main.pid] if self.main else []), *self._others()]
            trees = ([main, *self._table.below(main)] for main in mains)
            # One of them may have started another.
            self._pids = [*dict.fromkeys(pid for tree in trees for pid in tree)]
