"""How busy the processors are, all together and each core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from perftui.run.journal import Column
from perftui.telemetry.files import PROC, numbers, read_or_empty

_STAT = "/proc/stat"

COLUMNS = (
    Column(
        *("cpu.utilization", "%", "CPU", _STAT),
        "Busy share of all cores; 100 % is all of them.",
    ),
    Column("cpu.core_max", "%", "busiest core", _STAT, "Busy share of the busiest single core."),
    Column(
        *("cpu.cores", "count", "cores", _STAT),
        "Cores of the whole machine that are online.",
    ),
    Column(
        *("cpu.load1", "", "load", "/proc/loadavg"),
        "Tasks running, ready to run or waiting for a disk, mean of the last minute.",
    ),
)

LINUX_COLUMNS = (
    Column(
        *("cpu.iowait", "%", "I/O wait", _STAT),
        "Share of the time of all cores that was idle with a disk request pending.",
    ),
    Column(
        *("cpu.steal", "%", "stolen CPU", _STAT),
        "Share of the time of all cores that the hypervisor gave to something else; part of "
        "cpu.utilization.",
    ),
)

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
    return Column(f"cpu.core{core}", "%", f"core {core}", _STAT, "Busy share of the core.")


class CpuSource:
    """Busy shares of the cores since the last sample; a core is known by the kernel's number."""

    def __init__(self, proc: str = PROC) -> None:
        self._path = f"{proc}/stat"
        self._is_linux = bool(_parse(read_or_empty(self._path)))
        self._before = self._read()
        self._cores = sorted(self._before)[:MOST_CORES]
        self.columns = (
            *COLUMNS,
            *(LINUX_COLUMNS if self._is_linux else ()),
            *map(core_column, self._cores),
        )
        self.missing = {} if self._is_linux else {"cpu.iowait, cpu.steal": f"no {self._path}"}

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - shares need no clock
        """Values of ``columns``; shares are None where no time has passed."""
        before, self._before = self._before, self._read()
        spent = {
            core: _spent(before[core], times)
            for core, times in self._before.items()
            if core in before
        }
        total = [sum(of_all) for of_all in zip(*spent.values(), strict=True)]
        shares = {core: _busy(times) for core, times in spent.items()}
        values: list[float | None] = [
            _busy(total),
            max((share for share in shares.values() if share is not None), default=None),
            len(self._before),
            psutil.getloadavg()[0],
        ]
        if self._is_linux:
            values += [_share(total, _IOWAIT), _share(total, _STEAL)]
        of_cores = (shares.get(core) for core in self._cores)
        return [*values, *(None if share is None else round(share) for share in of_cores)]

    def _read(self) -> Mapping[int, Times]:
        if self._is_linux:
            return _parse(read_or_empty(self._path))
        times: list[Any] = psutil.cpu_times(percpu=True)
        return {
            core: tuple(getattr(one, field, 0.0) for field in _FIELDS)
            for core, one in enumerate(times)
        }


def _parse(stat: bytes) -> dict[int, Times]:
    """Times of each core that is switched on, in ticks, of a ``/proc/stat``."""
    found: dict[int, Times] = {}
    # A line of counts follows for every interrupt of the machine, which is most of the file.
    for line in stat.partition(b"\nintr")[0].splitlines():
        name, *words = line.split()[: 1 + len(_FIELDS)] or [b""]
        if name.startswith(b"cpu") and name[3:].isdigit():
            # Before Linux 2.6.11 there were fewer.
            times = numbers(words + [b"0"] * (len(_FIELDS) - len(words)))
            if times is not None and len(words) > _IDLE:
                found[int(name[3:])] = tuple(times)
    return found


def _spent(before: Times, after: Times) -> list[float]:
    """What was spent between two readings.

    I/O wait may fall by the kernel's own account (proc_stat(5)), so no difference is below 0.
    """
    return [max(0.0, new - old) for old, new in zip(before, after, strict=True)]


def _busy(spent: list[float]) -> float | None:
    total = sum(spent)
    return 100.0 * (total - spent[_IDLE] - spent[_IOWAIT]) / total if total > 0 else None


def _share(spent: list[float], field: int) -> float | None:
    total = sum(spent)
    return 100.0 * spent[field] / total if total > 0 else None
