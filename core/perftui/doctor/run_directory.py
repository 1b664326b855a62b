"""Where the run is written: whether it can be, on what, and how much room is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from perftui import format as fmt
from perftui.doctor.files import ROOT
from perftui.doctor.row import Row, fails, ok, unknown, warn
from perftui.telemetry.mounts import MEMORY, NETWORK, mount_of

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
    """On what kind of file system ``directory`` is."""
    mount = mount_of(existing(directory), root / "proc/self/mountinfo")
    if mount is None:
        return unknown("file system", "the system does not report what is mounted")
    found = f"{mount.kind}, mounted at {mount.point}"
    if mount.kind in NETWORK:
        return warn(
            "file system",
            f"{found}: over the network",
            "Keep runs on a local disk with --runs DIR, unless several hosts record one run.",
        )
    if mount.kind in MEMORY:
        return warn(
            "file system",
            f"{found}: in memory, lost on reboot",
            "Keep runs on a disk with --runs DIR.",
        )
    return ok("file system", found)


def free_disk_row(directory: Path) -> Row:
    """Free disk space in ``directory``."""
    try:
        free = shutil.disk_usage(existing(directory)).free
    except OSError as error:
        return unknown("free disk", error.strerror or str(error))
    return judged_free(free)


def judged_free(free: int) -> Row:
    """A row that judges ``free`` bytes of disk space."""
    found = f"{fmt.size(free)} free for runs"
    advice = "Delete old runs (Runs screen, key d), or choose another directory with --runs DIR."
    if free < LEAST_FREE:
        return fails("free disk", found, advice)
    return warn("free disk", found, advice) if free < ENOUGH_FREE else ok("free disk", found)
