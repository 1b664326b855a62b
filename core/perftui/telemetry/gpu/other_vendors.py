"""Display cards that NVML does not know, by the vendor that the PCI bus names."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

PCI_DEVICES = Path("/sys/bus/pci/devices")

AMD = "AMD"

VENDORS = {"0x1002": AMD, "0x8086": "Intel"}
"""By number of the PCI vendor."""

DISPLAY = "0x03", "0x12"
"""Classes of devices: display controllers, and processing accelerators."""


def other_vendors(root: Path = PCI_DEVICES) -> frozenset[str]:
    """Vendors of this machine's GPUs, besides NVIDIA; empty where the system lists none."""
    found = {VENDORS.get(_text(one / "vendor")) for one in _displays(root)}
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.add("Apple")
    return frozenset(vendor for vendor in found if vendor)


def _displays(root: Path) -> list[Path]:
    try:
        devices = list(root.iterdir())
    except OSError:
        return []
    return [device for device in devices if _text(device / "class").startswith(DISPLAY)]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        # It was unplugged meanwhile.
        return ""
