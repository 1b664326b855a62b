"""How much of the machine this run may use: affinity and cgroup limits, not what is installed."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

from perftui.telemetry.files import fields, number, read_or_empty

CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cores(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int:
    """Cores the training may use: affinity, and the tightest quota of the cgroups above it."""
    quota = cpu_quota(root, own)
    cores = affinity()
    return cores if quota is None else min(cores, max(1, math.ceil(quota)))


def cpu_quota(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> float | None:
    """Cores' worth of time by the tightest quota of the cgroups above, None without limit."""
    quotas = map(quota_of, cpu_groups(root, own))
    return min((quota for quota in quotas if quota is not None), default=None)


def cpu_groups(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> list[Path]:
    """Directories of the cgroups with a quota of CPU time, of v2 and of v1."""
    return [*groups(root, own), *groups(root, own, "cpu")]


def quota_of(group: Path) -> float | None:
    """Cores that ``group`` may use on average, None without limit.

    ``cpu.max`` of v2 is "quota period" in us or "max period"; v1 has a file for each, and a quota
    of -1 without limit.
    """
    words = read_or_empty(f"{group}/cpu.max").split()
    if not words:
        words = [read_or_empty(f"{group}/cpu.cfs_{name}_us") for name in ("quota", "period")]
    if len(words) != 2:
        return None
    quota, period = map(number, words)
    return quota / period if quota and period else None


def usable_memory(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int:
    """Bytes the training may use: those installed, or the tightest ``memory.max`` (cgroup v2)."""
    limit = memory_limit(root, own)
    return _installed() if limit is None else min(_installed(), limit)


def memory_limit(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> int | None:
    """Bytes by the tightest ``memory.max`` (cgroup v2), None without limit."""
    return min((limit for limit, _ in _memory_limits(root, own)), default=None)


def memory_group(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> Path | None:
    """The cgroup (v2) with the tightest memory limit; None if installed memory is the limit."""
    limit, group = min(_memory_limits(root, own), default=(_installed(), None))
    return group if limit < _installed() else None


def group_memory(group: Path) -> tuple[int, int] | None:
    """Bytes that the processes in ``group`` hold, without pages of files unused lately, which are
    given back when memory runs short (the "working set" of container runtimes); and all pages of
    files, without shared memory. None if the kernel does not report them."""
    current = number(read_or_empty(f"{group}/memory.current"))
    stat = fields(read_or_empty(f"{group}/memory.stat"))
    if current is None or b"inactive_file" not in stat:
        return None
    cached = stat.get(b"file", 0) - stat.get(b"shmem", 0)
    return max(current - stat[b"inactive_file"], 0), max(cached, 0)


def _memory_limits(root: Path, own: Path) -> list[tuple[int, Path]]:
    limits = [(number(read_or_empty(f"{group}/memory.max")), group) for group in groups(root, own)]
    return [(limit, group) for limit, group in limits if limit is not None]


def _installed() -> int:
    return int(psutil.virtual_memory().total)


def affinity() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def groups(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP, controller: str = "") -> list[Path]:
    """Directories of this process's cgroup (v2) and its ancestors, whose limits apply too; those of
    v1 with a ``controller``, of which each has its own.

    A container sees its own group as the root, in v1 under the path it has on the host.
    """
    for controllers, path in _own_groups(own):
        if controller in controllers.split(","):
            base = root / controller
            is_root = ".." in path.parts or (controller and not (base / path).is_dir())
            path = Path() if is_root else path
            return [base / path, *(base / parent for parent in path.parents)]
    return []


def _own_groups(own: Path) -> list[tuple[str, Path]]:
    """Controllers (none for v2) and path from the root, for each line of ``own``."""
    lines = read_or_empty(str(own)).decode("utf-8", "surrogateescape").splitlines()
    words = (line.split(":", 2) for line in lines)
    return [(parts[1], Path(parts[2].lstrip("/"))) for parts in words if len(parts) == 3]
