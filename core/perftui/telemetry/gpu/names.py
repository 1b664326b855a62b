"""GPU metrics of any vendor, and names of GPUs: in columns, for people, and by the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perftui.run.journal import Column
from perftui.telemetry.source import cells

PREFIX = re.compile(r"(gpu(\d+)(?:\.mig(\d+))?)\.")
"""Start of the column names of a GPU: the prefix, the card's number and that of its MIG device."""


def gpu_prefixes(names: Iterable[str]) -> list[str]:
    """Prefixes of the columns of each GPU among ``names``, in the order of their numbers."""
    matches = (PREFIX.match(name) for name in names)
    numbers = {match[1]: (int(match[2]), int(match[3] or -1)) for match in matches if match}
    return sorted(numbers, key=numbers.__getitem__)


def gpu_name(prefix: str) -> str:
    """Name for people: ``GPU 0``, or ``GPU0 MIG1`` for a MIG device of it."""
    card, _, part = prefix.partition(".")
    number = card.removeprefix("gpu")
    return f"GPU{number} {part.upper()}" if part else f"GPU {number}"


@dataclass(frozen=True)
class Gpu:
    """An identified GPU, as the manifest of a run lists it."""

    prefix: str
    """Prefix of its columns: ``gpu0`` for a card, ``gpu0.mig1`` for a MIG device of it."""
    name: str
    uuid: str | None = None
    """By NVML, such as ``GPU-8a56...`` or ``MIG-f3c1...``; None if it has not answered."""


VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def visible_gpus(
    gpus: Sequence[Gpu], uuids: Sequence[str] | None, environment: Mapping[str, str]
) -> tuple[Gpu | None, ...] | None:
    """The GPUs that a training sees, in CUDA's order: number n is ``cuda:n``.

    ``gpus`` are those that are sampled; ``uuids`` those of the training's devices as torch reports
    them, None if it does not; ``environment`` has the training's variables. None stands for a GPU
    that cannot be identified, or for all of them.
    """
    if uuids is not None:
        return tuple(_by_uuid(gpus, uuid, environment) for uuid in uuids)
    if VISIBLE in environment:
        return _by_list(gpus, environment[VISIBLE], environment)
    cards = _in_order(gpus, environment)
    return tuple(cards) if cards is not None else None


def _by_uuid(gpus: Sequence[Gpu], uuid: str, environment: Mapping[str, str]) -> Gpu | None:
    matches = [gpu for gpu in gpus if gpu.uuid and _bare(gpu.uuid) == _bare(uuid)]
    if len(matches) != 1:
        return None
    (gpu,) = matches
    parts = _parts(gpus, gpu)
    if not parts:
        return gpu
    # CUDA reports the card's own UUID for a MIG device, and uses one MIG device at most.
    first = environment.get(VISIBLE, "").split(",")[0].strip()
    listed = [part for part in parts if first and (part.uuid or "").startswith(first)]
    chosen = listed or parts
    return chosen[0] if len(chosen) == 1 else None


def _by_list(
    gpus: Sequence[Gpu], text: str, environment: Mapping[str, str]
) -> tuple[Gpu | None, ...] | None:
    """By ``CUDA_VISIBLE_DEVICES``: entries after one that names no device are ignored."""
    visible: list[Gpu | None] = []
    cards = _in_order(gpus, environment)
    entries = [entry.strip() for entry in text.split(",")]
    for entry in entries:
        if entry.startswith(("GPU-", "MIG-")):
            matches = [gpu for gpu in gpus if (gpu.uuid or "").startswith(entry)]
            if len(matches) != 1:
                break
            visible.append(matches[0])
        elif not entry.isdecimal():
            break
        elif cards is None:
            visible.append(None)
        elif int(entry) < len(cards):
            visible.append(cards[int(entry)])
        else:
            break
    known = [gpu for gpu in visible if gpu is not None]
    # CUDA finds no device at all if one is named twice.
    return () if len(set(known)) < len(known) else tuple(visible)


def _in_order(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu] | None:
    """All cards as CUDA numbers them; None if unknown.

    NVML's order is that of the PCI bus, CUDA's only if requested: otherwise the fastest card comes
    first. Of cards in MIG mode CUDA uses a single MIG device.
    """
    cards = [gpu for gpu in gpus if "." not in gpu.prefix]
    if len(cards) < len(gpus):
        return None
    is_by_bus = environment.get(ORDER) == "PCI_BUS_ID"
    return cards if is_by_bus or len(cards) == 1 else None


def _parts(gpus: Sequence[Gpu], card: Gpu) -> list[Gpu]:
    """The MIG devices of ``card``."""
    return [gpu for gpu in gpus if gpu.prefix.startswith(f"{card.prefix}.")]


def _bare(uuid: str) -> str:
    """A UUID without NVML's prefix, which torch lacks."""
    text = uuid.lower()
    for kind in ("gpu-", "mig-"):
        text = text.removeprefix(kind)
    return text


@dataclass(frozen=True)
class Metric:
    """One metric of a GPU."""

    name: str
    unit: str
    label: str
    meaning: str

    def column(self, prefix: str, source: str, of: str = "") -> Column:
        """Its column for the GPU with ``prefix``; ``of`` ends the label."""
        label = f"{self.label}, {of}" if of else self.label
        return Column(f"{prefix}.{self.name}", self.unit, label, source, self.meaning)


_METRICS = cells("""
utilization | % | GPU busy | Share of time in which a kernel ran, however little of the GPU it used.
memory_utilization | % | GPU memory busy | Share of time in which GPU memory was read or written.
sm_activity | % | SMs active |
    Share of multiprocessors with at least one resident warp, averaged over time.
sm_occupancy | % | SM occupancy | Resident warps, as a share of what the multiprocessors can hold.
tensor_activity | % | tensor cores active |
    Share of time in which the tensor cores computed, averaged over multiprocessors.
dram_activity | % | memory bandwidth used | Memory bandwidth used, as a share of the GPU's peak.
memory_used | B | GPU memory used | GPU memory in use by all processes, and by the driver itself.
memory_total | B | GPU memory | Memory of the GPU.
process_memory | B | GPU memory of this run | GPU memory held by the run's own processes.
processes | count | processes on the GPU | Processes that hold GPU memory, including the run's own.
power | W | power | Power that the board draws.
power_limit | W | power limit | Power above which the driver lowers the clocks.
energy | J | energy | Energy that the board has used since the driver was loaded.
temperature | C | temperature | Temperature of the GPU chip.
memory_temperature | C | memory temperature | Temperature of the GPU's memory.
fan | % | fan | Requested fan speed, as a share of the maximum.
clock_sm | MHz | SM clock | Current clock of the multiprocessors.
clock_sm_max | MHz | highest SM clock | Highest clock of the multiprocessors.
clock_memory | MHz | memory clock | Current clock of the GPU's memory.
clock_memory_max | MHz | highest memory clock | Highest clock of the GPU's memory.
throttle_reasons | | clock limits in force | What limits the clocks now, one bit per reason.
ecc_corrected | count | memory errors corrected |
    Memory errors that ECC has corrected since the driver was loaded.
ecc_uncorrected | count | memory errors not corrected |
    Memory errors that ECC could not correct since the driver was loaded.
pcie_receive | B/s | PCIe to the GPU | Bytes a second that the GPU receives over PCIe.
pcie_transmit | B/s | PCIe from the GPU | Bytes a second that the GPU sends over PCIe.
nvlink_receive | B/s | NVLink to the GPU |
    Bytes a second that the GPU receives over all of its NVLinks.
nvlink_transmit | B/s | NVLink from the GPU |
    Bytes a second that the GPU sends over all of its NVLinks.
pcie_generation | | PCIe generation |
    Current PCIe generation of the link; it drops while the GPU idles.
pcie_width | | PCIe lanes | PCIe lanes in use now.
pcie_generation_max | | highest PCIe generation |
    Highest PCIe generation that the GPU and the slot support.
pcie_width_max | | most PCIe lanes | Most PCIe lanes that the GPU and the slot support.
""")

METRICS = {name: Metric(name, *rest) for name, *rest in _METRICS}
"""By name, in the order in which people look for them."""


THERMAL = "thermal"
POWER = "power"
IDLE = "idle"
SETTING = "setting"


@dataclass(frozen=True)
class ClockLimit:
    """One reason for a lower clock; ``nvml`` is its name in ``nvmlClocksEventReasons``."""

    bit: int
    words: str
    kind: str
    """``THERMAL``, ``POWER``, ``IDLE`` or ``SETTING``."""
    nvml: str


CLOCK_LIMITS = (
    ClockLimit(0x001, "idle", IDLE, "nvmlClocksEventReasonGpuIdle"),
    ClockLimit(
        *(0x002, "application clocks", SETTING, "nvmlClocksEventReasonApplicationsClocksSetting")
    ),
    ClockLimit(0x004, "power cap", POWER, "nvmlClocksEventReasonSwPowerCap"),
    # NVML names heat, power and the power brake as its causes.
    ClockLimit(0x008, "hardware slowdown", THERMAL, "nvmlClocksEventReasonHwSlowdown"),
    ClockLimit(0x010, "sync boost", SETTING, "nvmlClocksEventReasonSyncBoost"),
    ClockLimit(0x020, "thermal limit", THERMAL, "nvmlClocksEventReasonSwThermalSlowdown"),
    ClockLimit(0x040, "hardware thermal limit", THERMAL, "nvmlClocksEventReasonHwThermalSlowdown"),
    ClockLimit(0x080, "power brake", POWER, "nvmlClocksEventReasonHwPowerBrakeSlowdown"),
    ClockLimit(0x100, "display clocks", SETTING, "nvmlClocksEventReasonDisplayClockSetting"),
)
"""Every reason that NVML documents, lowest bit first."""


def bits_of(kind: str) -> int:
    """All bits of the reasons of one kind."""
    return sum(limit.bit for limit in CLOCK_LIMITS if limit.kind == kind)


def clock_limit_words(reasons: int) -> tuple[str, ...]:
    """The reasons in words, unknown bits as a number; empty for none."""
    words = [limit.words for limit in CLOCK_LIMITS if reasons & limit.bit]
    rest = reasons & ~sum(limit.bit for limit in CLOCK_LIMITS)
    return (*words, f"reason {rest:#x}") if rest else tuple(words)
