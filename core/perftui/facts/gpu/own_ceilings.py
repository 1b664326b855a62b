"""What the machine of a run can do at most, where ``perftui probe`` measured it there."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perftui.analysis.kernels.limits import card_of
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.gpu.own_gpus import sampled_gpus
from perftui.probe.ceilings import Ceiling, Ceilings, ceilings_of
from perftui.run.manifest import data_place
from perftui.telemetry.files import mount_of


@dataclass(frozen=True)
class OwnCeilings:
    """Bytes per second, measured on the host of the run, on its own disk and cards."""

    data_disk: float | None = None
    """Read from the file system that holds the data set; None where that was not measured."""
    to_device: Mapping[str, float] = field(default_factory=dict)
    """Copied from pinned memory to the GPU, by what the GPU's columns begin with."""
    device_memory: Mapping[str, float] = field(default_factory=dict)
    """Read and written together in the memory of the GPU, as a share of 0 to 1 of what its data
    sheet says; by what its columns begin with."""


@fact
def own_ceilings(facts: Facts) -> OwnCeilings:
    """The ceilings of the run's host and of cards of the same name there; what was measured while
    other programs took the machine is left out, as it can do more.

    Raises:
        UnknownError: nothing was measured there, or what is sampled is of another machine.
    """
    if facts.manifest is None or facts.run is None:
        raise UnknownError("a trace does not name its machine")
    host = facts.manifest.host
    if host not in facts.run.telemetry or (facts.rank and facts.rank.host not in ("", host)):
        raise UnknownError("the rank ran on another machine than the run was started on")
    found = [one for one in ceilings_of(host) if not one.is_disturbed]
    if not found:
        raise UnknownError("perftui probe did not run on the machine of this run")
    to_device, memory = {}, {}
    for gpu in sampled_gpus(facts):
        card = next((one for one in found if one.gpu is not None and one.gpu == gpu.name), None)
        copied = card.rate(Ceiling.TO_DEVICE_PINNED) if card else None
        moved, listed = card.rate(Ceiling.MEMORY) if card else None, card_of(gpu.name)
        if copied is not None:
            to_device[gpu.prefix] = copied.value
        if moved is not None and listed is not None:
            memory[gpu.prefix] = moved.value / (listed.bandwidth * 1e9)
    return OwnCeilings(_data_disk(facts, host, found), to_device, memory)


def _data_disk(facts: Facts, host: str, found: list[Ceilings]) -> float | None:
    """Only where the path that was read is known to lie on the file system of the data: on this
    host, as the mounts of another cannot be looked at."""
    place = data_place(facts.manifest) if facts.manifest else None
    if host != socket.gethostname() or place is None:
        return None
    for one in found:
        rate = one.rate(Ceiling.DISK_READ)
        mount = mount_of(Path(one.path)) if rate is not None and one.path else None
        if rate is not None and mount is not None and mount.point == place:
            return rate.value
    return None
