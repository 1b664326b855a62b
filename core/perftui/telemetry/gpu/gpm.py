"""How busy the parts of a card are, by NVML's performance counters (GPM): Hopper and newer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu.metrics import METRICS
from perftui.telemetry.gpu.nvml import (
    Device,
    LostGpuError,
    RefusedError,
    ask,
    constant_of,
    function_of,
    refusal,
)

SHORTEST_SECONDS = 0.11
"""Between two samples: the counters are renewed every 100 ms (nvmlGpmSampleGet)."""


@dataclass(frozen=True)
class GpmMetric:
    """One metric, ``NVML_GPM_METRIC_<constant>``."""

    name: str
    constant: str
    factor: float = 1
    """What makes the metric's unit of NVML's own."""

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
"""For MIG devices, of which ``nvmlDeviceGetUtilizationRates`` knows nothing."""

GPM_NVLINK = tuple(
    # NVML gives MiB/s.
    GpmMetric(f"nvlink_{way}", f"NVLINK_TOTAL_{end}_PER_SEC", 2**20)
    for way, end in (("receive", "RX"), ("transmit", "TX"))
)
"""For cards whose counters of NVLink are no field values."""


class GpmSource:
    """Those of ``metrics`` that a card answers, each a mean since the sample before.

    ``missing`` says why not the others. Making one takes ``SHORTEST_SECONDS``. A sample raises
    ``LostGpuError`` once the card is gone.
    """

    def __init__(self, nvml: Any, device: Device, metrics: Sequence[GpmMetric]) -> None:
        self.missing: dict[str, str] = {}
        known: dict[GpmMetric, int] = {}
        for metric in metrics:
            name = f"NVML_GPM_METRIC_{metric.constant}"
            reason = refusal(constant_of, nvml, name)
            if reason:
                self.missing[metric.column(device).name] = reason
            else:
                known[metric] = constant_of(nvml, name)
        self._counters: _Counters | None = None
        try:
            self._counters = _Counters(nvml, device)
            time.sleep(SHORTEST_SECONDS)
            answers = dict(zip(known, self._counters.read([*known.values()]), strict=True))
        except RefusedError as error:
            answers = dict.fromkeys(known, Answer(None, str(error)))
        for metric, answer in answers.items():
            if answer.value is None:
                self.missing[metric.column(device).name] = answer.reason
                del known[metric]
        self._known = known
        self._latest = [answers[metric].times(metric.factor) for metric in known]
        self.columns = tuple(metric.column(device) for metric in known)
        if not known:
            self.close()

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - the counters' time counts
        """One value for each column, None where the card does not answer just now.

        The values of the call before, where that is too short ago for the counters.
        """
        if self._counters and time.monotonic() - self._counters.at >= SHORTEST_SECONDS:
            answers = self._counters.read([*self._known.values()])
            scaled = zip(self._known, answers, strict=True)
            self._latest = [one.times(metric.factor) for metric, one in scaled]
        return self._latest

    def close(self) -> None:
        """Free the samples of the counters."""
        if self._counters is not None:
            self._counters.free()
            self._counters = None


@dataclass(frozen=True)
class Answer:
    """The value of one metric in NVML's unit, or why there is none."""

    value: float | None
    reason: str = ""

    def times(self, factor: float) -> float | None:
        """The value times ``factor``, None where there is none."""
        return None if self.value is None else self.value * factor


class _Counters:
    """Two samples of a card's counters; NVML works metrics out from both."""

    def __init__(self, nvml: Any, device: Device) -> None:
        self._nvml = nvml
        self._device = device
        self._card = device.handle if device.card is None else device.card
        support = self._ask("nvmlGpmQueryDeviceSupport", self._card)
        if not support.isSupportedDevice:
            raise RefusedError("the card has no performance counters for NVML")
        self._samples: list[Any] = []
        """The older first."""
        self._request = nvml.c_nvmlGpmMetricsGet_t()
        self._request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._is_filled = False
        """Whether the newer one holds what was counted."""
        self.at = -math.inf
        """When that was, seconds on the monotonic clock."""
        try:
            for _ in range(2):
                self._samples.append(self._ask("nvmlGpmSampleAlloc"))
            self._fill()
        except RefusedError:
            self.free()
            raise

    def read(self, metrics: Sequence[int]) -> list[Answer]:
        """Each metric since the last call, by its number."""
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
            return [Answer(None, str(reason))] * len(metrics)
        return [self._answer(self._request.metrics[place]) for place in range(len(metrics))]

    def free(self) -> None:
        """Give the samples back; nothing can be read any more."""
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

    def _answer(self, metric: Any) -> Answer:
        if metric.nvmlReturn != self._nvml.NVML_SUCCESS:
            return Answer(None, f"NVML says: {self._nvml.NVMLError(metric.nvmlReturn)}")
        if not math.isfinite(metric.value):
            return Answer(None, "NVML returns no number")
        return Answer(metric.value)

    def _ask(self, name: str, *arguments: Any) -> Any:
        return ask(self._nvml, function_of(self._nvml, name), *arguments)
