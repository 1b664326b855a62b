"""How many cores the run may use, and how often its cgroup was stopped for using more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from perftui.run.journal import Column
from perftui.telemetry.files import fields, read_or_empty
from perftui.telemetry.limits import CGROUP_ROOT, OWN_CGROUP, cpu_groups, quota_of
from perftui.telemetry.processes.roles import Roles

COLUMNS = (
    Column(
        *("cpu.limit", "count", "usable cores"),
        "those that the training processes may run on, or fewer by the cgroup's quota; "
        "sched_getaffinity and cpu.max",
    ),
    Column(
        *("cpu.throttled", "%", "held back by quota"),
        "share of the scheduler's periods in which the cgroup had used up its quota of CPU time; "
        "nr_throttled of nr_periods in cpu.stat",
    ),
)


class QuotaSource:
    """Limits of the training ``pid``, or of the processes that train where ``roles`` knows them.

    The kernel adds the time it held a group back over all cores, so that it may be more than all
    the time there was; the share of periods is what can be told of it.
    """

    def __init__(
        self,
        pid: int,
        roles: Callable[[], Roles] = Roles,
        root: Path = CGROUP_ROOT,
        own: Path = OWN_CGROUP,
    ) -> None:
        self._pid = pid
        self._roles = roles
        groups = cpu_groups(root, own)
        self._limited = [group for group in groups if quota_of(group) is not None]
        self._periods: dict[Path, tuple[int, int]] = {}
        has_quota = bool(self._limited)
        self.columns = COLUMNS if has_quota else COLUMNS[:1]
        self.missing = {} if has_quota else {"cpu.throttled": "no cgroup has a quota of CPU time"}

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - shares need no clock
        """Values of ``columns``."""
        quotas = [quota for group in self._limited if (quota := quota_of(group)) is not None]
        limit = min([self._affinity(), *quotas])
        return [limit, self._throttled()] if self._limited else [limit]

    def _affinity(self) -> float:
        if not hasattr(os, "sched_getaffinity"):
            return os.cpu_count() or 1
        pids = self._roles().ranks or {self._pid}
        cores = set().union(*map(_cores_of, pids))
        # They have ended; the recorder may run where they could.
        return len(cores or os.sched_getaffinity(0))

    def _throttled(self) -> float | None:
        """The highest share of any group; 0 where none ran at all."""
        shares = []
        for group in self._limited:
            counts = fields(read_or_empty(f"{group}/cpu.stat"))
            before = self._periods.get(group)
            if b"nr_periods" not in counts or b"nr_throttled" not in counts:
                self._periods.pop(group, None)
                continue
            now = self._periods[group] = counts[b"nr_periods"], counts[b"nr_throttled"]
            if before is not None and now >= before:
                periods, throttled = now[0] - before[0], now[1] - before[1]
                shares.append(100.0 * throttled / periods if periods else 0.0)
        return max(shares, default=None)


def _cores_of(pid: int) -> set[int]:
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        # It has ended.
        return set()
