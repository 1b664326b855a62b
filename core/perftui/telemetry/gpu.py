"""NVIDIA cards by NVML: their fields, PCIe traffic, and the memory that the run holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from perftui.run.journal import Column


class NoGpuError(Exception):
    """There is no GPU to ask; the message is for the user."""


def open_nvml(library: ModuleType | None = None) -> Any:
    """The initialised ``pynvml`` module (or ``library`` in its place).

    Raises:
        NoGpuError: no driver, no library, or no card.
    """
    try:
        nvml: Any = library or import_module("pynvml")
    except ImportError as error:
        raise NoGpuError(f"the NVML bindings cannot be imported ({error})") from error
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise NoGpuError(f"NVML says: {error}") from error
    if not count:
        raise NoGpuError("NVML finds no GPU")
    return nvml


def answer(nvml: Any, ask: Any, *arguments: Any) -> Any:
    """What one NVML call returns, None where the card does not answer it (now, or at all)."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return None
    except AttributeError:
        # An older binding or driver library lacks the function.
        return None


@dataclass(frozen=True)
class Field:
    """One value of a card, by the NVML function ``nvmlDeviceGet<function>``."""

    name: str
    unit: str
    label: str
    function: str
    attribute: str = ""
    """Attribute of what the function returns; empty where that is the value itself."""
    constant: str = ""
    """Constant of NVML that the function takes besides the card; empty for none."""
    divisor: float = 1
    """What makes ``unit`` of NVML's own."""
    note: str = ""
    older: str = ""
    """Name of the function in older bindings."""

    def column(self, device: int) -> Column:
        """The column of this field for the card number ``device``."""
        source = f"nvmlDeviceGet{self.function}"
        source = f"{self.note}; {source}" if self.note else source
        return Column(f"gpu{device}.{self.name}", self.unit, self.label, source)

    def read(self, nvml: Any, card: Any) -> float:
        """The value of ``card``; what ``nvml`` raises where it has none is raised."""
        name = f"nvmlDeviceGet{self.function}"
        if self.older and not hasattr(nvml, name):
            name = f"nvmlDeviceGet{self.older}"
        constants = [getattr(nvml, self.constant)] if self.constant else []
        value: Any = getattr(nvml, name)(card, *constants)
        value = getattr(value, self.attribute) if self.attribute else value
        scaled: float = value if self.divisor == 1 else value / self.divisor
        return scaled


_BUSY = "share of time with a kernel running, however small"
_MEMORY_BUSY = "share of time its memory was read or written"

FIELDS = (
    Field("utilization", "%", "GPU busy", "UtilizationRates", "gpu", note=_BUSY),
    Field(
        "memory_utilization",
        "%",
        "GPU memory busy",
        "UtilizationRates",
        "memory",
        note=_MEMORY_BUSY,
    ),
    Field("memory_used", "B", "GPU memory used", "MemoryInfo", "used", note="by all processes"),
    Field("memory_total", "B", "GPU memory", "MemoryInfo", "total"),
    Field("power", "W", "power", "PowerUsage", divisor=1e3),
    Field("power_limit", "W", "power limit", "EnforcedPowerLimit", divisor=1e3),
    Field(
        *("energy", "J", "energy", "TotalEnergyConsumption"),
        divisor=1e3,
        note="since the driver was loaded",
    ),
    Field("temperature", "C", "temperature", "Temperature", constant="NVML_TEMPERATURE_GPU"),
    Field("clock_sm", "MHz", "SM clock", "ClockInfo", constant="NVML_CLOCK_SM"),
    Field("clock_sm_max", "MHz", "highest SM clock", "MaxClockInfo", constant="NVML_CLOCK_SM"),
    Field("clock_memory", "MHz", "memory clock", "ClockInfo", constant="NVML_CLOCK_MEM"),
    Field(
        *("throttle_reasons", "", "clock limits in force", "CurrentClocksEventReasons"),
        note="bits of nvmlClocksEventReasons",
        # Renamed in NVML 12.2.
        older="CurrentClocksThrottleReasons",
    ),
    Field(
        *("pcie_generation", "", "PCIe generation", "CurrPcieLinkGeneration"),
        note="of the link now, lower while idle",
    ),
    Field("pcie_width", "", "PCIe lanes", "CurrPcieLinkWidth", note="of the link now"),
    Field("pcie_generation_max", "", "highest PCIe generation", "MaxPcieLinkGeneration"),
    Field("pcie_width_max", "", "most PCIe lanes", "MaxPcieLinkWidth"),
)

TRAFFIC = tuple(
    Field(
        *(f"pcie_{way}", "B/s", f"PCIe {label} the GPU", "PcieThroughput"),
        constant=f"NVML_PCIE_UTIL_{counter}_BYTES",
        # NVML counts KiB.
        divisor=1 / 1024,
        note="over 20 ms, every 2 s",
    )
    for way, label, counter in (("receive", "to", "RX"), ("transmit", "from", "TX"))
)

TRAFFIC_SECONDS = 2.0
"""Between two readings: two directions of 20 ms each are 2 % of a thread's time."""


class GpuSource:
    """All cards of the machine; a field that a card does not answer at the start is left out."""

    def __init__(self, nvml: Any, fields: Sequence[Field] = FIELDS) -> None:
        self._nvml = nvml
        self._fields: list[tuple[Any, Field]] = []
        columns = []
        for device, card in enumerate(cards(nvml)):
            for field in fields:
                if answer(nvml, field.read, nvml, card) is not None:
                    self._fields.append((card, field))
                    columns.append(field.column(device))
        self.columns = tuple(columns)

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """One value for each column, None where the card does not answer just now."""
        return [answer(self._nvml, field.read, self._nvml, card) for card, field in self._fields]


class PcieSource:
    """``TRAFFIC`` of each card, read beside the others, as NVML takes 20 ms to measure each."""

    def __init__(self, nvml: Any) -> None:
        self._cards = GpuSource(nvml, TRAFFIC)
        self.columns = self._cards.columns
        self._latest: list[float | None] = [None] * len(self.columns)
        self._reading: threading.Thread | None = None
        self._due = 0.0

    def sample(self, now: float) -> list[float | None]:
        """The latest reading, None before the first; it begins another where that is due."""
        latest = self._latest
        if now >= self._due and not (self._reading and self._reading.is_alive()):
            self._due = now + TRAFFIC_SECONDS
            # One that a lost card keeps waiting ends with the process.
            self._reading = threading.Thread(target=self._read, name="pcie", daemon=True)
            self._reading.start()
        return latest

    def _read(self) -> None:
        self._latest = self._cards.sample(self._due)


class GpuMemorySource:
    """Memory of each card held by the processes that ``pids`` names.

    None while none of them is on the card's list: also in a container whose NVML names processes
    by the host's numbers, where nobody can know which are ours.
    """

    def __init__(self, nvml: Any, pids: Callable[[], frozenset[int]]) -> None:
        self._nvml = nvml
        self._pids = pids
        numbered = [one for one in enumerate(cards(nvml)) if self._running(one[1]) is not None]
        self._cards = [card for _, card in numbered]
        source = "held by its processes; nvmlDeviceGetComputeRunningProcesses"
        self.columns = tuple(
            Column(f"gpu{device}.process_memory", "B", "GPU memory of this run", source)
            for device, _ in numbered
        )

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - a level needs no clock
        """Bytes, one value for each card that lists its processes."""
        mine = self._pids()
        return [self._held(card, mine) for card in self._cards]

    def _held(self, card: Any, mine: frozenset[int]) -> float | None:
        running = self._running(card) or []
        held = [p.usedGpuMemory for p in running if p.pid in mine and p.usedGpuMemory is not None]
        return float(sum(held)) if held else None

    def _running(self, card: Any) -> Any:
        return answer(self._nvml, self._nvml.nvmlDeviceGetComputeRunningProcesses, card)


def cards(nvml: Any) -> list[Any]:
    """Handles of all cards, in NVML's order."""
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def card_names(nvml: Any) -> tuple[str, ...]:
    """What the cards are called, in NVML's order."""
    names = (answer(nvml, nvml.nvmlDeviceGetName, card) for card in cards(nvml))
    return tuple(n.decode() if isinstance(n, bytes) else str(n or "GPU") for n in names)
