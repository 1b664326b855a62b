"""Questions to NVML: fields of a card, field values, and performance counters (GPM)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu.names import METRICS
from perftui.telemetry.gpu.nvml_library import (
    Device,
    LostGpuError,
    RefusedError,
    ask,
    named_in,
    or_none,
    refusal,
)
from perftui.telemetry.source import Rate


@dataclass(frozen=True)
class Field:
    """How to ask NVML for a metric: ``nvmlDeviceGet<function>``."""

    name: str
    """Name of the metric."""
    function: str
    attribute: str = ""
    """Attribute of the function's result; empty if that is the value itself."""
    constants: tuple[str, ...] = ()
    """Constants of NVML that are arguments of the function after the card."""
    divisor: float = 1
    """Divisor from NVML's unit to the metric's."""
    note: str = ""

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
    Field("throttle_reasons", "CurrentClocksEventReasons", note="bits of nvmlClocksEventReasons"),
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
"""Functions that NVML answers only for each MIG device of a card in MIG mode, if at all."""

MIG_FIELDS = tuple(field for field in FIELDS if field.name in ("memory_used", "memory_total"))
"""Functions that NVML answers for a MIG device."""

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
"""Seconds between readings: two directions of 20 ms each are 2 % of a thread's time."""


@dataclass(frozen=True)
class _Call:
    """One call, and the fields that are parts of its result."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    parts: list[Field]

    def values(self, nvml: Any) -> list[float | None]:
        answer = or_none(ask, nvml, self.function, *self.arguments)
        return [None if answer is None else _value(field, answer) for field in self.parts]


class FieldSource:
    """The ``fields`` of one card; fields without an answer at the start are left out.

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
        """One value for each column, None if the card does not answer just now."""
        return [value for call in self._calls for value in call.values(self._nvml)]

    def _call(self, device: Device, field: Field) -> _Call:
        function = named_in(self._nvml, f"nvmlDeviceGet{field.function}")
        constants = (named_in(self._nvml, name) for name in field.constants)
        return _Call(function, (device.handle, *constants), [])


def _value(field: Field, answer: Any) -> float:
    value: float = getattr(answer, field.attribute) if field.attribute else answer
    return value if field.divisor == 1 else value / field.divisor


ALL_LINKS = 0xFFFFFFFF
"""Scope of a counter summed over all NVLinks (UINT_MAX, by nvml.h)."""

MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of ``nvmlValue_t`` by ``nvmlValueType_t``."""


@dataclass(frozen=True)
class FieldValue:
    """One metric by number of the field, ``NVML_FI_DEV_<constant>``."""

    name: str
    constant: str
    scope: int = 0
    is_counter: bool = False
    """Whether it only grows, so that its change per second is the metric."""
    factor: float = 1
    """Factor from NVML's unit to the metric's."""

    def column(self, device: Device) -> Column:
        """The column of this metric for ``device``."""
        source = f"nvmlDeviceGetFieldValues, NVML_FI_DEV_{self.constant}"
        return METRICS[self.name].column(device.prefix, source, device.kind)


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
    A sample raises ``LostGpuError`` once the card is gone."""

    def __init__(self, nvml: Any, device: Device) -> None:
        self._nvml = nvml
        self._device = device
        links = or_none(self._one, FieldValue("", "NVLINK_LINK_COUNT"))
        self.has_nvlink = None if links is None else links > 0
        self.missing: dict[str, str] = {}
        self._fields: list[FieldValue] = []
        for field in FIELD_VALUES:
            is_useless = field.scope == ALL_LINKS and self.has_nvlink is False
            if reason := "the card has no NVLink" if is_useless else refusal(self._one, field):
                self.missing[field.column(device).name] = reason
            else:
                self._fields.append(field)
        self._numbers = [self._number(field) for field in self._fields]
        self._rates = [Rate() for _ in self._fields]
        self.columns = tuple(field.column(device) for field in self._fields)

    def sample(self, now: float) -> list[float | None]:
        """One value for each column, None if the card does not answer just now."""
        answers = or_none(self._ask, self._numbers) or [None] * len(self._fields)
        values: list[float | None] = []
        for field, rate, answer in zip(self._fields, self._rates, answers, strict=True):
            value = None if answer is None else or_none(_field_value, self._nvml, answer)
            value = rate.update(value, now) if field.is_counter else value
            values.append(None if value is None else value * field.factor)
        return values

    def _number(self, field: FieldValue) -> tuple[int, int]:
        return named_in(self._nvml, f"NVML_FI_DEV_{field.constant}"), field.scope

    def _one(self, field: FieldValue) -> float:
        (answer,) = self._ask([self._number(field)])
        return _field_value(self._nvml, answer)

    def _ask(self, numbers: Sequence[tuple[int, int]]) -> Any:
        function = named_in(self._nvml, "nvmlDeviceGetFieldValues")
        return ask(self._nvml, function, self._device.handle, numbers)


def _field_value(nvml: Any, answer: Any) -> float:
    if answer.nvmlReturn == nvml.NVML_ERROR_GPU_IS_LOST:
        raise LostGpuError(f"NVML says: {nvml.NVMLError(answer.nvmlReturn)}")
    if answer.nvmlReturn != nvml.NVML_SUCCESS:
        raise RefusedError(f"NVML says: {nvml.NVMLError(answer.nvmlReturn)}")
    value: float = getattr(answer.value, MEMBERS[answer.valueType])
    return value


SHORTEST_SECONDS = 0.11
"""Seconds between samples: the counters are renewed every 100 ms (nvmlGpmSampleGet)."""


@dataclass(frozen=True)
class GpmMetric:
    """One metric, ``NVML_GPM_METRIC_<constant>``."""

    name: str
    constant: str
    factor: float = 1
    """Factor from NVML's unit to the metric's."""

    def column(self, device: Device) -> Column:
        """The column of this metric for ``device``."""
        of = " of its GPU instance" if device.instance is not None else ""
        source = f"nvmlGpmMetricsGet, NVML_GPM_METRIC_{self.constant}{of}"
        return METRICS[self.name].column(device.prefix, source, device.kind)


GPM_METRICS = (
    GpmMetric("sm_activity", "SM_UTIL"),
    GpmMetric("sm_occupancy", "SM_OCCUPANCY"),
    GpmMetric("tensor_activity", "ANY_TENSOR_UTIL"),
    GpmMetric("dram_activity", "DRAM_BW_UTIL"),
)

GPM_UTILIZATION = GpmMetric("utilization", "GRAPHICS_UTIL")
"""For MIG devices, which ``nvmlDeviceGetUtilizationRates`` does not support."""

GPM_NVLINK = tuple(
    # NVML gives MiB/s.
    GpmMetric(f"nvlink_{way}", f"NVLINK_TOTAL_{end}_PER_SEC", 2**20)
    for way, end in (("receive", "RX"), ("transmit", "TX"))
)
"""For cards whose NVLink counters are no field values."""


class GpmSource:
    """Those of ``metrics`` that a card answers, each a mean since the sample before.

    ``missing`` has reasons for others. Constructing one takes ``SHORTEST_SECONDS``. A sample raises
    ``LostGpuError`` once the card is gone.
    """

    def __init__(self, nvml: Any, device: Device, metrics: Sequence[GpmMetric]) -> None:
        self.missing: dict[str, str] = {}
        numbers: dict[GpmMetric, int] = {}
        for metric in metrics:
            name = f"NVML_GPM_METRIC_{metric.constant}"
            if reason := refusal(named_in, nvml, name):
                self.missing[metric.column(device).name] = reason
            else:
                numbers[metric] = named_in(nvml, name)
        self._counters: _Counters | None = None
        try:
            self._counters = _Counters(nvml, device)
            time.sleep(SHORTEST_SECONDS)
            answers = dict(zip(numbers, self._counters.read([*numbers.values()]), strict=True))
        except RefusedError as error:
            answers = dict.fromkeys(numbers, str(error))
        for metric, answer in answers.items():
            if isinstance(answer, str):
                self.missing[metric.column(device).name] = answer
                del numbers[metric]
        self._numbers = numbers
        self._latest = self._scaled([answers[metric] for metric in numbers])
        self.columns = tuple(metric.column(device) for metric in numbers)
        if not numbers:
            self.close()

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - the counters' time counts
        """One value for each column, None if the card does not answer just now.

        If called too soon for the counters, the values of the call before.
        """
        if self._counters and time.monotonic() - self._counters.at >= SHORTEST_SECONDS:
            self._latest = self._scaled(self._counters.read([*self._numbers.values()]))
        return self._latest

    def close(self) -> None:
        """Free the samples of the counters."""
        if self._counters is not None:
            self._counters.free()
            self._counters = None

    def _scaled(self, answers: Sequence[float | str]) -> list[float | None]:
        both = zip(self._numbers, answers, strict=True)
        return [None if isinstance(value, str) else value * metric.factor for metric, value in both]


class _Counters:
    """Two samples of a card's counters, from which NVML computes metrics."""

    def __init__(self, nvml: Any, device: Device) -> None:
        self._nvml = nvml
        self._device = device
        self._card = device.handle if device.card is None else device.card
        support = self._ask("nvmlGpmQueryDeviceSupport", self._card)
        if not support.isSupportedDevice:
            raise RefusedError("the card has no performance counters for NVML")
        self._samples: list[Any] = []
        """Two samples, the older first."""
        self._request = nvml.c_nvmlGpmMetricsGet_t()
        self._request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._is_filled = False
        """Whether the newer one holds counts."""
        self.at = -math.inf
        """Time of the newer one, seconds on the monotonic clock."""
        try:
            for _ in range(2):
                self._samples.append(self._ask("nvmlGpmSampleAlloc"))
            self._fill()
        except RefusedError:
            self.free()
            raise

    def read(self, metrics: Sequence[int]) -> list[float | str]:
        """Each metric since the last call, by its number, or the reason if there is none."""
        has_older = self._is_filled
        self._samples.reverse()
        try:
            self._fill()
            if not has_older:
                raise RefusedError("there is no earlier sample")
            self._request.sample1, self._request.sample2 = self._samples
            self._request.numMetrics = len(metrics)
            for place, number in enumerate(metrics):
                self._request.metrics[place].metricId = number
            self._ask("nvmlGpmMetricsGet", self._request)
        except RefusedError as reason:
            return [str(reason)] * len(metrics)
        return [self._answer(self._request.metrics[place]) for place in range(len(metrics))]

    def free(self) -> None:
        """Free the samples; afterwards nothing can be read."""
        while self._samples:
            with suppress(RefusedError, LostGpuError):
                self._ask("nvmlGpmSampleFree", self._samples.pop())

    def _fill(self) -> None:
        self._is_filled = False
        if self._device.instance is None:
            self._ask("nvmlGpmSampleGet", self._card, self._samples[1])
        else:
            self._ask("nvmlGpmMigSampleGet", self._card, self._device.instance, self._samples[1])
        self._is_filled = True
        self.at = time.monotonic()

    def _answer(self, metric: Any) -> float | str:
        if metric.nvmlReturn != self._nvml.NVML_SUCCESS:
            return f"NVML says: {self._nvml.NVMLError(metric.nvmlReturn)}"
        value: float = metric.value
        return value if math.isfinite(value) else "NVML returns no number"

    def _ask(self, name: str, *arguments: Any) -> Any:
        return ask(self._nvml, named_in(self._nvml, name), *arguments)
