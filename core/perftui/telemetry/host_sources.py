"""Every source of a machine's metrics, by group: its possible columns and its constructor.

``look_around`` finds those of GPUs too, which are in ``telemetry/gpu``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from perftui.run.journal import Column
from perftui.telemetry import contention, cpu, data_disk, disks, memory, network, processes
from perftui.telemetry.contention import ContentionSource, PressureSource
from perftui.telemetry.data_disk import DataDiskSource, DataPlace
from perftui.telemetry.gpu.find import Gpus, find_gpus, gpu_columns
from perftui.telemetry.processes import ProcessTreeSource, Roles
from perftui.telemetry.source import PartialSource, Source


class OfRun:
    """Facts about the run for sources, and sources that others need."""

    def __init__(
        self, pid: int, roles: Callable[[], Roles], others: Callable[[], Sequence[int]]
    ) -> None:
        self.pid = pid
        self.roles = roles
        self.processes = ProcessTreeSource(pid, roles, others)
        self.contention = ContentionSource(roles, self.processes.pids)
        self.place = DataPlace(pid, roles)
        self.data_disk = DataDiskSource(self.place)


class HostSource(NamedTuple):
    """One source."""

    columns: tuple[Column, ...]
    """All possible columns; a machine may have fewer."""
    make: Callable[[OfRun], PartialSource]
    """Constructs the source of this machine, for a run."""


HOST_SOURCES: dict[str, tuple[HostSource, ...]] = {
    "CPU": (
        HostSource(
            (*cpu.CORE_COLUMNS, *cpu.LINUX_COLUMNS, cpu.core_column("N")), lambda _: cpu.CpuSource()
        ),
        HostSource(cpu.FREQUENCY_COLUMNS, lambda _: cpu.FrequencySource()),
        HostSource(cpu.QUOTA_COLUMNS, lambda run: cpu.QuotaSource(run.pid, run.roles)),
        HostSource((contention.PRESSURE_COLUMNS["cpu"],), lambda _: PressureSource("cpu")),
    ),
    "Processes of the run": (
        HostSource(processes.PROCESS_COLUMNS, lambda run: run.processes),
        HostSource(contention.THREAD_COLUMNS, lambda run: contention.ThreadSource(run.roles)),
        HostSource(contention.CONTENTION_COLUMNS, lambda run: run.contention),
        HostSource(memory.PSS_COLUMNS, lambda run: memory.PssSource(run.pid, run.processes.pids)),
    ),
    "Memory": (
        HostSource(
            (*memory.MEMORY_COLUMNS, memory.PAGE_CACHE, memory.OOM_KILLS),
            lambda _: memory.MemorySource(),
        ),
        HostSource(memory.SHARED_COLUMNS, lambda _: memory.SharedMemorySource()),
        HostSource((contention.PRESSURE_COLUMNS["memory"],), lambda _: PressureSource("memory")),
    ),
    "Disk": (
        HostSource(disks.DISK_COLUMNS, lambda _: disks.DiskSource()),
        HostSource(data_disk.DATA_DISK_COLUMNS, lambda run: run.data_disk),
        HostSource(data_disk.NFS_COLUMNS, lambda run: data_disk.NfsSource(run.place)),
        HostSource((contention.PRESSURE_COLUMNS["io"],), lambda _: PressureSource("io")),
    ),
    "Network": (
        HostSource(
            (*network.NETWORK_COLUMNS, network.RETRANSMITS), lambda _: network.NetworkSource()
        ),
        HostSource(network.INFINIBAND_COLUMNS, lambda _: network.InfinibandSource()),
    ),
}
"""In the order of sampling, and of docs/metrics.md."""


def host_columns() -> dict[str, tuple[Column, ...]]:
    """All columns that the sources can have, by group."""
    return {
        title: tuple(column for source in sources for column in source.columns)
        for title, sources in HOST_SOURCES.items()
    }


def tables() -> str:
    """All metrics as Markdown, one table for each group."""
    groups = {**host_columns(), "GPU": gpu_columns()}
    lines = []
    for title, columns in groups.items():
        lines += [f"## {title}", "", "| Metric | Unit | What it is | Source |", "|---|---|---|---|"]
        lines += [f"| `{c.name}` | {c.unit} | {c.meaning} | `{c.source}` |" for c in columns]
        lines.append("")
    return "\n".join(lines[:-1])


@dataclass(frozen=True)
class Machine:
    """The sources of this machine."""

    sources: tuple[Source, ...]
    contention: ContentionSource
    """One of them."""
    data_disk: DataDiskSource
    """One of them."""
    gpus: Gpus
    missing: Mapping[str, str]
    """Why a metric, a group of them or all of a device is not sampled, by its name."""


def look_around(
    pid: int,
    nvml: ModuleType | None = None,
    roles: Callable[[], Roles] = Roles,
    others: Callable[[], Sequence[int]] = list,
) -> Machine:
    """Find what can be sampled of this machine and of the training process ``pid``.

    ``roles`` returns which of the processes below it train, and which load data; ``others``
    processes beside it that are of the same run.
    """
    run = OfRun(pid, roles, others)
    host = [entry.make(run) for sources in HOST_SOURCES.values() for entry in sources]
    missing = {name: why for source in host for name, why in source.missing.items()}
    gpus = find_gpus(run.processes.pids, nvml)
    sources = (*host, *gpus.sources)
    return Machine(sources, run.contention, run.data_disk, gpus, {**missing, **gpus.missing})
