"""The model of the processor."""

from __future__ import annotations

import platform

from perftui.telemetry.files import PROC, read_or_empty

_FIELD = b"model name"


def cpu_name(proc: str = PROC) -> str:
    """``AMD EPYC 9534 64-Core Processor``; the architecture where the kernel names no model."""
    for line in read_or_empty(f"{proc}/cpuinfo").splitlines():
        field, _, value = line.partition(b":")
        if field.strip() == _FIELD and value.strip():
            return " ".join(value.decode("utf-8", "replace").split())
    return platform.machine()
