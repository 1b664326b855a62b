"""All rows about this machine: in what Linux runs, what it may use, and where runs are written."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path

from perftui import format as fmt
from perftui.doctor import gpu, interpreter
from perftui.doctor.row import ROOT, Row, fails, ok, read, unknown, warn, worst_first
from perftui.recorder.pyspy import find_pyspy
from perftui.recorder.spool import ROOM
from perftui.telemetry import limits
from perftui.telemetry.files import MEMORY, NETWORK, fields, mount_of, read_or_empty

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - only looked at

FEWEST_FILES = 1024
"""Soft limit that Linux sets by itself. Tensors that workers hand over may hold one each."""

NEARLY_ALL = 0.9
"""Share of the memory that may be used, from which on a warning is due."""


def cores_of(root: Path = ROOT) -> tuple[int, int, float | None]:
    """The cores of the machine, those of the affinity, and cores' worth of time by the cgroup, None
    without limit."""
    allowed = limits.affinity()
    return max(os.cpu_count() or 1, allowed), allowed, limits.cpu_quota(*_cgroup(root))


def memory_of(root: Path = ROOT) -> tuple[int, int | None, int | None, bool]:
    """Bytes of the machine, of the limit of the cgroup and of what is used of that, None without
    limit or where not reported; and whether the limit is known."""
    group = limits.memory_group(*_cgroup(root))
    usage = limits.group_memory(group) if group else None
    installed = 1024 * fields(read_or_empty(f"{root}/proc/meminfo")).get(b"MemTotal", 0)
    limit, used = limits.memory_limit(*_cgroup(root)), usage[0] if usage else None
    return installed, limit, used, not limits.groups(*_cgroup(root), "memory")


def cores_row(installed: int, allowed: int, quota: float | None) -> Row:
    """Whether the training has all cores."""
    reasons = []
    if allowed < installed:
        reasons.append(f"affinity allows {allowed}")
    if quota is not None and quota < installed:
        reasons.append(f"the cgroup allows {quota:.3g}")
    if not reasons:
        return ok("cores", fmt.several(installed, "core"))
    return warn(
        "cores",
        f"{installed} cores: {' and '.join(reasons)}",
        "Request more (docker --cpus, srun --cpus-per-task), or use no more loader workers than "
        "that.",
    )


def memory_row(installed: int, limit: int | None, used: int | None, is_known: bool) -> Row:
    """Whether the cgroup leaves less memory than there is."""
    if not installed:
        return unknown("memory", "the system does not report how much there is")
    if not is_known:
        return unknown("memory", f"{fmt.size(installed)}; cgroup v1 limits are not read")
    if limit is None or limit >= installed:
        return ok("memory", fmt.size(installed))
    text = f"the cgroup allows {fmt.size(limit)} of {fmt.size(installed)}"
    if used is not None and used > NEARLY_ALL * limit:
        return warn(
            "memory",
            f"{text}, with {fmt.size(used)} in use",
            "Request more (docker --memory, srun --mem), or stop other processes in it.",
        )
    return ok("memory", text)


def shared_memory_row(total: int | None, free: int) -> Row:
    """Whether loader workers can hand over batches; ``total`` is None without ``/dev/shm``."""
    topic = "shared memory"
    if total is None:
        return warn(
            topic, f"there is no {SHARED_MEMORY}", "Mount a tmpfs there: loader workers need it."
        )
    text = f"{fmt.size(total - free)} of {fmt.size(total)} in use"
    if free >= ROOM:
        return ok(topic, text)
    if total < ROOM:
        return warn(
            topic,
            f"{SHARED_MEMORY} has only {fmt.size(total)}: loader workers may die with a bus error",
            "Start the container with --shm-size=8g or --ipc=host.",
        )
    return warn(topic, text, f"Remove files that ended programs left in {SHARED_MEMORY}.")


def shared_memory(path: str = SHARED_MEMORY) -> tuple[int | None, int]:
    """Bytes that it has and that are free; None and 0 where it is not there."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None, 0
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def files_row(soft: int) -> Row:
    """Whether enough files can be open at once; ``soft`` is the limit, -1 for none."""
    if soft in (-1, resource.RLIM_INFINITY):
        return ok("open files", "no limit")
    if soft >= FEWEST_FILES:
        return ok("open files", f"{soft} at most")
    return warn(
        "open files",
        f"at most {soft}, too few for many loader workers",
        f"Run ulimit -n {4 * FEWEST_FILES} before the training.",
    )


def _cgroup(root: Path) -> tuple[Path, Path]:
    return root / "sys/fs/cgroup", root / "proc/self/cgroup"


CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"

SLOW_CLOCKS = frozenset(("hpet", "acpi_pm", "jiffies", "refined-jiffies"))
"""Clock sources that are read by a system call, 1 us and more each time."""

_MARKS = ("docker", "kubepods", "containerd", "libpod", "lxc")
"""Parts of cgroup names by which container runtimes are known."""


def container_row(environment: Mapping[str, str], root: Path = ROOT) -> Row:
    """The kind of container this runs in, if any."""
    kind = container(environment, root)
    if kind is None and read(root, "proc/self/cgroup") is None:
        return unknown("container", "the system does not report it")
    return ok("container", kind or "none found")


def container(environment: Mapping[str, str], root: Path = ROOT) -> str | None:
    """The kind of container this is in; None where nothing shows one."""
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "Kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    names = f"{read(root, 'proc/1/cgroup') or ''}\n{read(root, 'proc/self/cgroup') or ''}"
    runtime = next((mark for mark in _MARKS if mark in names), None)
    return runtime or environment.get("container") or None


def wsl_row(root: Path = ROOT) -> Row:
    """Whether this is Linux on Windows, and what is missing there."""
    release = read(root, "proc/sys/kernel/osrelease")
    if release is None:
        return unknown("WSL", "the system does not report it")
    if "microsoft" not in release.lower():
        return ok("WSL", "no")
    if "wsl2" not in release.lower():
        return warn("WSL", "WSL 1, which has no GPU", "wsl --set-version DISTRIBUTION 2")
    # NVIDIA's guide to CUDA on WSL: NVML answers a part of its queries; kineto#762.
    return warn(
        "WSL",
        "WSL 2: NVML lists no processes, and torch's profiler may record no kernels",
        "Update the Windows driver; if profiled windows show no kernels, record with --nsys.",
    )


def clock_row(root: Path = ROOT) -> Row:
    """Whether reading the clock is cheap, as each hook does it."""
    source = read(root, CLOCK)
    if source is None:
        return unknown("clock", "the system does not report its clock source")
    if source in SLOW_CLOCKS:
        return warn(
            "clock",
            f"the clock source is {source}: each reading takes at least 1 µs",
            "Check the kernel log for why tsc was dropped, and switch back to it if it is stable.",
        )
    return ok("clock", source)


LEAST_FREE = 64 << 20
"""Bytes: a run takes some 35 MB for each rank and each machine."""

ENOUGH_FREE = 2 << 30
"""Bytes: windows of a rank take 1 GiB at most."""


def existing(directory: Path) -> Path:
    """``directory``, or the nearest one above it that is there."""
    absolute = directory.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.exists())


def writable_row(directory: Path) -> Row:
    """Whether runs can be made in ``directory``, which need not be there yet."""
    base = existing(directory)
    if not base.is_dir() or not os.access(base, os.W_OK | os.X_OK):
        return fails(
            "run directory",
            f"{directory} is not writable",
            "Choose another directory with --runs DIR.",
        )
    return ok("run directory", str(directory))


def file_system_row(directory: Path, root: Path = ROOT) -> Row:
    """The kind of file system of ``directory``."""
    mount = mount_of(existing(directory), root / "proc/self/mountinfo")
    if mount is None:
        return unknown("file system", "the system does not report what is mounted")
    text = f"{mount.kind}, mounted at {mount.point}"
    if mount.kind in NETWORK:
        return warn(
            "file system",
            f"{text}: over the network",
            "Keep runs on a local disk with --runs DIR, unless several hosts record one run.",
        )
    if mount.kind in MEMORY:
        return warn(
            "file system",
            f"{text}: in memory, lost on reboot",
            "Keep runs on a disk with --runs DIR.",
        )
    return ok("file system", text)


def free_disk_row(directory: Path) -> Row:
    """Free disk space in ``directory``."""
    try:
        free = shutil.disk_usage(existing(directory)).free
    except OSError as error:
        return unknown("free disk", error.strerror or str(error))
    return judged_free(free)


def judged_free(free: int) -> Row:
    """A row that judges ``free`` bytes of disk space."""
    text = f"{fmt.size(free)} free for runs"
    advice = "Delete old runs (Runs screen, key d), or choose another directory with --runs DIR."
    if free < LEAST_FREE:
        return fails("free disk", text, advice)
    return warn("free disk", text, advice) if free < ENOUGH_FREE else ok("free disk", text)


def examine(python: str, runs: Path, more: tuple[Row, ...] = ()) -> tuple[Row, ...]:
    """All rows for trainings of the interpreter ``python`` whose runs are kept in ``runs``, with
    ``more``; worst first."""
    driver, nvml, base = gpu.driver_of(), gpu.ask_nvml(), os.environ
    try:
        answer = interpreter.ask(python)
    except interpreter.AskError as error:
        why = "the interpreter does not run"
        of_python = [interpreter.python_row(python, error)]
        of_python += [unknown(topic, why) for topic in ("torch", "agent", "sitecustomize", "CUPTI")]
        attempt = None
    else:
        of_python = [
            interpreter.python_row(python, answer),
            interpreter.torch_row(answer, has_gpu=driver.is_there),
            interpreter.agent_row(answer, is_built=interpreter.COMPILED.exists()),
            interpreter.sitecustomize_row(answer),
            gpu.library_row(answer, driver, nvml, base),
        ]
        attempt = interpreter.try_pyspy(python)
    rows = (
        *of_python[:-1],
        writable_row(runs),
        file_system_row(runs),
        free_disk_row(runs),
        interpreter.scope_row(),
        interpreter.pyspy_row(find_pyspy(), attempt),
        gpu.driver_row(driver),
        gpu.nvml_row(driver, nvml),
        of_python[-1],
        gpu.counters_row(driver),
        gpu.other_profilers_row(driver, base),
        container_row(base),
        wsl_row(),
        clock_row(),
        cores_row(*cores_of()),
        memory_row(*memory_of()),
        shared_memory_row(*shared_memory()),
        files_row(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        gpu.nsys_row(),
        gpu.ncu_row(),
        *more,
    )
    return worst_first(rows)
