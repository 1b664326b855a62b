"""The NVML library: opened, asked, and why where it does not answer."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


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
