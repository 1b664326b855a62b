"""The card of a trace; which of the sampled GPUs a rank uses, who else uses them, their measured
ceilings; and its memory by step, as counted by PyTorch's allocator."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from perftui.analysis.kernels.limits import Card, card_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, finite, noted_of_host, samples, trace_fact
from perftui.facts.settings import Devices, Settings, settings
from perftui.format import middle
from perftui.probe.ceilings import Ceiling, Ceilings, ceilings, ceilings_of
from perftui.run.manifest import GPU_DEVICES, GPU_PROCESSES, NOT_SAMPLED, data_place
from perftui.run.table import Table
from perftui.telemetry.files import mount_of
from perftui.telemetry.gpu.names import Gpu, visible_gpus
from perftui.trace.model import Int64
from perftui.trace.text import printable


@dataclass(frozen=True)
class TraceCard:
    """The busiest device of a trace."""

    name: str
    """The card's name; empty if not in the file."""
    major: int
    """Major compute capability; 0 for AMD's, and if not in the file."""
    multiprocessors: int
    """Number of multiprocessors; 0 if not in the file."""
    listed: Card | None
    """The card's peak rates by its data sheet; None if its name is not listed."""
    measured: Card | None = None
    """Rates ``perftui probe`` measured on a card of that name; None if it did not."""

    @property
    def peaks(self) -> Card | None:
        """The listed peak rates, else the measured ones; None without both."""
        return self.listed or self.measured

    @property
    def is_measured(self) -> bool:
        """Whether ``peaks`` were measured."""
        return self.listed is None and self.measured is not None


@trace_fact
def trace_card(analysis: TraceAnalysis) -> TraceCard:
    """The card, from the file, the list of cards, and local measurements."""
    busiest = max(analysis.activity, key=lambda use: use.busy, default=None)
    listed = analysis.trace.metadata.get("deviceProperties")
    listed = listed if isinstance(listed, list) else []
    properties = [item for item in listed if isinstance(item, dict)]
    number = busiest.device if busiest else None
    # Device and property numbers differ in traces of one process among several.
    first = next(iter(properties), {})
    card = next((item for item in properties if item.get("id") == number), first)
    name = card.get("name")
    name = name if isinstance(name, str) else ""
    is_amd = card.get("warpSize") == 64
    return TraceCard(
        name,
        0 if is_amd else _whole(card.get("computeMajor")),
        _whole(card.get("numSms")),
        card_of(name),
        _measured(name),
    )


def _measured(name: str) -> Card | None:
    """Rates by ``perftui probe``, if it measured arithmetic and memory of that card."""
    measured = ceilings(name) if name else None
    if measured is None:
        return None

    def tera(*names: Ceiling) -> float:
        rates = (measured.rate(name) for name in names)
        return next((rate.value / 1e12 for rate in rates if rate is not None), 0.0)

    float32, memory = tera(Ceiling.FLOAT32), tera(Ceiling.MEMORY)
    if not float32 or not memory:
        return None
    return Card(float32, tera(Ceiling.TF32), tera(Ceiling.BFLOAT16, Ceiling.FLOAT16), memory * 1e3)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


@fact
def own_gpus(facts: Facts) -> tuple[str, ...]:
    """Column prefixes of the rank's GPUs, such as ``gpu2`` or ``gpu0.mig1``. Unknown if it is
    unclear which GPUs it uses."""
    setup = settings(facts)
    if setup.devices is None:
        raise UnknownError("the training has not reported which GPUs it sees")
    seen = visible_gpus(sampled_gpus(facts), setup.devices.uuids, setup.environment or {})
    used = sorted(set(_numbers(setup, setup.devices)))
    if seen is None or not used or used[-1] >= len(seen):
        raise UnknownError("which GPUs the training uses is not known")
    gpus = [gpu for gpu in (seen[number] for number in used) if gpu is not None]
    if len(gpus) < len(used):
        raise UnknownError("which GPUs the training uses is not known")
    return tuple(gpu.prefix for gpu in gpus)


def _numbers(setup: Settings, devices: Devices) -> Iterator[int]:
    """Numbers of the devices that hold parameters or take part in ``DataParallel``; of the current
    one if none holds any."""
    used = [group.device for group in setup.parameters or () if group.device.startswith("cuda")]
    several = [wrapper.arguments.get("device_ids") for wrapper in setup.wrappers or ()]
    # An attribute that is no plain value is noted as text: "[0, 1]".
    split = [number for text in several for number in re.findall(r"\d+", str(text or ""))]
    numbered = [device.partition(":")[2] for device in used]
    yield from (int(number) for number in (*numbered, *split) if number)
    if devices.current is not None and (not used or "" in numbered):
        yield devices.current


def sampled_gpus(facts: Facts) -> list[Gpu]:
    """The GPUs of the rank's host; empty if the run does not list them."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(noted_of_host(facts, GPU_DEVICES) or [], list[Gpu])
    return []


@fact
def not_sampled(facts: Facts) -> dict[str, str]:
    """Why a metric of the rank's host, or all of a device, is not sampled, by name."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(noted_of_host(facts, NOT_SAMPLED) or {}, dict[str, str])
    return {}


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU; its texts are safe to show."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU; None if the driver does not report it."""
    program: str = ""
    """Program with its script; empty if the process had ended, or may not be inspected."""
    user: str = ""

    @property
    def label(self) -> str:
        """``pid 4123 python serve.py (ada)``."""
        user = f"({self.user})" if self.user else ""
        return " ".join(filter(None, (f"pid {self.pid}", self.program, user)))


@fact
def gpu_processes(facts: Facts) -> Mapping[str, tuple[GpuProcess, ...]]:
    """Processes on each GPU of the rank's host, by column prefix, the largest first; empty if none
    was seen, as in a container with its own pid namespace."""
    host = noted_of_host(facts, GPU_PROCESSES) if facts.rank else None
    if not isinstance(host, dict):
        return {}
    lists = {prefix: noted for prefix, noted in host.items() if isinstance(noted, list)}
    return {prefix: tuple(_processes(noted)) for prefix, noted in lists.items()}


def _processes(noted: Iterable[Any]) -> Iterable[GpuProcess]:
    for process in noted:
        # Another version may write more, or less.
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            memory = process.get("memory")
            yield GpuProcess(
                int(process["pid"]),
                None if memory is None else int(memory),
                middle(printable(process.get("program") or ""), 28),
                printable(process.get("user") or ""),
            )


@dataclass(frozen=True)
class OwnCeilings:
    """Bytes per second measured on the host of the run, on its own disk and cards."""

    data_disk: float | None = None
    """Read from the file system of the data set; None if not measured."""
    to_device: Mapping[str, float] = field(default_factory=dict)
    """Copied from pinned memory to the GPU, by the GPU's column prefix."""
    device_memory: Mapping[str, float] = field(default_factory=dict)
    """Memory bandwidth of the GPU (read and written together) as a share of its data sheet's, 0 to
    1, by column prefix."""


@fact
def own_ceilings(facts: Facts) -> OwnCeilings:
    """Ceilings of the run's host and of cards of the same name there, except those measured while
    other programs used the machine, which can do more. Unknown if nothing was measured there, or
    samples are of another machine."""
    if facts.manifest is None or facts.run is None:
        raise UnknownError("a trace does not name its machine")
    host = facts.manifest.host
    if host not in facts.run.telemetry or (facts.rank and facts.rank.host not in ("", host)):
        raise UnknownError("the rank ran on another machine than the run was started on")
    quiet = [ceiling for ceiling in ceilings_of(host) if not ceiling.is_disturbed]
    if not quiet:
        raise UnknownError("perftui probe did not run on the machine of this run")
    to_device, memory = {}, {}
    for gpu in sampled_gpus(facts):
        card = next((item for item in quiet if item.gpu is not None and item.gpu == gpu.name), None)
        copied = card.rate(Ceiling.TO_DEVICE_PINNED) if card else None
        moved, listed = card.rate(Ceiling.MEMORY) if card else None, card_of(gpu.name)
        if copied is not None:
            to_device[gpu.prefix] = copied.value
        if moved is not None and listed is not None:
            memory[gpu.prefix] = moved.value / (listed.bandwidth * 1e9)
    return OwnCeilings(_data_disk(facts, host, quiet), to_device, memory)


def _data_disk(facts: Facts, host: str, measured: list[Ceilings]) -> float | None:
    """Only if the measured path is known to be on the data's file system: on this host, as the
    mounts of another cannot be inspected."""
    place = data_place(facts.manifest) if facts.manifest else None
    if host != socket.gethostname() or place is None:
        return None
    for ceiling in measured:
        rate = ceiling.rate(Ceiling.DISK_READ)
        mount = mount_of(Path(ceiling.path)) if rate is not None and ceiling.path else None
        if rate is not None and mount is not None and mount.point == place:
            return rate.value
    return None


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """Memory in bytes. Columns have an entry for each step kept with known memory."""

    step: Int64
    """Step numbers."""
    allocated: Int64
    """Bytes of tensors at the end of the step."""
    reserved: Int64
    """Bytes reserved by PyTorch at the end of the step."""
    most: Int64
    """Peak of tensors' bytes up to the end of the step, as far as rows are kept."""
    peak_allocated: int
    """Peak of tensors' bytes so far, including within steps."""
    peak_step: int
    """The first step by whose end that peak was reached; -1 if its row is no longer kept."""
    peak_reserved: int
    """Peak of bytes reserved at the end of a step."""
    retries: int | None
    """Allocations retried after caches were emptied; None if not counted."""
    failures: int | None
    """Allocations that failed; None if not counted."""
    summed: int = 0
    """Steps between the first and the newest that are only kept as sums."""
    knows_peak: bool = True
    """Whether ``peak_allocated`` covers the time within steps, not only their ends."""


@fact
def gpu_memory(facts: Facts) -> MemoryUse | None:
    """GPU memory of the rank by step; None if no step has any, as without a GPU."""
    steps, sums = facts.steps, facts.steps.sums.of()
    if not len(steps) or "allocated" not in steps:
        return None
    valid = steps.where((steps["allocated"] >= 0) & (steps["reserved"] >= 0))
    if not len(valid):
        return None
    peaks = _column(valid, "peak_allocated")
    # Memory at a step's end was also in use within the step.
    peak = max(int(peaks.max()), int(valid["allocated"].max()))
    before = max(int(sums.of("peak_allocated").highest), int(sums.of("allocated").highest))
    most = np.maximum.accumulate(np.maximum(peaks, valid["allocated"]))
    reached = np.flatnonzero(most >= max(peak, before))
    peak_step = -1
    if len(reached):
        # The highest value so far stays in all later rows: it may be from a summed step.
        row = int(reached[0])
        starts = valid["start"][max(row - 1, 0) : row + 1].tolist()
        is_first_after = bool(sums.last) and starts[-1] >= sums.last > min(starts[:-1], default=0)
        peak_step = -1 if is_first_after else int(valid["index"][row])
    return MemoryUse(
        step=valid["index"],
        allocated=valid["allocated"],
        reserved=valid["reserved"],
        most=most,
        peak_allocated=max(peak, before),
        peak_step=peak_step,
        peak_reserved=max(int(valid["reserved"].max()), int(sums.of("reserved").highest)),
        retries=_counted(facts, "alloc_retries"),
        failures=_counted(facts, "alloc_failures"),
        summed=sums.rows,
        knows_peak=bool((peaks >= 0).any()) or sums.of("peak_allocated").count > 0,
    )


def _column(steps: Table, name: str) -> Int64:
    return np.asarray(steps[name], np.int64) if name in steps else np.full(len(steps), -1, np.int64)


def _counted(facts: Facts, name: str) -> int | None:
    """The sum of a column over the steps that have it; None if none does."""
    values = _column(facts.steps, name)
    valid, sums = values[values >= 0], facts.steps.sums.of().of(name)
    return int(valid.sum()) + int(sums.total) if len(valid) or sums.count else None


@fact
def peak_reserved(facts: Facts) -> int | None:
    """Peak GPU memory reserved by PyTorch at the end of a step, bytes; None if not recorded."""
    if "reserved" not in facts.steps or not len(facts.steps):
        return None
    sums = facts.steps.sums.of().of("reserved")
    peak = max(int(facts.steps["reserved"].max()), int(sums.highest))
    return peak if peak >= 0 else None


class PeakMemory(NamedTuple):
    """Most memory that a run had."""

    size: int
    """Bytes."""
    is_gpu: bool


@fact
def peak_memory(facts: Facts) -> PeakMemory:
    """Peak of torch's allocator; without a GPU the resident memory of the training and its workers,
    which counts shared pages in each process. Unknown if neither was recorded."""
    run, rank = facts.run, facts.rank
    if run is not None and rank is not None:
        for table, column in ((facts.steps, "peak_allocated"), (samples(facts), "processes.rss")):
            if peak := int(finite(table, column).max(initial=0)):
                return PeakMemory(peak, table is facts.steps)
    raise UnknownError("no memory was recorded")
