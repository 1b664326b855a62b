"""What is sampled of a GPU, whatever its vendor: columns ``gpuN.<name>``, each with a meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu.nvml import (
    Device,
    LostGpuError,
    RefusedError,
    ask,
    constant_of,
    function_of,
    refusal,
)
from perftui.telemetry.source import Rate


@dataclass(frozen=True)
class Metric:
    """One metric of a GPU."""

    name: str
    unit: str
    label: str
    meaning: str

    def column(self, prefix: str, source: str, of: str = "") -> Column:
        """Its column for the GPU whose columns begin with ``prefix``; ``of`` ends the label."""
        label = f"{self.label}, {of}" if of else self.label
        return Column(f"{prefix}.{self.name}", self.unit, label, source, self.meaning)


METRICS = {
    each.name: each
    for each in (
        Metric(
            *("utilization", "%", "GPU busy"),
            "Share of time in which a kernel ran, however little of the GPU it used.",
        ),
        Metric(
            *("memory_utilization", "%", "GPU memory busy"),
            "Share of time in which GPU memory was read or written.",
        ),
        Metric(
            *("sm_activity", "%", "SMs active"),
            "Share of multiprocessors with at least one resident warp, averaged over time.",
        ),
        Metric(
            *("sm_occupancy", "%", "SM occupancy"),
            "Resident warps, as a share of what the multiprocessors can hold.",
        ),
        Metric(
            *("tensor_activity", "%", "tensor cores active"),
            "Share of time in which the tensor cores computed, averaged over multiprocessors.",
        ),
        Metric(
            *("dram_activity", "%", "memory bandwidth used"),
            "Memory bandwidth used, as a share of the GPU's peak.",
        ),
        Metric(
            *("memory_used", "B", "GPU memory used"),
            "GPU memory in use by all processes, and by the driver itself.",
        ),
        Metric("memory_total", "B", "GPU memory", "Memory of the GPU."),
        Metric(
            *("process_memory", "B", "GPU memory of this run"),
            "GPU memory held by the run's own processes.",
        ),
        Metric(
            *("processes", "count", "processes on the GPU"),
            "Processes that hold GPU memory, including the run's own.",
        ),
        Metric("power", "W", "power", "Power that the board draws."),
        Metric(
            *("power_limit", "W", "power limit"),
            "Power above which the driver lowers the clocks.",
        ),
        Metric(
            *("energy", "J", "energy"),
            "Energy that the board has used since the driver was loaded.",
        ),
        Metric("temperature", "C", "temperature", "Temperature of the GPU chip."),
        Metric("memory_temperature", "C", "memory temperature", "Temperature of the GPU's memory."),
        Metric("fan", "%", "fan", "Requested fan speed, as a share of the maximum."),
        Metric("clock_sm", "MHz", "SM clock", "Current clock of the multiprocessors."),
        Metric("clock_sm_max", "MHz", "highest SM clock", "Highest clock of the multiprocessors."),
        Metric("clock_memory", "MHz", "memory clock", "Current clock of the GPU's memory."),
        Metric(
            *("clock_memory_max", "MHz", "highest memory clock"),
            "Highest clock of the GPU's memory.",
        ),
        Metric(
            *("throttle_reasons", "", "clock limits in force"),
            "What limits the clocks now, one bit per reason.",
        ),
        Metric(
            *("ecc_corrected", "count", "memory errors corrected"),
            "Memory errors that ECC has corrected since the driver was loaded.",
        ),
        Metric(
            *("ecc_uncorrected", "count", "memory errors not corrected"),
            "Memory errors that ECC could not correct since the driver was loaded.",
        ),
        Metric(
            *("pcie_receive", "B/s", "PCIe to the GPU"),
            "Bytes a second that the GPU receives over PCIe.",
        ),
        Metric(
            *("pcie_transmit", "B/s", "PCIe from the GPU"),
            "Bytes a second that the GPU sends over PCIe.",
        ),
        Metric(
            *("nvlink_receive", "B/s", "NVLink to the GPU"),
            "Bytes a second that the GPU receives over all of its NVLinks.",
        ),
        Metric(
            *("nvlink_transmit", "B/s", "NVLink from the GPU"),
            "Bytes a second that the GPU sends over all of its NVLinks.",
        ),
        Metric(
            *("pcie_generation", "", "PCIe generation"),
            "Current PCIe generation of the link; it drops while the GPU idles.",
        ),
        Metric("pcie_width", "", "PCIe lanes", "PCIe lanes in use now."),
        Metric(
            *("pcie_generation_max", "", "highest PCIe generation"),
            "Highest PCIe generation that the GPU and the slot support.",
        ),
        Metric(
            "pcie_width_max",
            "",
            "most PCIe lanes",
            "Most PCIe lanes that the GPU and the slot support.",
        ),
    )
}
"""By name, in the order in which a person looks for them."""


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


ALL_LINKS = 0xFFFFFFFF
"""Scope of a counter summed over all NVLinks (UINT_MAX, by nvml.h)."""

MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of ``nvmlValue_t`` by ``nvmlValueType_t``."""


@dataclass(frozen=True)
class FieldValue:
    """One metric by the number of its field, ``NVML_FI_DEV_<constant>``."""

    name: str
    constant: str
    scope: int = 0
    is_counter: bool = False
    """Whether it only grows, so that its change a second is the metric."""
    factor: float = 1
    """What makes the metric's unit of NVML's own."""

    def column(self, device: Device) -> Column:
        """The column of this metric for ``device``."""
        source = f"nvmlDeviceGetFieldValues, NVML_FI_DEV_{self.constant}"
        return METRICS[self.name].column(device.prefix, source, device.kind)


LINK_COUNT = FieldValue("", "NVLINK_LINK_COUNT")

FIELD_VALUES = (
    FieldValue("memory_temperature", "MEMORY_TEMP"),
    *(
        # NVML counts KiB of data, without the links' own protocol.
        FieldValue(f"nvlink_{way}", f"NVLINK_THROUGHPUT_DATA_{end}", ALL_LINKS, True, 1024)
        for way, end in (("receive", "RX"), ("transmit", "TX"))
    ),
)


class FieldValueSource:
    """Those of ``FIELD_VALUES`` that a card answers at the start; ``missing`` says why not others.

    A sample raises ``LostGpuError`` once the card is gone.
    """

    def __init__(
        self, nvml: Any, device: Device, fields: Sequence[FieldValue] = FIELD_VALUES
    ) -> None:
        self._nvml = nvml
        self._device = device
        self.has_nvlink = self._has_nvlink()
        self.missing: dict[str, str] = {}
        self._fields: list[FieldValue] = []
        for field in fields:
            is_useless = field.scope == ALL_LINKS and self.has_nvlink is False
            reason = "the card has no NVLink" if is_useless else refusal(self._one, field)
            if reason:
                self.missing[field.column(device).name] = reason
            else:
                self._fields.append(field)
        self._numbers = [self._number(field) for field in self._fields]
        self._rates = [Rate() for _ in self._fields]
        self.columns = tuple(field.column(device) for field in self._fields)

    def sample(self, now: float) -> list[float | None]:
        """One value for each column, None where the card does not answer just now."""
        try:
            found = self._read(self._numbers)
        except RefusedError:
            found = [None] * len(self._fields)
        rows = zip(self._fields, self._rates, found, strict=True)
        changed = [rate.update(one, now) if field.is_counter else one for field, rate, one in rows]
        return [
            None if value is None else value * field.factor
            for field, value in zip(self._fields, changed, strict=True)
        ]

    def _has_nvlink(self) -> bool | None:
        try:
            return self._one(LINK_COUNT) > 0
        except RefusedError:
            return None

    def _number(self, field: FieldValue) -> tuple[int, int]:
        return constant_of(self._nvml, f"NVML_FI_DEV_{field.constant}"), field.scope

    def _one(self, field: FieldValue) -> float:
        (found,) = self._ask([self._number(field)])
        return _field_value(self._nvml, found)

    def _read(self, numbers: Sequence[tuple[int, int]]) -> list[float | None]:
        return [self._or_none(found) for found in self._ask(numbers)]

    def _or_none(self, found: Any) -> float | None:
        try:
            return _field_value(self._nvml, found)
        except RefusedError:
            return None

    def _ask(self, numbers: Sequence[tuple[int, int]]) -> Any:
        function = function_of(self._nvml, "nvmlDeviceGetFieldValues")
        return ask(self._nvml, function, self._device.handle, numbers)


def _field_value(nvml: Any, found: Any) -> float:
    if found.nvmlReturn == nvml.NVML_ERROR_GPU_IS_LOST:
        raise LostGpuError(f"NVML says: {nvml.NVMLError(found.nvmlReturn)}")
    if found.nvmlReturn != nvml.NVML_SUCCESS:
        raise RefusedError(f"NVML says: {nvml.NVMLError(found.nvmlReturn)}")
    value: float = getattr(found.value, MEMBERS[found.valueType])
    return value
