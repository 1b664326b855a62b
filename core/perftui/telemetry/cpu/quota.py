"""How many cores the run may use, and how often its cgroup was stopped for using more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from perftui.run.journal import Column
from perftui.telemetry.files import fields, read_or_empty
from perftui.telemetry.limits import CGROUP_ROOT, OWN_CGROUP, cpu_groups, quota_of
from perftui.telemetry.processes.roles import Roles

COLUMNS = (
    Column(
        *("cpu.limit", "count", "usable cores", "sched_getaffinity, cpu.max"),
        "Cores that the training processes may run on, or the cgroup's quota if that is less.",
    ),
    Column(
        *("cpu.throttled", "%", "throttled by quota", "cpu.stat of the cgroup"),
        "Upper bound of the share of time in which the cgroup had used up its CPU quota.",
    ),
)


class _Throttling(NamedTuple):
    """Of one cgroup so far."""

    periods: int
    """Of the scheduler, in which the group ran."""
    used_up: int
    """Those in which it used up its quota."""
    seconds: float
    """In which it was held back: of each core, added."""


class QuotaSource:
    """Limits of the training ``pid``, or of the processes that train where ``roles`` knows them.

    The kernel adds up the time for which it held back a group on each core, which may be more than
    all the time there was. Nor was it held back longer than the periods in which its quota was used
    up: the lesser is reported.
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
        self._before: dict[Path, _Throttling] = {}
        self._at = 0.0
        has_quota = bool(self._limited)
        self.columns = COLUMNS if has_quota else COLUMNS[:1]
        self.missing = {} if has_quota else {"cpu.throttled": "no cgroup has a quota of CPU time"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        quotas = [quota for group in self._limited if (quota := quota_of(group)) is not None]
        limit = min([self._affinity(), *quotas])
        return [limit, self._throttled(now)] if self._limited else [limit]

    def _affinity(self) -> float:
        if not hasattr(os, "sched_getaffinity"):
            return os.cpu_count() or 1
        pids = self._roles().ranks or {self._pid}
        cores = set().union(*map(_cores_of, pids))
        # They have ended; the recorder may run where they could.
        return len(cores or os.sched_getaffinity(0))

    def _throttled(self, now: float) -> float | None:
        """The highest share of any group; 0 where none ran at all."""
        seconds, self._at = now - self._at, now
        before = self._before
        found = ((group, _throttling(group)) for group in self._limited)
        self._before = {group: one for group, one in found if one is not None}
        shares = (
            _share(before[group], after, seconds)
            for group, after in self._before.items()
            if group in before
        )
        return max((share for share in shares if share is not None), default=None)


def _throttling(group: Path) -> _Throttling | None:
    """Values of ``cpu.stat``; None if it cannot be read."""
    counts = fields(read_or_empty(f"{group}/cpu.stat"))
    periods, used_up = counts.get(b"nr_periods"), counts.get(b"nr_throttled")
    # us in v2, ns in v1.
    us, ns = counts.get(b"throttled_usec"), counts.get(b"throttled_time")
    if periods is None or used_up is None or (us is None and ns is None):
        return None
    return _Throttling(periods, used_up, us / 1e6 if us is not None else (ns or 0) / 1e9)


def _share(before: _Throttling, after: _Throttling, seconds: float) -> float | None:
    """%; None where no time has passed, and where a counter fell."""
    periods, used_up, held = (new - old for old, new in zip(before, after, strict=True))
    if seconds <= 0 or min(periods, used_up, held) < 0:
        return None
    of_periods = used_up / periods if periods else 1.0
    return 100.0 * min(held / seconds, of_periods, 1.0)


def _cores_of(pid: int) -> set[int]:
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        # It has ended.
        return set()
