"""The NVIDIA card, its driver, and NVML, which shows its use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from perftui.doctor.files import ROOT, read
from perftui.doctor.row import Row, fails, ok, warn
from perftui.telemetry.gpu.driver import driver_version
from perftui.telemetry.gpu.nvml import NoGpuError, answer, open_nvml

NVIDIA = "0x10de"
"""Vendor on the PCI bus."""

DISPLAY = "0x03"
"""How the classes of display controllers begin, of 3D controllers too."""

WSL_GPU = "dev/dxg"
"""How WSL 2 gives a GPU to Linux."""

NO_GPU = "no NVIDIA GPU"


@dataclass(frozen=True)
class Driver:
    """What is to be seen of an NVIDIA card without asking its driver."""

    version: str | None
    """Of the kernel module, ``580.65.06``; None where it is not loaded, as on WSL."""
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
    """What NVML said."""

    cards: tuple[str, ...] = ()
    cuda: tuple[int, int] | None = None
    """CUDA that the driver knows, (12, 8); None where it does not say."""
    problem: str = ""


def driver_of(root: Path = ROOT) -> Driver:
    """What ``/proc``, ``/sys`` and ``/dev`` show."""
    cards = [
        path
        for path in (root / "sys/bus/pci/devices").glob("*")
        if read(path, "vendor") == NVIDIA and (read(path, "class") or "").startswith(DISPLAY)
    ]
    devices = [one for one in (root / "dev").glob("nvidia*") if one.name[6:].isdecimal()]
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


def driver_row(found: Driver) -> Row:
    """Whether there is a driver for the card."""
    if found.on_wsl:
        return ok("NVIDIA driver", "that of Windows")
    if found.version is None and found.on_bus:
        return fails(
            "NVIDIA driver",
            "there is an NVIDIA GPU but no driver for it",
            "Install the NVIDIA driver, and reboot if it was just updated.",
        )
    if found.version is None:
        return ok("NVIDIA driver", f"{NO_GPU}: trainings run, and are timed, on the CPU")
    if not found.devices:
        return warn(
            "NVIDIA driver",
            f"{found.version} is loaded, but this container or job has no GPU",
            "Start it with --gpus all (docker), nvidia.com/gpu (Kubernetes) or --gres=gpu (Slurm).",
        )
    return ok("NVIDIA driver", f"{found.version}, {_cards(found.devices)}")


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


def _cards(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
