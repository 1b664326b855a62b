"""Everything that can be sampled on this machine, for one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from perftui.telemetry.disk.data_disk import DataDiskSource
from perftui.telemetry.gpu.find import find_gpus
from perftui.telemetry.gpu.names import Gpu
from perftui.telemetry.gpu.processes import ProcessSource
from perftui.telemetry.host_sources import OfRun, make_host_sources
from perftui.telemetry.processes.contention import ContentionSource
from perftui.telemetry.processes.roles import Roles
from perftui.telemetry.source import Source


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
    gpu_devices: tuple[Gpu, ...] = ()
    """Those of ``gpus`` that answer and their MIG devices, with what distinguishes them."""
    gpu_processes: tuple[ProcessSource, ...] = ()
    """What knows who holds the memory of each."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a metric, a group of them or all of a device is not sampled, by its name."""


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
    run = OfRun(pid, roles, others)
    host = make_host_sources(run)
    missing = {name: why for source in host for name, why in source.missing.items()}
    found = find_gpus(run.processes.pids, nvml)
    return Machine(
        (*host, *found.sources),
        run.contention,
        run.data_disk,
        found.names,
        found.no_gpu,
        found.gpus,
        found.processes,
        missing={**missing, **found.missing},
    )
