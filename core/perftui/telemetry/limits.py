"""How much of the machine this run may use: affinity and cgroup limits, not what is installed."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cores(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int:
    """Cores the training may use: affinity, and the tightest ``cpu.max`` above it (cgroup v2)."""
    cores = _affinity()
    for group in _groups(root, own):
        quota = _quota(group / "cpu.max")
        if quota is not None:
            cores = min(cores, max(1, math.ceil(quota)))
    return cores


def usable_memory(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int:
    """Bytes the training may use: those installed, or the tightest ``memory.max`` (cgroup v2)."""
    limits = [int(psutil.virtual_memory().total)]
    for group in _groups(root, own):
        text = _read(group / "memory.max")
        if text and text.isdecimal():
            limits.append(int(text))
    return min(limits)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _groups(root: Path, own: Path) -> list[Path]:
    """This process's cgroup and all those above it, whose limits hold too."""
    text = _read(own) or ""
    for line in text.splitlines():
        if line.startswith("0::"):
            relative = Path(line[3:].lstrip("/"))
            if ".." in relative.parts:
                return [root]
            return [root / relative, *(root / parent for parent in relative.parents)]
    return []


def _quota(path: Path) -> float | None:
    """Cores that ``cpu.max`` ("quota period" in us, or "max period") grants, None without limit."""
    words = (_read(path) or "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or words[1] == "0":
        return None
    return int(words[0]) / int(words[1])


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
