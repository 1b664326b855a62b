"""Cards of AMD by AMD SMI, where its Python library is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any

from perftui.run.journal import Column
from perftui.telemetry.gpu.metrics import METRICS
from perftui.telemetry.gpu.names import Gpu
from perftui.telemetry.gpu.nvml import NoGpuError, RefusedError, refusal


@dataclass(frozen=True)
class AmdField:
    """How AMD SMI is asked for a metric: ``amdsmi_get_<function>``."""

    name: str
    """That of the metric."""
    function: str
    keys: tuple[str, ...] = ()
    """Keys of what the function returns, the first that has a number counts: versions and cards
    differ. Empty where that is the value itself."""
    constants: tuple[str, ...] = ()
    """What the function takes besides the card, as a path of attributes."""
    factor: float = 1
    """What makes the metric's unit of the library's own."""

    def column(self, prefix: str) -> Column:
        """The column of this metric for the card whose columns begin with ``prefix``."""
        return METRICS[self.name].column(prefix, f"amdsmi_get_{self.function}")


_JUNCTION = "AmdSmiTemperatureType.JUNCTION", "AmdSmiTemperatureMetric.CURRENT"
_MEMORY = "AmdSmiTemperatureType.VRAM", "AmdSmiTemperatureMetric.CURRENT"
_POWER = "socket_power", "current_socket_power", "average_socket_power"
_CLOCK = "clk", "cur_clk"
_GFX, _MEM = ("AmdSmiClkType.GFX",), ("AmdSmiClkType.MEM",)

AMD_FIELDS = (
    AmdField("utilization", "gpu_activity", ("gfx_activity",)),
    AmdField("memory_utilization", "gpu_activity", ("umc_activity",)),
    # In MB of 2 ** 20 bytes.
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

    Raises:
        NoGpuError: no library, no driver, or no card.
    """
    try:
        amdsmi: Any = library or import_module("amdsmi")
    except (ImportError, OSError) as error:
        raise NoGpuError(f"amdsmi cannot be imported ({error})") from error
    try:
        amdsmi.amdsmi_init()
        found = amdsmi.amdsmi_get_processor_handles()
    except amdsmi.AmdSmiException as error:
        raise NoGpuError(f"AMD SMI says: {error}") from error
    if not found:
        raise NoGpuError("AMD SMI finds no GPU")
    return amdsmi, found


class AmdSource:
    """``AMD_FIELDS`` of one card; one that it does not answer at the start is left out.

    ``missing`` says why, by the name of the column.
    """

    def __init__(self, amdsmi: Any, number: int, handle: Any) -> None:
        self._amdsmi = amdsmi
        self._handle = handle
        name = self._name()
        self.gpu = Gpu(f"gpu{number}", name)
        self.missing: dict[str, str] = {}
        self._fields: list[AmdField] = []
        for field in AMD_FIELDS:
            reason = refusal(self._read, field)
            if reason:
                self.missing[field.column(self.gpu.prefix).name] = reason
            else:
                self._fields.append(field)
        self.columns = tuple(field.column(self.gpu.prefix) for field in self._fields)

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """One value for each column, None where the card does not answer just now."""
        return [self._or_none(field) for field in self._fields]

    def _or_none(self, field: AmdField) -> float | None:
        try:
            return self._read(field)
        except RefusedError:
            return None

    def _read(self, field: AmdField) -> float:
        found = self._ask(f"amdsmi_get_{field.function}", *field.constants)
        values = [found.get(key) for key in field.keys] if field.keys else [found]
        # What a card does not know is the text "N/A".
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

    def _name(self) -> str:
        try:
            return str(self._ask("amdsmi_get_gpu_asic_info")["market_name"] or "AMD GPU")
        except (RefusedError, KeyError):
            return "AMD GPU"
