"""NVIDIA cards by NVML: every field that a card answers, one table row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.nvml import answer


@dataclass(frozen=True)
class Field:
    """One value of a card: ``read(nvml, handle)`` returns it in ``unit`` or raises NVMLError."""

    name: str
    unit: str
    label: str
    source: str
    read: Callable[[Any, Any], float]

    def column(self, device: int) -> Column:
        """The column of this field for the card number ``device``."""
        return Column(f"gpu{device}.{self.name}", self.unit, self.label, self.source)


def _throttle_reasons(nvml: Any, card: Any) -> float:
    """Renamed from "throttle" to "event" reasons in NVML 12.2; older bindings have one of them."""
    ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return float((ask or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(card))


FIELDS = (
    Field(
        "utilization",
        "%",
        "GPU busy",
        "share of time with a kernel running, however small; nvmlDeviceGetUtilizationRates",
        lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).gpu,
    ),
    Field(
        "memory_utilization",
        "%",
        "GPU memory busy",
        "share of time its memory was read or written; nvmlDeviceGetUtilizationRates",
        lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).memory,
    ),
    Field(
        "memory_used",
        "B",
        "GPU memory used",
        "by all processes; nvmlDeviceGetMemoryInfo",
        lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).used,
    ),
    Field(
        "memory_total",
        "B",
        "GPU memory",
        "nvmlDeviceGetMemoryInfo",
        lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).total,
    ),
    Field(
        "power",
        "W",
        "power",
        "nvmlDeviceGetPowerUsage",
        lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card) / 1e3,
    ),
    Field(
        "power_limit",
        "W",
        "power limit",
        "nvmlDeviceGetEnforcedPowerLimit",
        lambda nvml, card: nvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1e3,
    ),
    Field(
        "energy",
        "J",
        "energy",
        "since the driver was loaded; nvmlDeviceGetTotalEnergyConsumption",
        lambda nvml, card: nvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1e3,
    ),
    Field(
        "temperature",
        "C",
        "temperature",
        "nvmlDeviceGetTemperature",
        lambda nvml, card: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
    ),
    Field(
        "clock_sm",
        "MHz",
        "SM clock",
        "nvmlDeviceGetClockInfo",
        lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
    ),
    Field(
        "clock_sm_max",
        "MHz",
        "highest SM clock",
        "nvmlDeviceGetMaxClockInfo",
        lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM),
    ),
    Field(
        "clock_memory",
        "MHz",
        "memory clock",
        "nvmlDeviceGetClockInfo",
        lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM),
    ),
    Field(
        "throttle_reasons",
        "",
        "clock limits in force",
        "bits of nvmlClocksEventReasons; nvmlDeviceGetCurrentClocksEventReasons",
        _throttle_reasons,
    ),
    Field(
        "pcie_generation",
        "",
        "PCIe generation",
        "of the link now, lower while idle; nvmlDeviceGetCurrPcieLinkGeneration",
        lambda nvml, card: nvml.nvmlDeviceGetCurrPcieLinkGeneration(card),
    ),
    Field(
        "pcie_width",
        "",
        "PCIe lanes",
        "of the link now; nvmlDeviceGetCurrPcieLinkWidth",
        lambda nvml, card: nvml.nvmlDeviceGetCurrPcieLinkWidth(card),
    ),
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
