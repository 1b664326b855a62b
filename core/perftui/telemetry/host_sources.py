"""Every source of a machine's metrics but those of GPUs, by group: what it may have, and how it is
made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from perftui.run.journal import Column
from perftui.telemetry import pressure
from perftui.telemetry.cpu import cores, frequency, quota
from perftui.telemetry.disk import data_disk, disks, nfs
from perftui.telemetry.disk.data_place import DataPlace
from perftui.telemetry.memory import shared, usage
from perftui.telemetry.network import infiniband, interfaces
from perftui.telemetry.pressure import PressureSource
from perftui.telemetry.processes import contention, pss, threads
from perftui.telemetry.processes import metrics as processes
from perftui.telemetry.processes.roles import Roles
from perftui.telemetry.processes.usage import ProcessTreeSource
from perftui.telemetry.source import PartialSource


class OfRun:
    """What sources need to know of the run, and those of them that others need."""

    def __init__(
        self, pid: int, roles: Callable[[], Roles], others: Callable[[], Sequence[int]]
    ) -> None:
        self.pid = pid
        self.roles = roles
        self.processes = ProcessTreeSource(pid, roles, others)
        self.contention = contention.ContentionSource(roles, self.processes.pids)
        self.place = DataPlace(pid, roles)
        self.data_disk = data_disk.DataDiskSource(self.place)


class HostSource(NamedTuple):
    """One source."""

    columns: tuple[Column, ...]
    """All that it can sample; a machine may have fewer of them."""
    make: Callable[[OfRun], PartialSource]
    """The source of this machine, for a run."""


HOST_SOURCES: dict[str, tuple[HostSource, ...]] = {
    "CPU": (
        HostSource(
            (*cores.COLUMNS, *cores.LINUX_COLUMNS, cores.core_column("N")),
            lambda _: cores.CpuSource(),
        ),
        HostSource(frequency.COLUMNS, lambda _: frequency.FrequencySource()),
        HostSource(quota.COLUMNS, lambda run: quota.QuotaSource(run.pid, run.roles)),
        HostSource((pressure.COLUMNS["cpu"],), lambda _: PressureSource("cpu")),
    ),
    "Processes of the run": (
        HostSource(processes.COLUMNS, lambda run: run.processes),
        HostSource(threads.COLUMNS, lambda run: threads.ThreadSource(run.roles)),
        HostSource(contention.COLUMNS, lambda run: run.contention),
        HostSource(pss.COLUMNS, lambda run: pss.PssSource(run.pid, run.processes.pids)),
    ),
    "Memory": (
        HostSource(
            (*usage.COLUMNS, usage.PAGE_CACHE, usage.OOM_KILLS), lambda _: usage.MemorySource()
        ),
        HostSource(shared.COLUMNS, lambda _: shared.SharedMemorySource()),
        HostSource((pressure.COLUMNS["memory"],), lambda _: PressureSource("memory")),
    ),
    "Disk": (
        HostSource(disks.COLUMNS, lambda _: disks.DiskSource()),
        HostSource(data_disk.COLUMNS, lambda run: run.data_disk),
        HostSource(nfs.COLUMNS, lambda run: nfs.NfsSource(run.place)),
        HostSource((pressure.COLUMNS["io"],), lambda _: PressureSource("io")),
    ),
    "Network": (
        HostSource(
            (*interfaces.COLUMNS, interfaces.RETRANSMITS), lambda _: interfaces.NetworkSource()
        ),
        HostSource(infiniband.COLUMNS, lambda _: infiniband.InfinibandSource()),
    ),
}
"""In this order they are sampled, and listed in docs/metrics.md."""


def host_columns() -> dict[str, tuple[Column, ...]]:
    """All that the sources can sample, by group."""
    return {
        title: tuple(column for one in sources for column in one.columns)
        for title, sources in HOST_SOURCES.items()
    }


def make_host_sources(run: OfRun) -> list[PartialSource]:
    """The sources of this machine, for a run."""
    return [one.make(run) for sources in HOST_SOURCES.values() for one in sources]
