"""Which of the disks that the kernel counts is under a file system."""

from __future__ import annotations

import os
from collections.abc import Container

from perftui.telemetry.files import SYS, exists, link, names_in, read_or_empty
from perftui.telemetry.mounts import Mount


def counted_disk(mount: Mount, counted: Container[str], sys: str = SYS) -> str | None:
    """The name in ``/proc/diskstats`` of the disk that holds ``mount``, None where there is none.

    A partition is its whole disk: whatever else is read there makes it wait. A layer over disks,
    as of LVM or RAID, is itself, or the disk below it where the kernel does not count it.
    """
    number = mount.number
    if number.startswith("0:"):
        # btrfs and ZFS number their file systems themselves, and name the device.
        number = _number_of(mount.source)
    device = link(f"{sys}/dev/block/{number}") if number else ""
    if not device:
        return None
    place = f"{sys}/dev/block/{device}"
    if exists(f"{place}/partition"):
        place = place.rpartition("/")[0]
    return _counted(place.rpartition("/")[2], counted, sys)


def described(disk: str, sys: str = SYS) -> str:
    """``disk`` with the name that the administrator gave a mapped device."""
    name = read_or_empty(f"{sys}/block/{disk}/dm/name").decode("utf-8", "replace").strip()
    return f"{name} ({disk})" if name else disk


def _counted(name: str, counted: Container[str], sys: str) -> str | None:
    """``name``, or the only disk below it that is counted."""
    while name not in counted:
        below = names_in(f"{sys}/block/{name}/slaves")
        if len(below) != 1:
            return None
        name = below[0]
    return name


def _number_of(source: str) -> str:
    """Device number of a block device by its path, empty of anything else."""
    if not source.startswith("/dev/"):
        return ""
    try:
        device = os.stat(source).st_rdev  # noqa: PTH116 - text, as all paths here
    except OSError:
        return ""
    return f"{os.major(device)}:{os.minor(device)}"
