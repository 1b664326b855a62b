"""The NVML library: opening, asking, reasons for refusals, and processes with memory on a card."""

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
    Raises NoGpuError without a driver, a library, or a card."""
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


def named_in(nvml: Any, name: str) -> Any:
    """The function or constant ``name``. Raises RefusedError if these bindings do not have it."""
    try:
        return getattr(nvml, name)
    except AttributeError as error:
        raise RefusedError(f"the NVML bindings lack {name}") from error


def refusal(question: Callable[..., Any], *arguments: Any) -> str:
    """Why ``question`` of ``arguments`` is refused; empty if it is not."""
    try:
        question(*arguments)
    except RefusedError as reason:
        return str(reason)
    return ""


def or_none(question: Callable[..., T], *arguments: Any) -> T | None:
    """The answer to ``question`` of ``arguments``; None if it is refused."""
    try:
        return question(*arguments)
    except RefusedError:
        return None


def answer(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``function``; None if NVML has no answer, or no card to ask."""
    try:
        return ask(nvml, function, *arguments)
    except (RefusedError, LostGpuError):
        return None


def ask(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``function``.

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
    """A card or a MIG device with its NVML handles; its name and UUID are in ``gpu``."""

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
        """Prefix of its columns."""
        return self.gpu.prefix


def card(nvml: Any, number: int) -> Device:
    """The card with this number, in NVML's order, which is that of the PCI bus.

    Raises:
        RefusedError: this process may not use it, or it does not answer.
        LostGpuError: it is gone.
    """
    handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, number)
    name = _text(nvml, "nvmlDeviceGetName", handle) or "GPU"
    gpu = Gpu(f"gpu{number}", name, _text(nvml, "nvmlDeviceGetUUID", handle) or None)
    # Cards older than MIG have no mode.
    mode = or_none(lambda: ask(nvml, named_in(nvml, "nvmlDeviceGetMigMode"), handle))
    is_divided = mode is not None and bool(mode[0])
    parts = tuple(_mig_devices(nvml, gpu, handle)) if is_divided else ()
    return Device(gpu, handle, parts=parts, is_divided=is_divided)


def _mig_devices(nvml: Any, parent: Gpu, handle: Any) -> Iterator[Device]:
    for number in range(or_none(ask, nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            part = ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            instance = ask(nvml, nvml.nvmlDeviceGetGpuInstanceId, part)
        except RefusedError:
            # Numbers have gaps if there are fewer devices than possible.
            continue
        name = _text(nvml, "nvmlDeviceGetName", part) or "MIG device"
        uuid = _text(nvml, "nvmlDeviceGetUUID", part) or None
        gpu = Gpu(f"{parent.prefix}.mig{number}", name, uuid)
        size = re.search(r"MIG \S+", name)
        yield Device(gpu, part, size[0] if size else f"MIG {number}", handle, instance)


def _text(nvml: Any, function: str, handle: Any) -> str:
    text: str | None = or_none(lambda: ask(nvml, named_in(nvml, function), handle))
    return text or ""


_VERSION = re.compile(rb"\b(\d{3,}\.\d+(?:\.\d+)?)\b")


def driver_version(proc: str = PROC) -> str | None:
    """Version of the kernel module, ``580.65.06``; None if it is not loaded, as on WSL."""
    match = _VERSION.search(read_or_empty(f"{proc}/driver/nvidia/version"))
    return match[1].decode() if match else None


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
    """Number of processes with memory on a card, and the bytes of those in ``pids``.

    The bytes are None while none of them is on the card's lists: also in a container whose NVML
    names processes by the host's numbers, where ours cannot be recognised. ``missing`` says why a
    card has no lists. A sample raises ``LostGpuError`` once the card is gone.
    """

    def __init__(self, nvml: Any, device: Device, pids: Callable[[], frozenset[int]]) -> None:
        self._nvml = nvml
        self._device = device
        self._pids = pids
        self._lists: list[Callable[..., Any]] = []
        self.prefix = device.prefix
        """Prefix of the card's columns."""
        self.others: dict[int, int | None] = {}
        """Bytes by process outside the run, when a process of the run was last on the card: without
        one, the numbers may be those of another container."""
        columns = process_columns(device)
        self.missing: dict[str, str] = {}
        for name in LISTS:
            reason = refusal(self._list, name)
            if not reason:
                self._lists.append(named_in(nvml, name))
            elif name == LISTS[0]:
                self.missing = {column.name: reason for column in columns}
        self.columns = () if self.missing else columns

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """The count and the bytes."""
        bytes_held = or_none(self._by_pid)
        if bytes_held is None:
            return [None, None]
        own = self._pids() & bytes_held.keys()
        if own:
            self.others = {pid: bytes_held[pid] for pid in bytes_held.keys() - own}
        sizes = [memory for pid in own if (memory := bytes_held[pid]) is not None]
        return [len(bytes_held), sum(sizes) if sizes else None]

    def _list(self, name: str) -> Any:
        return ask(self._nvml, named_in(self._nvml, name), self._device.handle)

    def _by_pid(self) -> dict[int, int | None]:
        """Bytes by process, None if NVML does not report them."""
        sizes: dict[int, int | None] = {}
        for function in self._lists:
            for process in ask(self._nvml, function, self._device.handle):
                memory, before = process.usedGpuMemory, sizes.get(process.pid)
                # Two lists may name the same memory of a process.
                sizes[process.pid] = before if memory is None else max(memory, before or 0)
        return sizes


MOST = 8
"""Processes of one GPU that are named, the largest first."""

CHECKED_SECONDS = 10.0
"""Shortest time between two namings: each is looked up, and the manifest is written."""


@dataclass(frozen=True)
class OtherProcess:
    """A process beside the run; None stands for unknown."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU."""
    program: str | None = None
    user: str | None = None


class OtherProcesses:
    """Names the processes that ``sources`` found, again whenever they change."""

    def __init__(self, sources: Sequence[ProcessSource]) -> None:
        self._sources = sources
        self._named_pids: dict[str, frozenset[int]] = {}
        self._due = 0.0

    def changed(self, now: float) -> dict[str, list[OtherProcess]] | None:
        """By prefix of each GPU's columns; None if they are those of before. ``now`` is in seconds
        of a monotonic clock."""
        # Each is replaced as a whole by the thread that asks the driver.
        by_gpu = {source.prefix: source.others for source in self._sources}
        pids = {prefix: frozenset(others) for prefix, others in by_gpu.items() if others}
        if pids == self._named_pids or now < self._due:
            return None
        self._named_pids, self._due = pids, now + CHECKED_SECONDS
        return {prefix: _named(by_gpu[prefix]) for prefix in pids}


def _named(sizes: dict[int, int | None]) -> list[OtherProcess]:
    largest = sorted(sizes.items(), key=lambda item: -(item[1] or 0))[:MOST]
    return [_process(pid, memory) for pid, memory in largest]


def _process(pid: int, memory: int | None) -> OtherProcess:
    name = user = None
    # It has ended, or may not be looked at.
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        with suppress(psutil.Error, OSError, KeyError):
            user = process.username()
        name = program(process.name(), process.cmdline())
    return OtherProcess(pid, memory, name, user)
