"""Everything that can be sampled on this machine, for one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from perftui.telemetry.source import PartialSource, Source


@dataclass(frozen=True)
class Machine:
    """The sources of this machine, the cards found, and why there are none where so."""

    sources: tuple[Source, ...]
    contention: ContentionSource
    """One of them."""
    data_disk: DataDiskSource
    """One of them."""
    gpus: tuple[str, ...] = ()
    no_gpu: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a metric, or a group of them, is not sampled here."""


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
    data_disk = DataDiskSource(place)
    host: list[PartialSource] = [
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
        data_disk,
        NfsSource(place),
        NetworkSource(),
        InfinibandSource(),
    ]
    missing = {name: why for source in host for name, why in source.missing.items()}
    sources: list[Source] = [*host]
    try:
        library = open_nvml(nvml)
    except NoGpuError as reason:
        return Machine(tuple(sources), contention, data_disk, no_gpu=str(reason), missing=missing)
    sources += [GpuSource(library), GpuMemorySource(library, processes.pids), PcieSource(library)]
    return Machine(tuple(sources), contention, data_disk, card_names(library), missing=missing)
