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
    quota = cpu_quota(root, own)
    cores = affinity()
    return cores if quota is None else min(cores, max(1, math.ceil(quota)))


def cpu_quota(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> float | None:
    """Cores' worth of time by the tightest ``cpu.max`` (cgroup v2), None without limit."""
    quotas = (_quota(group / "cpu.max") for group in _groups(root, own))
    return min((one for one in quotas if one is not None), default=None)


def usable_memory(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int:
    """Bytes the training may use: those installed, or the tightest ``memory.max`` (cgroup v2)."""
    limit = memory_limit(root, own)
    return _installed() if limit is None else min(_installed(), limit)


def memory_limit(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int | None:
    """Bytes by the tightest ``memory.max`` (cgroup v2), None without limit."""
    return min((limit for limit, _ in _memory_limits(root, own)), default=None)


def memory_group(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> Path | None:
    """The cgroup (v2) with the tightest limit of memory; None where what is installed limits."""
    limit, group = min(_memory_limits(root, own), default=(_installed(), None))
    return group if limit < _installed() else None


def memory_of_group(group: Path) -> int | None:
    """Bytes that processes of ``group`` hold; None where the kernel does not report them.

    Pages of files that nothing has used lately are left out: they are given back when memory runs
    short (the "working set" of container runtimes).
    """
    current = _read(group / "memory.current")
    lines = (_read(group / "memory.stat") or "").splitlines()
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    unused = fields.get("inactive_file", "")
    if not current or not current.isdecimal() or not unused.isdecimal():
        return None
    return max(int(current) - int(unused), 0)


def _memory_limits(root: Path, own: Path) -> list[tuple[int, Path]]:
    texts = [(_read(group / "memory.max"), group) for group in _groups(root, own)]
    return [(int(text), group) for text, group in texts if text and text.isdecimal()]


def _installed() -> int:
    return int(psutil.virtual_memory().total)


def affinity() -> int:
    """Cores that this process may be put on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _groups(root: Path, own: Path) -> list[Path]:
    """Directories of this process's cgroup and of those above it, whose limits hold too."""
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
