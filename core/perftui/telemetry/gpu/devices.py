"""The cards that NVML lists, and the MIG devices of those that are divided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from perftui.telemetry.gpu.names import Gpu
from perftui.telemetry.gpu.nvml import RefusedError, ask, function_of


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
