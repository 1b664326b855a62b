"""The card that a trace was recorded on; which of the sampled GPUs a rank uses, who else does, and
what they can do at most."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from perftui.analysis.kernels.limits import Card, card_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, noted_of_host, trace_fact
from perftui.facts.settings import Devices, Settings, settings
from perftui.format import middle
from perftui.probe.ceilings import Ceiling, Ceilings, ceilings, ceilings_of
from perftui.run.manifest import GPU_DEVICES, GPU_PROCESSES, NOT_SAMPLED, data_place
from perftui.telemetry.files import mount_of
from perftui.telemetry.gpu.names import Gpu, visible_gpus
from perftui.trace.text import printable

_AMD_WARP = 64


@dataclass(frozen=True)
class TraceCard:
    """The busiest device of a trace."""

    name: str
    """The card's name; empty where the file has none."""
    major: int
    """First number of the compute capability; 0 for AMD's, and where the file has none."""
    multiprocessors: int
    """Number of multiprocessors; 0 where the file has none."""
    listed: Card | None
    """The card's peak rates by its data sheet; None where its name is not listed."""
    measured: Card | None = None
    """What ``perftui probe`` measured on a card of that name; None where it did not."""

    @property
    def peaks(self) -> Card | None:
        """The peak rates that are listed, else those that were measured; None without both."""
        return self.listed or self.measured

    @property
    def is_measured(self) -> bool:
        """Whether ``peaks`` were measured."""
        return self.listed is None and self.measured is not None


@trace_fact
def trace_card(analysis: TraceAnalysis) -> TraceCard:
    """The card by the file, the list of cards, and what was measured here."""
    busiest = max(analysis.activity, key=lambda each: each.busy, default=None)
    listed = analysis.trace.metadata.get("deviceProperties")
    listed = listed if isinstance(listed, list) else []
    all_known = [each for each in listed if isinstance(each, dict)]
    number = busiest.device if busiest else None
    # Numbers of devices and of their properties differ in traces of one process among several.
    first = next(iter(all_known), {})
    known = next((each for each in all_known if each.get("id") == number), first)
    name = known.get("name")
    name = name if isinstance(name, str) else ""
    is_amd = known.get("warpSize") == _AMD_WARP
    return TraceCard(
        name,
        0 if is_amd else _whole(known.get("computeMajor")),
        _whole(known.get("numSms")),
        card_of(name),
        _measured(name),
    )


def _measured(name: str) -> Card | None:
    """Its rates by ``perftui probe``, where that has measured arithmetic and memory."""
    found = ceilings(name) if name else None
    if found is None:
        return None

    def tera(*names: Ceiling) -> float:
        rates = (found.rate(one) for one in names)
        return next((rate.value / 1e12 for rate in rates if rate is not None), 0.0)

    float32, memory = tera(Ceiling.FLOAT32), tera(Ceiling.MEMORY)
    if not float32 or not memory:
        return None
    half = tera(Ceiling.BFLOAT16, Ceiling.FLOAT16)
    return Card(float32, tera(Ceiling.TF32), half, memory * 1e3)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


@fact
def own_gpus(facts: Facts) -> tuple[str, ...]:
    """What the columns of the rank's GPUs begin with, such as ``gpu2`` or ``gpu0.mig1``. Unknown if
    it is not known which of the GPUs it uses."""
    known = settings(facts)
    if known is None or known.devices is None:
        raise UnknownError("the training has not reported which GPUs it sees")
    seen = visible_gpus(sampled_gpus(facts), known.devices.uuids, known.environment or {})
    used = sorted(set(_numbers(known, known.devices)))
    if seen is None or not used or used[-1] >= len(seen):
        raise UnknownError("which GPUs the training uses is not known")
    found = [gpu for gpu in (seen[number] for number in used) if gpu is not None]
    if len(found) < len(used):
        raise UnknownError("which GPUs the training uses is not known")
    return tuple(gpu.prefix for gpu in found)


def _numbers(known: Settings, devices: Devices) -> Iterator[int]:
    """Numbers of the devices that hold parameters or take part in ``DataParallel``; of the current
    one where none holds any."""
    held = [one.device for one in known.parameters or () if one.device.startswith("cuda")]
    several = [one.arguments.get("device_ids") for one in known.wrappers or ()]
    # An attribute that is no plain value is noted as text: "[0, 1]".
    split = [number for text in several for number in re.findall(r"\d+", str(text or ""))]
    numbered = [device.partition(":")[2] for device in held]
    yield from (int(number) for number in (*numbered, *split) if number)
    if devices.current is not None and (not held or "" in numbered):
        yield devices.current


def sampled_gpus(facts: Facts) -> list[Gpu]:
    """The GPUs that were found on the rank's host; none where the run does not list them."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(noted_of_host(facts, GPU_DEVICES) or [], list[Gpu])
    return []


@fact
def not_sampled(facts: Facts) -> dict[str, str]:
    """Why a metric of the rank's host is not sampled, by its name, or that of a device."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(noted_of_host(facts, NOT_SAMPLED) or {}, dict[str, str])
    return {}


_CELLS = 28


@dataclass(frozen=True)
class GpuProcess:
    """One process; its texts are safe to show."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU; None where the driver does not say."""
    program: str = ""
    """With the script that it runs; empty where it had ended, or may not be looked at."""
    user: str = ""

    @property
    def label(self) -> str:
        """``pid 4123 python serve.py (ada)``."""
        user = f"({self.user})" if self.user else ""
        return " ".join(filter(None, (f"pid {self.pid}", self.program, user)))


@fact
def gpu_processes(facts: Facts) -> Mapping[str, tuple[GpuProcess, ...]]:
    """By what the columns of each GPU of the rank's host begin with, the largest first; empty where
    none was seen, as in a container with numbers of its own."""
    host = noted_of_host(facts, GPU_PROCESSES) if facts.rank else None
    if not isinstance(host, dict):
        return {}
    lists = {prefix: found for prefix, found in host.items() if isinstance(found, list)}
    return {prefix: tuple(_processes(found)) for prefix, found in lists.items()}


def _processes(found: Iterable[Any]) -> Iterable[GpuProcess]:
    for one in found:
        # Another version may write more, or less.
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            memory = one.get("memory")
            yield GpuProcess(
                int(one["pid"]),
                None if memory is None else int(memory),
                middle(printable(one.get("program") or ""), _CELLS),
                printable(one.get("user") or ""),
            )


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
    other programs took the machine is left out, as it can do more. Unknown if nothing was measured
    there, or what is sampled is of another machine."""
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
