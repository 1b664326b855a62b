"""Metrics that NVML keeps as numbered field values: memory temperature and NVLink traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu.devices import Device
from perftui.telemetry.gpu.metrics import METRICS
from perftui.telemetry.gpu.nvml import (
    LostGpuError,
    RefusedError,
    ask,
    constant_of,
    function_of,
    refusal,
)
from perftui.telemetry.source import Rate

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
        return _value(self._nvml, found)

    def _read(self, numbers: Sequence[tuple[int, int]]) -> list[float | None]:
        return [self._or_none(found) for found in self._ask(numbers)]

    def _or_none(self, found: Any) -> float | None:
        try:
            return _value(self._nvml, found)
        except RefusedError:
            return None

    def _ask(self, numbers: Sequence[tuple[int, int]]) -> Any:
        function = function_of(self._nvml, "nvmlDeviceGetFieldValues")
        return ask(self._nvml, function, self._device.handle, numbers)


def _value(nvml: Any, found: Any) -> float:
    if found.nvmlReturn == nvml.NVML_ERROR_GPU_IS_LOST:
        raise LostGpuError(f"NVML says: {nvml.NVMLError(found.nvmlReturn)}")
    if found.nvmlReturn != nvml.NVML_SUCCESS:
        raise RefusedError(f"NVML says: {nvml.NVMLError(found.nvmlReturn)}")
    value: float = getattr(found.value, MEMBERS[found.valueType])
    return value
