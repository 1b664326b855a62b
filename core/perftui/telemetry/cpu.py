"""The machine's cores: how busy, how fast, their model, and how many a run may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from perftui.run.journal import Column
from perftui.telemetry.files import PROC, SYS, fields, names_in, number, numbers, read_or_empty
from perftui.telemetry.limits import CGROUP_ROOT, OWN_CGROUP, affinity, cpu_groups, quota_of
from perftui.telemetry.processes import Roles
from perftui.telemetry.source import Pace, columns

CORE_COLUMNS = columns("""
cpu.utilization | % | CPU | /proc/stat | Busy share of all cores; 100 % is all of them.
cpu.core_max | % | busiest core | /proc/stat | Busy share of the busiest single core.
cpu.cores | count | cores | /proc/stat | Cores of the whole machine that are online.
cpu.load1 | | load | /proc/loadavg |
    Tasks running, ready to run or waiting for a disk, mean of the last minute.
""")

LINUX_COLUMNS = columns("""
cpu.iowait | % | I/O wait | /proc/stat |
    Share of the time of all cores that was idle with a disk request pending.
cpu.steal | % | stolen CPU | /proc/stat |
    Share of the time of all cores that the hypervisor gave to something else; part of
    cpu.utilization.
""")

MOST_CORES = 256
"""Cores that have a column of their own."""

Times = tuple[float, ...]
"""Of one core so far: user, nice, system, idle, I/O wait, interrupts, soft interrupts, stolen.

Guest time is left out, being part of user time. The unit cancels out of every share.
"""

_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7


def core_column(core: int | str) -> Column:
    """The column of one core."""
    return Column(f"cpu.core{core}", "%", f"core {core}", "/proc/stat", "Busy share of the core.")


class CpuSource:
    """Busy shares of the cores since the last sample; cores have the kernel's numbers."""

    def __init__(self, proc: str = PROC) -> None:
        self._path = f"{proc}/stat"
        self._is_linux = bool(_parse(read_or_empty(self._path)))
        self._before = self._read()
        self._cores = sorted(self._before)[:MOST_CORES]
        self.columns = (
            *CORE_COLUMNS,
            *(LINUX_COLUMNS if self._is_linux else ()),
            *map(core_column, self._cores),
        )
        self.missing = {} if self._is_linux else {"cpu.iowait, cpu.steal": f"no {self._path}"}

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - shares need no clock
        """Values of ``columns``; shares are None where no time has passed."""
        before, self._before = self._before, self._read()
        # I/O wait may fall in the kernel's accounting (proc_stat(5)), so no difference is below 0.
        spent = {
            core: [max(0.0, new - old) for old, new in zip(before[core], times, strict=True)]
            for core, times in self._before.items()
            if core in before
        }
        none = [0.0] * len(_FIELDS)
        total = [sum(of_all) for of_all in zip(none, *spent.values(), strict=True)]
        shares = {core: _busy(times) for core, times in spent.items()}
        values: list[float | None] = [
            _busy(total),
            max((share for share in shares.values() if share is not None), default=None),
            len(self._before),
            psutil.getloadavg()[0],
        ]
        if self._is_linux:
            values += [_percent(total[field], total) for field in (_IOWAIT, _STEAL)]
        of_cores = (shares.get(core) for core in self._cores)
        return [*values, *(None if share is None else round(share) for share in of_cores)]

    def _read(self) -> Mapping[int, Times]:
        if self._is_linux:
            return _parse(read_or_empty(self._path))
        times: list[Any] = psutil.cpu_times(percpu=True)
        return {
            core: tuple(getattr(spent, field, 0.0) for field in _FIELDS)
            for core, spent in enumerate(times)
        }


def _parse(stat: bytes) -> dict[int, Times]:
    """Times of each core that is switched on, in ticks, from a ``/proc/stat``."""
    cores: dict[int, Times] = {}
    # The file goes on with counts of every interrupt of the machine, which are most of it.
    for line in stat.partition(b"\nintr")[0].splitlines():
        name, *words = line.split()[: 1 + len(_FIELDS)] or [b""]
        if name.startswith(b"cpu") and name[3:].isdigit():
            # Before Linux 2.6.11 there were fewer fields.
            times = numbers(words + [b"0"] * (len(_FIELDS) - len(words)))
            if times is not None and len(words) > _IDLE:
                cores[int(name[3:])] = tuple(times)
    return cores


def _busy(spent: list[float]) -> float | None:
    return _percent(sum(spent) - spent[_IDLE] - spent[_IOWAIT], spent)


def _percent(part: float, spent: list[float]) -> float | None:
    total = sum(spent)
    return 100.0 * part / total if total > 0 else None


EVERY_SECONDS, MOST_SHARE = 5.0, 0.001
"""Some drivers interrupt each core to read it."""

FREQUENCY_COLUMNS = columns("""
cpu.frequency | MHz | CPU clock | cpufreq/scaling_cur_freq |
    Current clock, mean of the cores, every 5 s.
cpu.frequency_max | MHz | highest CPU clock | cpufreq/cpuinfo_max_freq |
    Highest clock that the hardware supports, mean of the cores.
""")


class FrequencySource:
    """Clocks by cpufreq, which most virtual machines lack.

    There, ``/proc/cpuinfo`` shows the clock of the time stamp counter instead.
    """

    def __init__(self, sys: str = SYS) -> None:
        place = f"{sys}/devices/system/cpu"
        names = [name for name in names_in(place) if name[:3] == "cpu" and name[3:].isdigit()]
        self._cores = [f"{place}/{name}/cpufreq" for name in names]
        self._highest = self._mean("cpuinfo_max_freq")
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        is_known = self._mean("scaling_cur_freq") is not None
        self.columns = FREQUENCY_COLUMNS if is_known else ()
        self.missing = {} if is_known else {"cpu.frequency": f"no cpufreq in {place}"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; the present clock is None between readings every few seconds."""
        clock = None
        if self._pace.is_due(now):
            with self._pace.reading(now):
                clock = self._mean("scaling_cur_freq")
        return [clock, self._highest]

    def _mean(self, name: str) -> float | None:
        values = (number(read_or_empty(f"{core}/{name}")) for core in self._cores)
        clocks = [clock for clock in values if clock is not None]
        # cpufreq counts kHz.
        return sum(clocks) / len(clocks) / 1000 if clocks else None


def cpu_governor(sys: str = SYS) -> str:
    """``performance``, ``powersave``... of the first core; empty if the system has none, as in most
    virtual machines."""
    path = f"{sys}/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return read_or_empty(path).decode("utf-8", "replace").strip()


def cpu_name(proc: str = PROC) -> str:
    """``AMD EPYC 9534 64-Core Processor``; the architecture where the kernel names no model."""
    for line in read_or_empty(f"{proc}/cpuinfo").splitlines():
        field, _, value = line.partition(b":")
        if field.strip() == b"model name" and value.strip():
            return " ".join(value.decode("utf-8", "replace").split())
    return platform.machine()


QUOTA_COLUMNS = columns("""
cpu.limit | count | usable cores | sched_getaffinity, cpu.max |
    Cores that the training processes may run on, or the cgroup's quota if that is less.
cpu.throttled | % | throttled by quota | cpu.stat of the cgroup |
    Upper bound of the share of time in which the cgroup had used up its CPU quota.
""")


_Throttling = tuple[int, int, float]
"""Counters of one cgroup: scheduler periods in which it ran, those in which it used up its quota,
and seconds for which it was held back, summed over cores."""


class QuotaSource:
    """Limits of the training ``pid``, or of the processes that train where ``roles`` knows them.

    The kernel adds up the time for which it held back a group on each core, which may exceed the
    elapsed time. Nor was it held back longer than the periods in which its quota was used up: the
    smaller value is reported.
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
        self.columns = QUOTA_COLUMNS if has_quota else QUOTA_COLUMNS[:1]
        self.missing = {} if has_quota else {"cpu.throttled": "no cgroup has a quota of CPU time"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        quotas = [quota for group in self._limited if (quota := quota_of(group)) is not None]
        limit = min([self._affinity(), *quotas])
        return [limit, self._throttled(now)] if self._limited else [limit]

    def _affinity(self) -> float:
        cores: set[int] = set()
        for pid in self._roles().ranks or {self._pid}:
            # Not every system has affinities.
            with suppress(OSError, AttributeError):
                cores |= os.sched_getaffinity(pid)
        # All of them have ended; the recorder may run on the same cores.
        return len(cores) or affinity()

    def _throttled(self, now: float) -> float | None:
        """The highest share of any group; 0 if none ran at all."""
        seconds, self._at = now - self._at, now
        before = self._before
        readings = ((group, _throttling(group)) for group in self._limited)
        self._before = {group: reading for group, reading in readings if reading is not None}
        shares = (
            _share_of_quota(before[group], after, seconds)
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
    return periods, used_up, us / 1e6 if us is not None else (ns or 0) / 1e9


def _share_of_quota(before: _Throttling, after: _Throttling, seconds: float) -> float | None:
    """%; None if no time has passed or a counter fell."""
    periods, used_up, seconds_held = (new - old for old, new in zip(before, after, strict=True))
    if seconds <= 0 or min(periods, used_up, seconds_held) < 0:
        return None
    of_periods = used_up / periods if periods else 1.0
    return 100.0 * min(seconds_held / seconds, of_periods, 1.0)
