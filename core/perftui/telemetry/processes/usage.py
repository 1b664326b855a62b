"""What the processes of a run use, all together and by what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perftui.run.journal import Column
from perftui.telemetry.files import why_unreadable
from perftui.telemetry.processes.change import Change, Pair
from perftui.telemetry.processes.metrics import METRICS
from perftui.telemetry.processes.portable import Portable
from perftui.telemetry.processes.proc import Proc, has_process_lists
from perftui.telemetry.processes.reading import ProcessReading, ProcessTable
from perftui.telemetry.processes.roles import ROLES, Roles
from perftui.telemetry.processes.tree import ProcessTree


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
