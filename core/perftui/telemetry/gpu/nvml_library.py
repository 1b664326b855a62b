"""The NVML library: opened, asked, why where it does not answer, and who holds a card's memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import psutil

from perftui.run.journal import Column
from perftui.telemetry.contention import program
from perftui.telemetry.files import PROC, read_or_empty
from perftui.telemetry.gpu.names import METRICS, Gpu

T = TypeVar("T")


class NoGpuError(Exception):
    """There is no GPU to ask; the message is for the user."""


class RefusedError(Exception):
    """A GPU does not answer one question; the message says why."""


class LostGpuError(Exception):
    """A GPU has fallen off the bus: it will not answer again."""


def open_nvml(library: ModuleType | None = None) -> tuple[Any, int]:
    """The initialised ``pynvml`` module (or ``library`` in its place), and the number of cards.

    Raises:
        NoGpuError: no driver, no library, or no card.
    """
    try:
        nvml: Any = library or import_module("pynvml")
    except ImportError as error:
        raise NoGpuError(f"the NVML bindings cannot be imported ({error})") from error
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise NoGpuError(f"NVML says: {error}") from error
    if not count:
        raise NoGpuError("NVML finds no GPU")
    return nvml, count


def function_of(nvml: Any, *names: str) -> Callable[..., Any]:
    """The first of the functions ``names`` that these bindings have.

    Raises:
        RefusedError: they have none of them.
    """
    for name in names:
        if hasattr(nvml, name):
            found: Callable[..., Any] = getattr(nvml, name)
            return found
    raise RefusedError(f"the NVML bindings lack {names[0]}")


def constant_of(nvml: Any, name: str) -> Any:
    """The constant ``name``.

    Raises:
        RefusedError: these bindings do not have it.
    """
    try:
        return getattr(nvml, name)
    except AttributeError as error:
        raise RefusedError(f"the NVML bindings lack {name}") from error


def refusal(question: Callable[..., Any], *arguments: Any) -> str:
    """Why ``question`` of ``arguments`` is refused; empty where it is not."""
    try:
        question(*arguments)
    except RefusedError as reason:
        return str(reason)
    return ""


def or_none(question: Callable[..., T], *arguments: Any) -> T | None:
    """What ``question`` of ``arguments`` says; None where that is refused."""
    try:
        return question(*arguments)
    except RefusedError:
        return None


def answer(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """What ``function`` returns, text decoded; None where NVML has no answer, or no card to ask."""
    try:
        found = ask(nvml, function, *arguments)
    except (RefusedError, LostGpuError):
        return None
    return found.decode() if isinstance(found, bytes) else found


def ask(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """What ``function`` returns.

    Raises:
        RefusedError: NVML has no answer, now or at all.
        LostGpuError: the card is gone.
    """
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == nvml.NVML_ERROR_GPU_IS_LOST:
            raise LostGpuError(f"NVML says: {error}") from error
        raise RefusedError(f"NVML says: {error}") from error


@dataclass(frozen=True)
class Device:
    """A card or a MIG device with what NVML knows it by; its name and UUID are in ``gpu``."""

    gpu: Gpu
    handle: Any
    kind: str = ""
    """The size of a MIG device, such as ``MIG 1g.10gb``; empty for a card."""
    card: Any = None
    """Handle of the card of a MIG device; None for a card."""
    instance: int | None = None
    """Number of the GPU instance that a MIG device is in; None for a card."""
    parts: tuple[Device, ...] = ()
    """MIG devices of a card in MIG mode."""
    is_divided: bool = False
    """Whether a card is in MIG mode."""

    @property
    def prefix(self) -> str:
        """What its columns begin with."""
        return self.gpu.prefix


def card(nvml: Any, number: int) -> Device:
    """The card of that number, in NVML's order, which is that of the PCI bus.

    Raises:
        RefusedError: this process may not use it, or it does not answer.
        LostGpuError: it is gone.
    """
    handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, number)
    name = _text(nvml, "nvmlDeviceGetName", handle) or "GPU"
    gpu = Gpu(f"gpu{number}", name, _text(nvml, "nvmlDeviceGetUUID", handle) or None)
    # A card older than MIG has no mode.
    mode = or_none(lambda: ask(nvml, function_of(nvml, "nvmlDeviceGetMigMode"), handle))
    is_divided = mode is not None and bool(mode[0])
    parts = tuple(_mig_devices(nvml, gpu, handle)) if is_divided else ()
    return Device(gpu, handle, parts=parts, is_divided=is_divided)


def _mig_devices(nvml: Any, parent: Gpu, handle: Any) -> Iterator[Device]:
    for number in range(or_none(ask, nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            part = ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            instance = ask(nvml, nvml.nvmlDeviceGetGpuInstanceId, part)
        except RefusedError:
            # Numbers have gaps where fewer devices were made than there is room for.
            continue
        name = _text(nvml, "nvmlDeviceGetName", part) or "MIG device"
        uuid = _text(nvml, "nvmlDeviceGetUUID", part) or None
        gpu = Gpu(f"{parent.prefix}.mig{number}", name, uuid)
        size = re.search(r"MIG \S+", name)
        yield Device(gpu, part, size[0] if size else f"MIG {number}", handle, instance)


def _text(nvml: Any, function: str, handle: Any) -> str:
    found = or_none(lambda: ask(nvml, function_of(nvml, function), handle))
    # Older bindings return bytes.
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found or "")


_VERSION = re.compile(rb"\b(\d{3,}\.\d+(?:\.\d+)?)\b")


def driver_version(proc: str = PROC) -> str | None:
    """Of the kernel module, ``580.65.06``; None where it is not loaded, as on WSL."""
    found = _VERSION.search(read_or_empty(f"{proc}/driver/nvidia/version"))
    return found[1].decode() if found else None


LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
)
"""A process may be on several of them."""


def process_columns(device: Device) -> tuple[Column, ...]:
    """The columns of ``ProcessSource`` for ``device``."""
    names = ("processes", "process_memory")
    source = ", ".join(LISTS)
    return tuple(METRICS[name].column(device.prefix, source, device.kind) for name in names)


class ProcessSource:
    """How many processes hold memory of a card, and the bytes held by those that ``pids`` names.

    The bytes are None while none of them is on the card's lists: also in a container whose NVML
    names processes by the host's numbers, where nobody can know which are ours. ``missing`` says
    why a card has no lists. A sample raises ``LostGpuError`` once the card is gone.
    """

    def __init__(self, nvml: Any, device: Device, pids: Callable[[], frozenset[int]]) -> None:
        self._nvml = nvml
        self._device = device
        self._pids = pids
        self._lists: list[Callable[..., Any]] = []
        self.prefix = device.prefix
        """What the columns of the card begin with."""
        self.others: dict[int, int | None] = {}
        """Bytes by process, of those that are none of the run's, when one of the run's was last on
        the card: without one, the numbers may be those of another container."""
        columns = process_columns(device)
        self.missing: dict[str, str] = {}
        for name in LISTS:
            reason = refusal(self._list, name)
            if not reason:
                self._lists.append(function_of(nvml, name))
            elif name == LISTS[0]:
                self.missing = {column.name: reason for column in columns}
        self.columns = () if self.missing else columns

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """The count and the bytes."""
        held = or_none(self._held)
        if held is None:
            return [None, None]
        own = self._pids() & held.keys()
        if own:
            self.others = {pid: held[pid] for pid in held.keys() - own}
        known = [memory for pid in own if (memory := held[pid]) is not None]
        return [len(held), sum(known) if known else None]

    def _list(self, name: str) -> Any:
        return ask(self._nvml, function_of(self._nvml, name), self._device.handle)

    def _held(self) -> dict[int, int | None]:
        """Bytes by process, None where NVML does not say how many."""
        held: dict[int, int | None] = {}
        for function in self._lists:
            for process in ask(self._nvml, function, self._device.handle):
                memory, before = process.usedGpuMemory, held.get(process.pid)
                # Two lists name the same memory of a process.
                held[process.pid] = before if memory is None else max(memory, before or 0)
        return held


MOST = 8
"""Processes of one GPU that are named, the largest first."""

CHECKED_SECONDS = 10.0
"""How often they are named at most: each is looked up, and the manifest is written."""


@dataclass(frozen=True)
class OtherProcess:
    """A process beside the run; None stands for what is not known."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU."""
    program: str | None = None
    user: str | None = None


class OtherProcesses:
    """Names the processes that ``sources`` found, again whenever others hold memory."""

    def __init__(self, sources: Sequence[ProcessSource]) -> None:
        self._sources = sources
        self._known: dict[str, frozenset[int]] = {}
        self._due = 0.0

    def changed(self, now: float) -> dict[str, list[OtherProcess]] | None:
        """By what the columns of each GPU begin with; None where they are those of before. ``now``
        is in seconds of a clock that nobody sets."""
        # Each is replaced as a whole on the thread that asks the driver.
        held = {one.prefix: one.others for one in self._sources}
        known = {prefix: frozenset(others) for prefix, others in held.items() if others}
        if known == self._known or now < self._due:
            return None
        self._known, self._due = known, now + CHECKED_SECONDS
        return {prefix: _named(held[prefix]) for prefix in known}


def _named(held: dict[int, int | None]) -> list[OtherProcess]:
    largest = sorted(held.items(), key=lambda one: -(one[1] or 0))[:MOST]
    return [_process(pid, memory) for pid, memory in largest]


def _process(pid: int, memory: int | None) -> OtherProcess:
    name = user = None
    # It has ended, or is not to be looked at.
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        with suppress(psutil.Error, OSError, KeyError):
            user = process.username()
        name = program(process.name(), process.cmdline())
    return OtherProcess(pid, memory, name, user)
