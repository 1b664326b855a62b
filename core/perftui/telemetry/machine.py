"""Everything that can be sampled on this machine, for one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from perftui.telemetry.contention import ContentionSource
from perftui.telemetry.cpu import CpuSource
from perftui.telemetry.disk_and_network import DiskSource, NetworkSource
from perftui.telemetry.gpu.find import find_gpus
from perftui.telemetry.gpu.names import Gpu
from perftui.telemetry.memory import MemorySource
from perftui.telemetry.pressure import PressureSource
from perftui.telemetry.processes import ProcessTreeSource, Roles
from perftui.telemetry.source import Source


@dataclass(frozen=True)
class Machine:
    """The sources of this machine, the cards found, and why there are none where so."""

    sources: tuple[Source, ...]
    contention: ContentionSource
    """One of them."""
    gpus: tuple[str, ...] = ()
    no_gpu: str | None = None
    gpu_devices: tuple[Gpu, ...] = ()
    """Those of ``gpus`` that answer and their MIG devices, with what tells them apart."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a metric, or all of a device, is not sampled, by its name."""


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
    sources: list[Source] = [
        CpuSource(),
        MemorySource(),
        PressureSource(),
        processes,
        contention,
        DiskSource(),
        NetworkSource(),
    ]
    found = find_gpus(processes.pids, nvml)
    return Machine(
        (*sources, *found.sources),
        contention,
        found.names,
        found.no_gpu,
        found.gpus,
        missing=found.missing,
    )
