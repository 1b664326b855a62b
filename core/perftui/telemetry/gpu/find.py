"""Everything that can be sampled of this machine's GPUs, by NVML or AMD SMI."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from perftui.run.journal import Column
from perftui.telemetry.files import names_in, read_or_empty
from perftui.telemetry.gpu.names import METRICS, Gpu
from perftui.telemetry.gpu.nvml_library import (
    Device,
    LostGpuError,
    NoGpuError,
    ProcessSource,
    RefusedError,
    card,
    open_nvml,
    or_none,
    process_columns,
    refusal,
)
from perftui.telemetry.gpu.nvml_metrics import (
    FIELD_VALUES,
    FIELDS,
    GPM_METRICS,
    GPM_NVLINK,
    GPM_UTILIZATION,
    MIG_FIELDS,
    NOT_IN_MIG_MODE,
    TRAFFIC,
    TRAFFIC_SECONDS,
    FieldSource,
    FieldValueSource,
    GpmMetric,
    GpmSource,
)
from perftui.telemetry.source import BackgroundSource, Source, side_by_side


@dataclass(frozen=True)
class AmdField:
    """How to ask AMD SMI for a metric: ``amdsmi_get_<function>``."""

    name: str
    """Name of the metric."""
    function: str
    keys: tuple[str, ...] = ()
    """Keys of the function's result; the first with a number counts: versions and cards differ.
    Empty if the result is the value itself."""
    constants: tuple[str, ...] = ()
    """Arguments of the function after the card, as paths of attributes."""
    factor: float = 1
    """Factor from the library's unit to the metric's."""

    def column(self, prefix: str) -> Column:
        """The column of this metric for the card with ``prefix``."""
        return METRICS[self.name].column(prefix, f"amdsmi_get_{self.function}")


_JUNCTION = "AmdSmiTemperatureType.JUNCTION", "AmdSmiTemperatureMetric.CURRENT"
_MEMORY = "AmdSmiTemperatureType.VRAM", "AmdSmiTemperatureMetric.CURRENT"
_POWER = "socket_power", "current_socket_power", "average_socket_power"
_CLOCK = "clk", "cur_clk"
_GFX, _MEM = ("AmdSmiClkType.GFX",), ("AmdSmiClkType.MEM",)

AMD_FIELDS = (
    AmdField("utilization", "gpu_activity", ("gfx_activity",)),
    AmdField("memory_utilization", "gpu_activity", ("umc_activity",)),
    # AMD SMI counts MB of 2 ** 20 bytes.
    AmdField("memory_used", "gpu_vram_usage", ("vram_used",), factor=2**20),
    AmdField("memory_total", "gpu_vram_usage", ("vram_total",), factor=2**20),
    AmdField("power", "power_info", _POWER),
    AmdField("temperature", "temp_metric", constants=_JUNCTION),
    AmdField("memory_temperature", "temp_metric", constants=_MEMORY),
    AmdField("clock_sm", "clock_info", _CLOCK, _GFX),
    AmdField("clock_sm_max", "clock_info", ("max_clk",), _GFX),
    AmdField("clock_memory", "clock_info", _CLOCK, _MEM),
    AmdField("clock_memory_max", "clock_info", ("max_clk",), _MEM),
)


def open_amdsmi(library: ModuleType | None = None) -> tuple[Any, list[Any]]:
    """The initialised ``amdsmi`` module (or ``library`` in its place), and handles of the cards.
    Raises NoGpuError without a library, a driver, or a card."""
    try:
        amdsmi: Any = library or import_module("amdsmi")
    except (ImportError, OSError) as error:
        raise NoGpuError(f"amdsmi cannot be imported ({error})") from error
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
    except amdsmi.AmdSmiException as error:
        raise NoGpuError(f"AMD SMI says: {error}") from error
    if not handles:
        raise NoGpuError("AMD SMI finds no GPU")
    return amdsmi, handles


class AmdSource:
    """``AMD_FIELDS`` of one card; fields without an answer at the start are left out.

    ``missing`` says why, by the name of the column.
    """

    def __init__(self, amdsmi: Any, number: int, handle: Any) -> None:
        self._amdsmi = amdsmi
        self._handle = handle
        info = or_none(self._ask, "amdsmi_get_gpu_asic_info") or {}
        self.gpu = Gpu(f"gpu{number}", str(info.get("market_name") or "AMD GPU"))
        self.missing: dict[str, str] = {}
        self._fields: list[AmdField] = []
        for metric in AMD_FIELDS:
            if reason := refusal(self._read, metric):
                self.missing[metric.column(self.gpu.prefix).name] = reason
            else:
                self._fields.append(metric)
        self.columns = tuple(metric.column(self.gpu.prefix) for metric in self._fields)

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """One value for each column, None where the card does not answer just now."""
        return [or_none(self._read, metric) for metric in self._fields]

    def _read(self, field: AmdField) -> float:
        answer = self._ask(f"amdsmi_get_{field.function}", *field.constants)
        values = [answer.get(key) for key in field.keys] if field.keys else [answer]
        # An unknown value is the text "N/A".
        numbers = [value for value in values if isinstance(value, (int, float))]
        if not numbers:
            raise RefusedError("AMD SMI has no value")
        return numbers[0] * field.factor

    def _ask(self, name: str, *constants: str) -> Any:
        try:
            function: Callable[..., Any] = getattr(self._amdsmi, name)
            values = [reduce(getattr, path.split("."), self._amdsmi) for path in constants]
        except AttributeError as error:
            raise RefusedError(f"this amdsmi is older ({error})") from error
        try:
            return function(self._handle, *values)
        except self._amdsmi.AmdSmiException as error:
            raise RefusedError(f"AMD SMI says: {error}") from error


def gpu_columns(prefix: str = "gpuN") -> tuple[Column, ...]:
    """The columns of an NVIDIA card that answers everything, in the order of ``METRICS``."""
    card = Device(Gpu(prefix, ""), None)
    columns = (
        *(field.column(card) for field in (*FIELDS, *TRAFFIC)),
        *(field.column(card) for field in FIELD_VALUES),
        *(metric.column(card) for metric in GPM_METRICS),
        *process_columns(card),
    )
    by_name = {column.name: column for column in columns}
    return tuple(by_name[f"{prefix}.{name}"] for name in METRICS)


PCI_DEVICES = Path("/sys/bus/pci/devices")

AMD = "AMD"

VENDORS = {b"0x1002": AMD, b"0x8086": "Intel"}
"""Names by number of the PCI vendor."""

DISPLAY = b"0x03", b"0x12"
"""Classes of devices: display controllers, and processing accelerators."""


def other_vendors(root: Path = PCI_DEVICES) -> frozenset[str]:
    """Vendors of this machine's GPUs, besides NVIDIA; empty where the system lists none."""
    devices = [f"{root}/{name}" for name in names_in(str(root))]
    displays = [path for path in devices if read_or_empty(f"{path}/class").startswith(DISPLAY)]
    names = {VENDORS.get(read_or_empty(f"{path}/vendor").strip()) for path in displays}
    if sys.platform == "darwin" and platform.machine() == "arm64":
        names.add("Apple")
    return frozenset(vendor for vendor in names if vendor)


T = TypeVar("T")

OPEN_SECONDS = 30.0
"""Seconds for a driver to answer at all: one that is not kept loaded starts each card first."""

ANSWER_SECONDS = 10.0
"""Seconds for each card to answer."""

IN_MIG_MODE = "the card is in MIG mode: NVML reports it per MIG device, if at all"


@dataclass(frozen=True)
class Gpus:
    """Sources of the GPUs found, their identity, and why others are missing."""

    sources: tuple[Source, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Reasons by name of a column, or of a GPU that does not answer at all, such as ``gpu3``."""
    no_gpu: str | None = None
    """Why there is no GPU; empty if there is one."""
    processes: tuple[ProcessSource, ...] = ()
    """Those of ``sources`` that know the processes with memory on a GPU."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cards, in the driver's order."""
        return tuple(gpu.name for gpu in self.gpus if "." not in gpu.prefix)


def find_gpus(
    pids: Callable[[], frozenset[int]],
    nvml: ModuleType | None = None,
    amdsmi: ModuleType | None = None,
    pci: Path = PCI_DEVICES,
) -> Gpus:
    """The GPUs of this machine; ``pids`` returns the run's own processes.

    ``nvml`` and ``amdsmi`` replace the libraries of that name.
    """
    try:
        library, count = _opened(partial(open_nvml, nvml))
    except NoGpuError as reason:
        vendors = other_vendors(pci)
        reasons = [str(reason)]
        try:
            library, handles = _opened(partial(open_amdsmi, amdsmi))
        except NoGpuError as error:
            if AMD in vendors:
                reasons.append(f"AMD GPU: {error}")
        else:
            return _together([partial(_amd, library, *item) for item in enumerate(handles)])
        reasons += [f"{vendor} GPUs are not sampled" for vendor in sorted(vendors - {AMD})]
        return Gpus(no_gpu="; ".join(reasons))
    return _together([partial(_card, library, number, pids) for number in range(count)])


def _opened(task: Callable[[], T]) -> T:
    (result,) = side_by_side([task], OPEN_SECONDS)
    if isinstance(result, NoGpuError):
        raise result
    if isinstance(result, Exception):
        raise NoGpuError(f"the GPU driver: {_why(result)}") from result
    return result


def _together(tasks: list[Callable[[], Gpus]]) -> Gpus:
    """All cards as one; a card that does not answer is left out, with the reason."""
    answers = enumerate(side_by_side(tasks, ANSWER_SECONDS))
    all_gpus = _joined(
        answer if isinstance(answer, Gpus) else Gpus(missing={f"gpu{number}": _why(answer)})
        for number, answer in answers
    )
    reasons = dict.fromkeys(all_gpus.missing.values())
    return all_gpus if all_gpus.gpus else replace(all_gpus, no_gpu="; ".join(reasons))


def _joined(gpus: Iterable[Gpus]) -> Gpus:
    parts = [*gpus]
    return Gpus(
        tuple(source for part in parts for source in part.sources),
        tuple(gpu for part in parts for gpu in part.gpus),
        {name: why for part in parts for name, why in part.missing.items()},
        processes=tuple(source for part in parts for source in part.processes),
    )


def _why(error: Exception) -> str:
    has_finding = isinstance(error, (RefusedError, LostGpuError, TimeoutError))
    return str(error) if has_finding else f"{type(error).__name__}: {error}"


def _amd(amdsmi: Any, number: int, handle: Any) -> Gpus:
    source = AmdSource(amdsmi, number, handle)
    return Gpus((BackgroundSource(f"gpu{number}", source),), (source.gpu,), source.missing)


def _card(nvml: Any, number: int, pids: Callable[[], frozenset[int]]) -> Gpus:
    """One card with its MIG devices.

    Raises:
        RefusedError: this process may not use it, or it does not answer.
        LostGpuError: it is gone.
    """
    main = card(nvml, number)
    return _joined(_device(nvml, device, pids) for device in (main, *main.parts))


def _device(nvml: Any, device: Device, pids: Callable[[], frozenset[int]]) -> Gpus:
    """One card or MIG device; its sources, each on a thread of its own, are named after the card
    and the question."""
    prefix, is_card, missing = device.prefix, device.card is None, dict[str, str]()
    counters: list[FieldValueSource | GpmSource] = []
    slow: list[FieldSource] = []
    metrics: tuple[GpmMetric, ...] = (GPM_UTILIZATION, *GPM_METRICS)
    hidden = NOT_IN_MIG_MODE if device.is_divided else frozenset()
    fields = [f for f in (FIELDS if is_card else MIG_FIELDS) if f.name not in hidden]
    levels = FieldSource(nvml, device, fields)
    if is_card:
        values = FieldValueSource(nvml, device)
        counters, slow = [values], [FieldSource(nvml, device, TRAFFIC)]
        has_traffic = not values.has_nvlink or any("nvlink" in c.name for c in values.columns)
        metrics = GPM_METRICS if has_traffic else (*GPM_METRICS, *GPM_NVLINK)
    processes: tuple[ProcessSource, ...] = ()
    if device.is_divided:
        counted = (metric.name for metric in GPM_METRICS)
        unknown = (*NOT_IN_MIG_MODE, "process_memory", "processes", *counted)
        missing = {f"{prefix}.{name}": IN_MIG_MODE for name in unknown}
    else:
        processes = (ProcessSource(nvml, device, pids),)
        counters.append(GpmSource(nvml, device, metrics))
    for source in (levels, *processes, *counters, *slow):
        missing |= source.missing
    sampled = {c.name for source in (levels, *processes, *counters) for c in source.columns}
    sources = (
        BackgroundSource(prefix, levels, *processes),
        BackgroundSource(f"{prefix} counters", *counters),
        BackgroundSource(f"{prefix} PCIe", *slow, patience=0.0, every=TRAFFIC_SECONDS),
    )
    left_out = {name: reason for name, reason in missing.items() if name not in sampled}
    return Gpus(sources, (device.gpu,), left_out, processes=processes)
