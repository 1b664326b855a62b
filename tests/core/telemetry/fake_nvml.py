"""A driver that stands for NVIDIA's: a library with NVML's C functions, below the real bindings."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterable
from ctypes import addressof, c_void_p, cast
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 2, 3, 4
NOT_FOUND, INSUFFICIENT_SIZE, TIMEOUT, IS_LOST = 6, 7, 10, 15
RESET_REQUIRED, UNKNOWN = 16, 999

ALL_LINKS = 0xFFFFFFFF
UNKNOWN_MEMORY = 2**64 - 1
GPM_SECONDS = 0.1
"""The counters are renewed so often: two samples that are closer say nothing."""

H100 = {
    "UtilizationRates": {"gpu": 83, "memory": 31},
    "MemoryInfo": {"used": 5 << 30, "total": 80 << 30, "free": 75 << 30},
    "PowerUsage": 345_600,
    "EnforcedPowerLimit": 700_000,
    "TotalEnergyConsumption": 12_345_678_000,
    ("Temperature", 0): 61,
    "FanSpeed": 42,
    ("ClockInfo", 1): 1755,
    ("ClockInfo", 2): 2600,
    ("MaxClockInfo", 1): 1980,
    ("MaxClockInfo", 2): 2619,
    "CurrentClocksEventReasons": 0x24,
    ("TotalEccErrors", 0, 0): 7,
    ("TotalEccErrors", 1, 0): 1,
    "CurrPcieLinkGeneration": 4,
    "CurrPcieLinkWidth": 8,
    "MaxPcieLinkGeneration": 5,
    "MaxPcieLinkWidth": 16,
    ("PcieThroughput", 0): 1000,
    ("PcieThroughput", 1): 2000,
}
"""By ``nvmlDeviceGet...`` and the constants it takes: numbers, or the members of a structure."""

FIELD_VALUES = {
    (82, 0): ("uiVal", 1, 73),
    (91, 0): ("uiVal", 1, 18),
    (138, ALL_LINKS): ("ullVal", 3, 1_000_000),
    (139, ALL_LINKS): ("ullVal", 3, 5_000_000),
}
"""Member, type and value by the number of a field and its scope: memory temperature, links, KiB
sent and received over NVLink."""

GPM = {1: 91.5, 2: 64.25, 3: 33.5, 5: 21.75, 10: 48.5, 60: 1000.0, 61: 250.0}
"""By number of the metric: engine, SMs, occupancy, tensor cores, DRAM, NVLink in MiB/s."""


PROCESSES = {
    "DeviceGetComputeRunningProcesses": "compute",
    "DeviceGetMPSComputeRunningProcesses": "mps",
    "DeviceGetGraphicsRunningProcesses": "graphics",
}

_ADDRESSES = count(0x1000, 0x10)
"""None is given out twice: what one test forgets is unknown to the driver of the next."""


@dataclass
class Card:
    """What the driver answers of one card or MIG device."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = ""
    values: dict[Any, Any] = field(default_factory=lambda: dict(H100))
    field_values: dict[tuple[int, int], Any] = field(default_factory=lambda: dict(FIELD_VALUES))
    gpm: dict[int, float] = field(default_factory=lambda: dict(GPM))
    """Empty for a card older than Hopper."""
    compute: dict[int, int] = field(default_factory=dict)
    """Bytes by process."""
    mps: dict[int, int] = field(default_factory=dict)
    graphics: dict[int, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """Code that a function returns instead, by its name after ``nvml``."""
    hanging: set[str] = field(default_factory=set)
    """Functions that do not return."""
    is_lost: bool = False
    mig: dict[int, Card] | None = None
    """Its MIG devices by their number, where it is in MIG mode."""
    instance: int = 0
    """Number of the GPU instance of a MIG device."""
    parent: Card | None = None


def mig_device(uuid: str, instance: int, size: str = "1g.10gb", **more: Any) -> Card:
    """A MIG device as NVML knows it: memory, processes, and counters of its GPU instance."""
    memory = {"MemoryInfo": {"used": 2 << 30, "total": 10 << 30, "free": 8 << 30}}
    return Card(
        **{
            "name": f"NVIDIA H100 80GB HBM3 MIG {size}",
            "uuid": uuid,
            "values": memory,
            "field_values": {},
            "instance": instance,
            **more,
        }
    )


def older_card(**more: Any) -> Card:
    """A card of before Hopper, on PCIe and without ECC or a sensor in its memory."""
    left_out = ("TotalEccErrors", "TotalEnergyConsumption")
    kept = {
        key: value
        for key, value in H100.items()
        if (key if isinstance(key, str) else key[0]) not in left_out
    }
    values = {"name": "NVIDIA GeForce RTX 2080", "values": kept, "gpm": {}}
    return Card(**{**values, "field_values": {(91, 0): ("uiVal", 1, 0)}, **more})


class Driver:
    """The shared library: its attributes are functions that take what ctypes passes."""

    def __init__(self, *cards: Card, init: int = SUCCESS, lacks: Iterable[str] = ()) -> None:
        self.cards = list(cards)
        self.init = init
        self.lacks = set(lacks)
        """Functions that this version does not have."""
        self.samples: dict[int, tuple[Card, float] | None] = {}
        """Samples that are allocated, with what was counted last."""
        self.released = threading.Event()
        """Ends the calls that hang."""
        self.asked: list[str] = []
        self._handles: dict[int, Card] = {}
        self._addresses: dict[int, int] = {}
        """Of each card and MIG device, by its identity."""
        for number, card in enumerate(self.cards):
            card.uuid = card.uuid or f"GPU-{number:08x}-0000-0000-0000-000000000000"
            for part in (card, *(card.mig or {}).values()):
                part.parent = None if part is card else card
                self._addresses[id(part)] = next(_ADDRESSES)
                self._handles[self._addresses[id(part)]] = part

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml") or name in self.lacks:
            raise AttributeError(name)
        plain = name.removeprefix("nvml").removesuffix("_v2").removesuffix("_v3")
        own = getattr(type(self), f"_{plain}", None)

        def function(*arguments: Any) -> int:
            self.asked.append(plain)
            of_device = plain.startswith("Device") or plain in ("GpmSampleGet", "GpmMigSampleGet")
            if not (of_device or plain == "GpmQueryDeviceSupport") or plain in (
                "DeviceGetCount",
                "DeviceGetHandleByIndex",
            ):
                return own(self, *arguments) if own else NOT_SUPPORTED
            card = self._handles.get(_address(arguments[0]))
            if card is None:
                return INVALID_ARGUMENT
            code = self._trouble(card, plain)
            if code != SUCCESS:
                return code
            if plain in PROCESSES:
                return _processes(getattr(card, PROCESSES[plain]), *arguments[1:])
            if own is not None:
                return int(own(self, card, *arguments[1:]))
            return _plain_value(card, plain.removeprefix("DeviceGet"), *arguments[1:])

        return function

    def _trouble(self, card: Card, name: str) -> int:
        if card.is_lost or (card.parent is not None and card.parent.is_lost):
            return IS_LOST
        if name in card.hanging:
            self.released.wait()
            return TIMEOUT
        return card.errors.get(name, SUCCESS)

    def _InitWithFlags(self, _flags: Any) -> int:  # noqa: N802 - as NVML calls it
        return self.init

    def _DeviceGetCount(self, out: Any) -> int:  # noqa: N802
        out._obj.value = len(self.cards)
        return SUCCESS

    def _DeviceGetHandleByIndex(self, number: Any, out: Any) -> int:  # noqa: N802
        card = self.cards[number.value]
        code = IS_LOST if card.is_lost else card.errors.get("DeviceGetHandleByIndex", SUCCESS)
        if code == SUCCESS:
            _point(out._obj, self._addresses[id(card)])
        return code

    def _DeviceGetName(self, card: Card, out: Any, _size: Any) -> int:  # noqa: N802
        out.value = card.name.encode()
        return SUCCESS

    def _DeviceGetUUID(self, card: Card, out: Any, _size: Any) -> int:  # noqa: N802
        out.value = card.uuid.encode()
        return SUCCESS

    def _DeviceGetMigMode(self, card: Card, current: Any, pending: Any) -> int:  # noqa: N802
        if not card.gpm:
            return NOT_SUPPORTED
        current._obj.value = pending._obj.value = int(card.mig is not None)
        return SUCCESS

    def _DeviceGetMaxMigDeviceCount(self, card: Card, out: Any) -> int:  # noqa: N802
        out._obj.value = 7 if card.mig is not None else 0
        return SUCCESS

    def _DeviceGetMigDeviceHandleByIndex(  # noqa: N802
        self, card: Card, number: Any, out: Any
    ) -> int:
        if number.value not in (card.mig or {}):
            return NOT_FOUND
        _point(out._obj, self._addresses[id(card.mig[number.value])])
        return SUCCESS

    def _DeviceGetGpuInstanceId(self, card: Card, out: Any) -> int:  # noqa: N802
        if card.parent is None:
            return NOT_FOUND
        out._obj.value = card.instance
        return SUCCESS

    def _DeviceGetFieldValues(self, card: Card, count: Any, out: Any) -> int:  # noqa: N802
        for one in out._obj[: count.value]:
            known = card.field_values.get((one.fieldId, one.scopeId), NOT_SUPPORTED)
            if isinstance(known, int):
                one.nvmlReturn = known
            else:
                member, one.valueType, value = known
                one.nvmlReturn = SUCCESS
                setattr(one.value, member, value)
        return SUCCESS

    def _GpmQueryDeviceSupport(self, card: Card, out: Any) -> int:  # noqa: N802
        out._obj.isSupportedDevice = int(bool(card.gpm))
        return SUCCESS

    def _GpmSampleAlloc(self, out: Any) -> int:  # noqa: N802
        number = next(_ADDRESSES)
        self.samples[number] = None
        _point(out._obj, number)
        return SUCCESS

    def _GpmSampleFree(self, sample: Any) -> int:  # noqa: N802
        return SUCCESS if self.samples.pop(_address(sample), ...) is not ... else INVALID_ARGUMENT

    def _GpmSampleGet(self, card: Card, sample: Any) -> int:  # noqa: N802
        return NOT_SUPPORTED if card.mig is not None else self._count(card, sample)

    def _GpmMigSampleGet(self, card: Card, instance: Any, sample: Any) -> int:  # noqa: N802
        parts = [part for part in (card.mig or {}).values() if part.instance == instance]
        return self._count(parts[0], sample) if parts else NOT_FOUND

    def _count(self, card: Card, sample: Any) -> int:
        if _address(sample) not in self.samples:
            return INVALID_ARGUMENT
        self.samples[_address(sample)] = card, time.monotonic()
        return SUCCESS

    def _GpmMetricsGet(self, out: Any) -> int:  # noqa: N802
        request = out._obj
        both = [self.samples.get(_address(one)) for one in (request.sample1, request.sample2)]
        older, newer = both
        if request.version != 1 or older is None or newer is None or older[0] is not newer[0]:
            return INVALID_ARGUMENT
        if newer[1] - older[1] < GPM_SECONDS:
            return INVALID_ARGUMENT
        for metric in request.metrics[: request.numMetrics]:
            known = metric.metricId in newer[0].gpm
            metric.nvmlReturn = SUCCESS if known else NOT_SUPPORTED
            metric.value = newer[0].gpm.get(metric.metricId, 0.0)
        return SUCCESS


def nvml_of(driver: Driver, without: Iterable[str] = ()) -> Any:
    """The real bindings over ``driver``, as all from the last call on are.

    ``without`` names functions and constants that they lack."""
    bindings = _bindings()
    bindings.__dict__["nvmlLib"] = driver
    bindings.__dict__["_nvmlGetFunctionPointer_cache"].clear()
    return SimpleNamespace(**{n: v for n, v in vars(bindings).items() if n not in set(without)})


@cache
def _bindings() -> ModuleType:
    """A copy of the bindings that nothing else uses."""
    found = importlib.util.find_spec("pynvml")
    assert found.origin is not None
    spec = importlib.util.spec_from_file_location("pynvml_of_a_test", found.origin)
    bindings = importlib.util.module_from_spec(spec)
    # They look themselves up while they are loaded.
    sys.modules[spec.name] = bindings
    try:
        spec.loader.exec_module(bindings)
    finally:
        del sys.modules[spec.name]
    return bindings


def _plain_value(card: Card, name: str, *arguments: Any) -> int:
    *constants, out = arguments
    numbers = tuple(getattr(one, "value", one) for one in constants)
    key: Any = (name, *numbers) if numbers else name
    if key not in card.values:
        return NOT_SUPPORTED
    value = card.values[key]
    if isinstance(value, dict):
        for member, one in value.items():
            setattr(out._obj, member, one)
    else:
        out._obj.value = value
    return SUCCESS


def _processes(held: dict[int, int], count: Any, found: Any) -> int:
    count._obj.value = len(held)
    if held and found is None:
        return INSUFFICIENT_SIZE
    for place, (pid, memory) in enumerate(held.items()):
        found[place].pid, found[place].usedGpuMemory = pid, memory
    return SUCCESS


def _address(pointer: Any) -> int:
    return cast(pointer, c_void_p).value or 0


def _point(pointer: Any, address: int) -> None:
    c_void_p.from_address(addressof(pointer)).value = address
