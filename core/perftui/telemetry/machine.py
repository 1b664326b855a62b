"""Everything that can be sampled on this machine, for one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from perftui.telemetry.cpu.cores import CpuSource
from perftui.telemetry.cpu.frequency import FrequencySource
from perftui.telemetry.cpu.quota import QuotaSource
from perftui.telemetry.disk.data_disk import DataDiskSource
from perftui.telemetry.disk.data_place import DataPlace
from perftui.telemetry.disk.disks import DiskSource
from perftui.telemetry.disk.nfs import NfsSource
from perftui.telemetry.gpu import (
    GpuMemorySource,
    GpuSource,
    NoGpuError,
    PcieSource,
    card_names,
    open_nvml,
)
from perftui.telemetry.memory.shared import SharedMemorySource
from perftui.telemetry.memory.usage import MemorySource
from perftui.telemetry.network.infiniband import InfinibandSource
from perftui.telemetry.network.interfaces import NetworkSource
from perftui.telemetry.pressure import PressureSource
from perftui.telemetry.processes.contention import ContentionSource
from perftui.telemetry.processes.pss import PssSource
from perftui.telemetry.processes.roles import Roles
from perftui.telemetry.processes.threads import ThreadSource
from perftui.telemetry.processes.usage import ProcessTreeSource
from perftui.telemetry.source import Source


@dataclass(frozen=True)
class Machine:
    """The sources of this machine, the cards found, and why there are none where so."""

    sources: tuple[Source, ...]
    contention: ContentionSource
    """One of them."""
    gpus: tuple[str, ...] = ()
    no_gpu: str | None = None


def look_around(
    pid: int,
    nvml: ModuleType | None = None,
    roles: Callable[[], Roles] = Roles,
    others: Callable[[], Sequence[int]] = list,
) -> Machine:
    """Find what can be sampled of this machine and of the training process ``pid``.

    ``roles`` returns which of the processes below it train, and which load data; ``others`` which
    processes beside it are of the same run.
    """
    processes = ProcessTreeSource(pid, roles, others)
    contention = ContentionSource(roles, processes.pids)
    place = DataPlace(pid, roles)
    sources: list[Source] = [
        CpuSource(),
        FrequencySource(),
        QuotaSource(pid, roles),
        MemorySource(),
        SharedMemorySource(),
        PressureSource(),
        processes,
        ThreadSource(roles),
        PssSource(pid, processes.pids),
        contention,
        DiskSource(),
        DataDiskSource(place),
        NfsSource(place),
        NetworkSource(),
        InfinibandSource(),
    ]
    try:
        library = open_nvml(nvml)
    except NoGpuError as reason:
        return Machine(tuple(sources), contention, no_gpu=str(reason))
    sources += [GpuSource(library), GpuMemorySource(library, processes.pids), PcieSource(library)]
    return Machine(tuple(sources), contention, card_names(library))
