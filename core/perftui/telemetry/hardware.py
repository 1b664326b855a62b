"""Which of the kernel's devices are real: layers above them count the same bytes again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

BLOCK = Path("/sys/block")
NETWORK = Path("/sys/class/net")


def real_devices(names: Iterable[str], devices: Path) -> frozenset[str]:
    """Those of ``names`` that sysfs ties to hardware; all of them where it ties none.

    Loop, RAM, device-mapper and RAID disks, partitions, bridges and virtual interfaces have no
    ``device`` link. In a container, and outside Linux, nothing may have one.
    """
    known = frozenset(names)
    real = frozenset(name for name in known if (devices / name / "device").exists())
    return real or known
