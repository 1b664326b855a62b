"""NVIDIA cards by NVML: every field that a card answers, one table row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.nvml import answer


@dataclass(frozen=True)
class Field:
    """One value of a card, by the NVML function ``nvmlDeviceGet<function>``."""

    name: str
    unit: str
    label: str
    function: str
    attribute: str = ""
    """Of what the function returns; empty where that is the value."""
    constant: str = ""
    """Of NVML, given to the function besides the card."""
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
)


class GpuSource:
    """All cards of the machine; a field that a card does not answer at the start is left out."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._fields: list[tuple[Any, Field]] = []
        columns = []
        for device, card in enumerate(cards(nvml)):
            for field in FIELDS:
                if answer(nvml, field.read, nvml, card) is not None:
                    self._fields.append((card, field))
                    columns.append(field.column(device))
        self.columns = tuple(columns)

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """One value for each column, None where the card does not answer just now."""
        return [answer(self._nvml, field.read, self._nvml, card) for card, field in self._fields]


def cards(nvml: Any) -> list[Any]:
    """Handles of all cards, in NVML's order."""
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def card_names(nvml: Any) -> tuple[str, ...]:
    """What the cards are called, in NVML's order."""
    names = (answer(nvml, nvml.nvmlDeviceGetName, card) for card in cards(nvml))
    return tuple(n.decode() if isinstance(n, bytes) else str(n or "GPU") for n in names)
