"""The version of NVIDIA's driver, without asking it."""

from __future__ import annotations

import re

from perftui.telemetry.files import PROC, read_or_empty

_VERSION = re.compile(rb"\b(\d{3,}\.\d+(?:\.\d+)?)\b")


def driver_version(proc: str = PROC) -> str | None:
    """Of the kernel module, ``580.65.06``; None where it is not loaded, as on WSL."""
    found = _VERSION.search(read_or_empty(f"{proc}/driver/nvidia/version"))
    return found[1].decode() if found else None
