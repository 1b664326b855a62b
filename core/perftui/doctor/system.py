"""What this Linux runs in (container, WSL), and its clock source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perftui.doctor.files import ROOT, read
from perftui.doctor.row import Row, ok, unknown, warn

CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"

SLOW_CLOCKS = frozenset(("hpet", "acpi_pm", "jiffies", "refined-jiffies"))
"""Those that are read by a system call, 1 us and more each time."""

_MARKS = ("docker", "kubepods", "containerd", "libpod", "lxc")
"""Of container runtimes in the names of cgroups."""


def container_row(environment: Mapping[str, str], root: Path = ROOT) -> Row:
    """In which container this runs, if in any."""
    kind = container(environment, root)
    if kind is None and read(root, "proc/self/cgroup") is None:
        return unknown("container", "the system does not report it")
    return ok("container", kind or "none found")


def container(environment: Mapping[str, str], root: Path = ROOT) -> str | None:
    """What kind of container this is in; None where nothing shows one."""
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "Kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    names = f"{read(root, 'proc/1/cgroup') or ''}\n{read(root, 'proc/self/cgroup') or ''}"
    found = next((mark for mark in _MARKS if mark in names), None)
    return found or environment.get("container") or None


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
