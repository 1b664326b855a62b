"""The kernel's policy for the clocks of the processor."""

from __future__ import annotations

from perftui.telemetry.files import SYS, read_or_empty


def cpu_governor(sys: str = SYS) -> str:
    """``performance``, ``powersave``..., of the first core; empty where the system has none, as in
    most virtual machines."""
    path = f"{sys}/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return read_or_empty(path).decode("utf-8", "replace").strip()
