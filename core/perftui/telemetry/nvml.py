"""Opens NVML, or says why it cannot be."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class NoGpuError(Exception):
    """There is no GPU to ask; the message is for the user."""


def open_nvml(library: ModuleType | None = None) -> Any:
    """The initialised ``pynvml`` module (or ``library`` in its place).

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
    return nvml


def answer(nvml: Any, ask: Any, *arguments: Any) -> Any:
    """What one NVML call returns, None where the card does not answer it (now, or at all)."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return None
    except AttributeError:
        # An older binding or driver library lacks the function.
        return None
