"""NVIDIA's card: its driver, NVML, CUPTI by which torch's profiler sees kernels, and its tools."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from perftui import format as fmt
from perftui.doctor.interpreter import Interpreter, version_of
from perftui.doctor.row import (
    PERFMON,
    ROOT,
    SYS_ADMIN,
    Row,
    fails,
    has_capability,
    ok,
    processes,
    read,
    unknown,
    warn,
)
from perftui.recorder.nsys import NsysError, find_nsys
from perftui.telemetry.gpu.nvml_library import NoGpuError, answer, driver_version, open_nvml

NVIDIA = "0x10de"
"""Vendor on the PCI bus."""

DISPLAY = "0x03"
"""First letters of the PCI classes of display controllers, also of 3D controllers."""

WSL_GPU = "dev/dxg"
"""The file by which WSL 2 gives a GPU to Linux."""

NO_GPU = "no NVIDIA GPU"


@dataclass(frozen=True)
class Driver:
    """What can be seen of an NVIDIA card without asking its driver."""

    version: str | None
    """Version of the kernel module, ``580.65.06``; None where it is not loaded, as on WSL."""
    on_bus: int
    """NVIDIA display controllers on the PCI bus."""
    devices: int
    """``/dev/nvidiaN`` that this process sees."""
    on_wsl: bool
    """Whether Windows gives its GPU to this Linux."""

    @property
    def is_there(self) -> bool:
        """Whether a driver answers here."""
        return self.on_wsl or (self.version is not None and self.devices > 0)

    @property
    def major(self) -> int:
        """First number of the version, 0 where it is not known."""
        return int(self.version.partition(".")[0]) if self.version else 0


@dataclass(frozen=True)
class Nvml:
    """NVML's answer."""

    cards: tuple[str, ...] = ()
    cuda: tuple[int, int] | None = None
    """CUDA that the driver knows, (12, 8); None where it does not say."""
    problem: str = ""


def driver_of(root: Path = ROOT) -> Driver:
    """The driver by what ``/proc``, ``/sys`` and ``/dev`` show."""
    cards = [
        path
        for path in (root / "sys/bus/pci/devices").glob("*")
        if read(path, "vendor") == NVIDIA and (read(path, "class") or "").startswith(DISPLAY)
    ]
    devices = [path for path in (root / "dev").glob("nvidia*") if path.name[6:].isdecimal()]
    return Driver(
        driver_version(str(root / "proc")), len(cards), len(devices), (root / WSL_GPU).exists()
    )


def ask_nvml(library: ModuleType | None = None) -> Nvml:
    """The cards that NVML (or ``library`` in its place) names, or why it names none."""
    try:
        nvml, count = open_nvml(library)
    except NoGpuError as error:
        return Nvml(problem=str(error))
    version = answer(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    cuda = (version // 1000, version % 1000 // 10) if version else None
    cards = (answer(nvml, nvml.nvmlDeviceGetHandleByIndex, at) for at in range(count))
    names = (answer(nvml, nvml.nvmlDeviceGetName, card) or "GPU" for card in cards)
    return Nvml(tuple(names), cuda)


def driver_row(driver: Driver) -> Row:
    """Whether there is a driver for the card."""
    if driver.on_wsl:
        return ok("NVIDIA driver", "that of Windows")
    if driver.version is None and driver.on_bus:
        return fails(
            "NVIDIA driver",
            "there is an NVIDIA GPU but no driver for it",
            "Install the NVIDIA driver, and reboot if it was just updated.",
        )
    if driver.version is None:
        return ok("NVIDIA driver", f"{NO_GPU}: trainings run, and are timed, on the CPU")
    if not driver.devices:
        return warn(
            "NVIDIA driver",
            f"{driver.version} is loaded, but this container or job has no GPU",
            "Start it with --gpus all (docker), nvidia.com/gpu (Kubernetes) or --gres=gpu (Slurm).",
        )
    return ok("NVIDIA driver", f"{driver.version}, {fmt.several(driver.devices, 'GPU')}")


def nvml_row(driver: Driver, nvml: Nvml) -> Row:
    """Whether GPU use, memory and clocks can be shown."""
    if nvml.cards:
        names = sorted(set(nvml.cards))
        return ok("NVML", ", ".join(f"{nvml.cards.count(name)} x {name}" for name in names))
    if not driver.is_there:
        return ok("NVML", NO_GPU)
    return warn(
        "NVML",
        f"{nvml.problem}: GPU use and memory are not shown",
        "Check nvidia-smi; reboot after a driver update.",
    )


PERFMON_FROM = 565
"""Driver from which CAP_PERFMON is enough for counters: NVIDIA's page on ERR_NVGPUCTRPERM."""

NSIGHT = frozenset(("nsys", "ncu", "nsys-launcher", "nv-nsight-cu-cli"))
DCGM = frozenset(("nv-hostengine", "dcgm-exporter"))
"""Daemons that may watch the profiling metrics of a card all the time."""

INJECTION = "CUDA_INJECTION64_PATH"
"""A library that CUDA loads into every process: how profilers get in (pytorch#117935)."""


def library_row(
    torch: Interpreter, driver: Driver, nvml: Nvml, environment: Mapping[str, str]
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
        newest = _dotted(nvml.cuda)
        text = f"torch is built for CUDA {_dotted(built)}, the driver supports up to {newest}"
        advice = f"Update the driver, or install a build of PyTorch for CUDA {nvml.cuda[0]}."
        if built[0] > nvml.cuda[0]:
            return fails(topic, text, advice)
        # CUPTI's documentation: it answers NOT_INITIALIZED where the driver is too old for it,
        # while kernels run all the same within one major version.
        return warn(topic, text, f"If windows show no kernels: {advice[0].lower()}{advice[1:]}")
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


def _other_library(path: str, own: Sequence[str]) -> str | None:
    """The first directory of ``LD_LIBRARY_PATH`` with a CUPTI that is none of torch's."""
    places = {str(Path(file).resolve().parent) for file in own}
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
        there = driver.is_there
        return unknown(topic, "the driver does not report it") if there else ok(topic, NO_GPU)
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", text, re.MULTILINE)
    if match is None:
        return unknown(
            topic, "the driver does not report whether they are restricted to administrators"
        )
    if match[1] == "0":
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


def nsys_row() -> Row:
    """Whether Nsight Systems can record windows."""
    if shutil.which("nsys") is None:
        return ok("nsys", "not found; needed only for --nsys and .nsys-rep files")
    try:
        path, version, _ = find_nsys()
    except NsysError as error:
        return warn("nsys", str(error), "Install a newer Nsight Systems for --nsys.")
    return ok("nsys", f"{version}, {path}")


def ncu_row() -> Row:
    """Whether Nsight Compute is there to measure kernels."""
    path = shutil.which("ncu")
    return ok("ncu", path or "not found; needed only for --ncu")
