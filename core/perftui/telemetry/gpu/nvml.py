"""The NVML library: opened, asked, and why where it does not answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from perftui.telemetry.files import PROC, read_or_empty
from perftui.telemetry.gpu.names import Gpu


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
    parts: tuple[Device, ...] = field(default_factory=tuple)
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
    gpu = Gpu(
        f"gpu{number}", _text(nvml, "nvmlDeviceGetName", handle) or "GPU", _uuid(nvml, handle)
    )
    is_divided = _is_divided(nvml, handle)
    parts = tuple(_mig_devices(nvml, gpu, handle)) if is_divided else ()
    return Device(gpu, handle, parts=parts, is_divided=is_divided)


def _is_divided(nvml: Any, handle: Any) -> bool:
    try:
        current, _ = ask(nvml, function_of(nvml, "nvmlDeviceGetMigMode"), handle)
    except RefusedError:
        # A card older than MIG.
        return False
    return bool(current)


def _mig_devices(nvml: Any, parent: Gpu, handle: Any) -> Iterator[Device]:
    try:
        most = ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    except RefusedError:
        return
    for number in range(most):
        try:
            part = ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            instance = ask(nvml, nvml.nvmlDeviceGetGpuInstanceId, part)
        except RefusedError:
            # Numbers have gaps where fewer devices were made than there is room for.
            continue
        name = _text(nvml, "nvmlDeviceGetName", part) or "MIG device"
        gpu = Gpu(f"{parent.prefix}.mig{number}", name, _uuid(nvml, part))
        size = re.search(r"MIG \S+", name)
        yield Device(gpu, part, size[0] if size else f"MIG {number}", handle, instance)


def _uuid(nvml: Any, handle: Any) -> str | None:
    return _text(nvml, "nvmlDeviceGetUUID", handle) or None


def _text(nvml: Any, function: str, handle: Any) -> str:
    try:
        found = ask(nvml, function_of(nvml, function), handle)
    except RefusedError:
        return ""
    # Older bindings return bytes.
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


_VERSION = re.compile(rb"\b(\d{3,}\.\d+(?:\.\d+)?)\b")


def driver_version(proc: str = PROC) -> str | None:
    """Of the kernel module, ``580.65.06``; None where it is not loaded, as on WSL."""
    found = _VERSION.search(read_or_empty(f"{proc}/driver/nvidia/version"))
    return found[1].decode() if found else None
