"""Metrics of a card that one call of NVML answers, and the source that asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu.devices import Device
from perftui.telemetry.gpu.metrics import METRICS
from perftui.telemetry.gpu.nvml import RefusedError, ask, constant_of, function_of


@dataclass(frozen=True)
class Field:
    """How NVML is asked for a metric: ``nvmlDeviceGet<function>``."""

    name: str
    """That of the metric."""
    function: str
    attribute: str = ""
    """Attribute of what the function returns; empty where that is the value itself."""
    constants: tuple[str, ...] = ()
    """Constants of NVML that the function takes besides the card."""
    divisor: float = 1
    """What makes the metric's unit of NVML's own."""
    note: str = ""
    older: str = ""
    """Name of the function in older bindings."""

    def column(self, device: Device) -> Column:
        """The column of this metric for ``device``."""
        source = f"nvmlDeviceGet{self.function}"
        source = f"{self.note}; {source}" if self.note else source
        return METRICS[self.name].column(device.prefix, source, device.kind)


FIELDS = (
    Field("utilization", "UtilizationRates", "gpu", note="over up to a second"),
    Field("memory_utilization", "UtilizationRates", "memory", note="over up to a second"),
    Field("memory_used", "MemoryInfo", "used"),
    Field("memory_total", "MemoryInfo", "total"),
    Field("power", "PowerUsage", divisor=1e3),
    Field("power_limit", "EnforcedPowerLimit", divisor=1e3),
    Field("energy", "TotalEnergyConsumption", divisor=1e3),
    Field("temperature", "Temperature", constants=("NVML_TEMPERATURE_GPU",)),
    Field("fan", "FanSpeed"),
    Field("clock_sm", "ClockInfo", constants=("NVML_CLOCK_SM",)),
    Field("clock_sm_max", "MaxClockInfo", constants=("NVML_CLOCK_SM",)),
    Field("clock_memory", "ClockInfo", constants=("NVML_CLOCK_MEM",)),
    Field("clock_memory_max", "MaxClockInfo", constants=("NVML_CLOCK_MEM",)),
    Field(
        *("throttle_reasons", "CurrentClocksEventReasons"),
        note="bits of nvmlClocksEventReasons",
        # Renamed in NVML 12.2.
        older="CurrentClocksThrottleReasons",
    ),
    *(
        Field(
            *(f"ecc_{what}", "TotalEccErrors"),
            constants=(f"NVML_MEMORY_ERROR_TYPE_{what.upper()}", "NVML_VOLATILE_ECC"),
            note="the volatile counter",
        )
        for what in ("corrected", "uncorrected")
    ),
    Field("pcie_generation", "CurrPcieLinkGeneration"),
    Field("pcie_width", "CurrPcieLinkWidth"),
    Field("pcie_generation_max", "MaxPcieLinkGeneration"),
    Field("pcie_width_max", "MaxPcieLinkWidth"),
)

NOT_IN_MIG_MODE = frozenset({"utilization", "memory_utilization", "memory_used", "memory_total"})
"""What NVML answers only for each MIG device of a card in MIG mode, if at all."""

MIG_FIELDS = tuple(field for field in FIELDS if field.name in ("memory_used", "memory_total"))
"""What NVML answers for a MIG device."""

TRAFFIC = tuple(
    Field(
        *(f"pcie_{way}", "PcieThroughput"),
        constants=(f"NVML_PCIE_UTIL_{counter}_BYTES",),
        # NVML counts KiB.
        divisor=1 / 1024,
        note="over 20 ms, every 2 s",
    )
    for way, counter in (("receive", "RX"), ("transmit", "TX"))
)

TRAFFIC_SECONDS = 2.0
"""Between two readings: two directions of 20 ms each are 2 % of a thread's time."""


@dataclass(frozen=True)
class _Call:
    """One call, and the fields that are parts of its answer."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    parts: list[Field]

    def values(self, nvml: Any) -> list[float | None]:
        try:
            found = ask(nvml, self.function, *self.arguments)
        except RefusedError:
            return [None] * len(self.parts)
        return [_value(field, found) for field in self.parts]


class FieldSource:
    """The ``fields`` of one card; one that it does not answer at the start is left out.

    ``missing`` says why, by the name of the column. A sample raises ``LostGpuError`` once the card
    is gone.
    """

    def __init__(self, nvml: Any, device: Device, fields: Sequence[Field]) -> None:
        self._nvml = nvml
        self.missing: dict[str, str] = {}
        calls: dict[tuple[str, tuple[str, ...]], _Call] = {}
        for field in fields:
            column = field.column(device)
            try:
                call = self._call(device, field)
                _value(field, ask(nvml, call.function, *call.arguments))
            except RefusedError as reason:
                self.missing[column.name] = str(reason)
            else:
                calls.setdefault((field.function, field.constants), call).parts.append(field)
        self._calls = tuple(calls.values())
        self.columns = tuple(f.column(device) for call in self._calls for f in call.parts)

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """One value for each column, None where the card does not answer just now."""
        return [value for call in self._calls for value in call.values(self._nvml)]

    def _call(self, device: Device, field: Field) -> _Call:
        names = [f"nvmlDeviceGet{name}" for name in (field.function, field.older) if name]
        constants = (constant_of(self._nvml, name) for name in field.constants)
        return _Call(function_of(self._nvml, *names), (device.handle, *constants), [])


def _value(field: Field, found: Any) -> float:
    value: float = getattr(found, field.attribute) if field.attribute else found
    return value if field.divisor == 1 else value / field.divisor
