"""CUPTI, by which torch's profiler sees kernels: its library, its counters, who else uses it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from perftui.doctor.environment import version_of
from perftui.doctor.files import (
    PERFMON,
    ROOT,
    SYS_ADMIN,
    has_capability,
    processes,
    read,
)
from perftui.doctor.gpu import NO_GPU, Driver, Nvml
from perftui.doctor.interpreter import Interpreter
from perftui.doctor.row import Row, fails, ok, unknown, warn

PERFMON_FROM = 565
"""Driver from which CAP_PERFMON is enough for counters: NVIDIA's page on ERR_NVGPUCTRPERM."""

NSIGHT = frozenset(("nsys", "ncu", "nsys-launcher", "nv-nsight-cu-cli"))
DCGM = frozenset(("nv-hostengine", "dcgm-exporter"))
"""Daemons that may watch the profiling metrics of a card all the time."""

INJECTION = "CUDA_INJECTION64_PATH"
"""A library that CUDA loads into every process: how profilers get in (pytorch#117935)."""


def library_row(
    torch: Interpreter,
    driver: Driver,
    nvml: Nvml,
    environment: Mapping[str, str],
) -> Row:
    """Whether torch's CUPTI is there and fits the driver."""
    topic = "CUPTI"
    if torch.torch is None:
        return unknown(topic, "there is no torch")
    built = version_of(torch.cuda or "")
    if built is None:
        return ok(topic, "not needed: torch is not built for CUDA")
    if not driver.is_there:
        return ok(topic, f"for CUDA {torch.cuda}; {NO_GPU}")
    if nvml.cuda is not None and built > nvml.cuda:
        return _too_new(built, nvml.cuda)
    strange = _other_library(environment.get("LD_LIBRARY_PATH", ""), torch.cupti)
    if strange is not None:
        # pytorch#118982: the profiler then starts without kernels.
        return warn(
            topic,
            f"LD_LIBRARY_PATH contains another CUPTI, in {strange}",
            "Remove that directory from LD_LIBRARY_PATH: torch ships its own.",
        )
    if not torch.cupti:
        return unknown(topic, f"for CUDA {torch.cuda}; no CUPTI next to torch, or it is built in")
    if nvml.cuda is None:
        return unknown(topic, f"for CUDA {torch.cuda}; the CUDA version of the driver is not known")
    return ok(topic, f"for CUDA {torch.cuda}; the driver supports up to {_dotted(nvml.cuda)}")


def _too_new(built: tuple[int, int], known: tuple[int, int]) -> Row:
    found = f"torch is built for CUDA {_dotted(built)}, the driver supports up to {_dotted(known)}"
    advice = f"Update the driver, or install a build of PyTorch for CUDA {known[0]}."
    if built[0] > known[0]:
        return fails("CUPTI", found, advice)
    # CUPTI's documentation: it answers NOT_INITIALIZED where the driver is too old for it, while
    # kernels run all the same within one major version.
    return warn("CUPTI", found, f"If windows show no kernels: {advice[0].lower()}{advice[1:]}")


def _other_library(path: str, own: Sequence[str]) -> str | None:
    """The first directory of ``LD_LIBRARY_PATH`` with a CUPTI that is none of torch's."""
    places = {str(Path(one).resolve().parent) for one in own}
    for entry in filter(None, path.split(":")):
        directory = Path(entry)
        if any(directory.glob("libcupti.so*")) and str(directory.resolve()) not in places:
            return entry
    return None


def counters_row(driver: Driver, root: Path = ROOT) -> Row:
    """Whether performance counters are for administrators alone."""
    topic = "GPU counters"
    if driver.on_wsl:
        return unknown(topic, "Windows decides: NVIDIA Control Panel, Developer")
    text = read(root, "proc/driver/nvidia/params")
    if text is None:
        known = driver.is_there
        return unknown(topic, "the driver does not report it") if known else ok(topic, NO_GPU)
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", text, re.MULTILINE)
    if found is None:
        return unknown(
            topic, "the driver does not report whether they are restricted to administrators"
        )
    if found[1] == "0":
        return ok(topic, "for every user")
    may = has_capability(root, SYS_ADMIN) or (
        driver.major >= PERFMON_FROM and has_capability(root, PERFMON)
    )
    if may:
        return ok(topic, "for administrators, and this process is privileged")
    return warn(
        topic,
        "for administrators only (NVreg_RestrictProfilingToAdminUsers=1): ncu cannot measure",
        "Set it to 0 in /etc/modprobe.d and reload the driver; torch's profiler does not need it.",
    )


def other_profilers_row(driver: Driver, environment: Mapping[str, str], root: Path = ROOT) -> Row:
    """Whether another profiler is in the process already, or holds the card's counters."""
    topic = "other profilers"
    library = environment.get(INJECTION)
    if library:
        return warn(
            topic,
            f"{INJECTION} loads {library} into each process",
            f"Unset {INJECTION}: CUPTI supports one profiler per process.",
        )
    if read(root, "proc/self/status") is None:
        return unknown(topic, "the system does not show other processes")
    running = [(pid, name) for pid, name in processes(root) if name in NSIGHT | DCGM]
    nsight = [f"{name} ({pid})" for pid, name in running if name in NSIGHT]
    if nsight:
        return warn(
            topic,
            f"{', '.join(nsight)} runs",
            "A training started under it cannot also be profiled by torch: stop it first.",
        )
    if running and driver.is_there:
        names = ", ".join(f"{name} ({pid})" for pid, name in running)
        return warn(
            topic,
            f"DCGM is running and may hold the card's counters: {names}",
            "Run dcgmi profiling --pause before ncu; torch's profiler is not affected.",
        )
    return ok(topic, "none found")


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
