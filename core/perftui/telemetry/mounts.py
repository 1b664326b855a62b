"""On which file system a path is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perftui.telemetry.files import read_or_empty

MOUNTINFO = Path("/proc/self/mountinfo")

NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "virtiofs", "ceph"),
        *("lustre", "gpfs", "beegfs", "pvfs2", "orangefs", "glusterfs", "panfs", "wekafs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs"),
        *("fuse.goofys", "fuse.rclone", "fuse.mount-s3", "fuse.blobfuse2", "fuse.cephfs"),
    )
)
"""File systems whose files lie elsewhere, by the names that mountinfo has."""

NFS = frozenset(("nfs", "nfs4"))
"""Those of the kernel's NFS client, which counts what it does."""

MEMORY = frozenset(("tmpfs", "ramfs"))
"""File systems in memory."""


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    point: str
    """Directory on which it is mounted."""
    kind: str
    """Its name, such as ``ext4``."""
    number: str = ""
    """Its device, as ``254:1``; ``0:...`` is of one that the kernel made up."""
    source: str = ""
    """What is mounted, such as ``/dev/sda1`` or ``server:/export``."""


def mount_of(path: Path, mountinfo: Path = MOUNTINFO) -> Mount | None:
    """The file system that holds the absolute ``path``, by the lines of proc_pid_mountinfo(5); None
    where they are not there, or name none."""
    return mount_holding(str(path), mounts_in(read_or_empty(str(mountinfo))))


def mounts_in(mountinfo: bytes) -> list[Mount]:
    """Mounts of a ``/proc/<pid>/mountinfo``, in its order."""
    found = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(b" - ")
        fields, rest = before.split(b" "), after.split(b" ")
        if dash and len(fields) >= 5:
            point, number = unescaped(fields[4]), unescaped(fields[2])
            source = unescaped(rest[1]) if len(rest) > 1 else ""
            found.append(Mount(point, unescaped(rest[0]), number, source))
    return found


def mount_holding(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds the absolute ``path``. No file system is asked: one on a network that
    is gone never answers."""
    found = None
    for mount in mounts:
        point = mount.point.rstrip("/")
        # Of several at one place the last one hides the others.
        if (path == point or path.startswith(f"{point}/")) and (
            found is None or len(mount.point) >= len(found.point)
        ):
            found = mount
    return found


def unescaped(word: bytes) -> str:
    """Spaces and the like are octal in it."""
    raw = re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), word)
    return raw.decode("utf-8", "surrogateescape")
