"""On which file system a path is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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

MEMORY = frozenset(("tmpfs", "ramfs"))
"""File systems in memory."""


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    point: str
    kind: str


def mount_of(path: Path, mountinfo: Path = MOUNTINFO) -> Mount | None:
    """The file system that holds the absolute ``path``, by the lines of proc_pid_mountinfo(5); None
    where they are not there, or name none."""
    try:
        lines = mountinfo.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    found: Mount | None = None
    for line in lines:
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = _unescaped(fields[4])
        # Of several at one place the last one hides the others.
        if path.is_relative_to(point) and (found is None or len(point) >= len(found.point)):
            found = Mount(point, after.split(" ")[0])
    return found


def _unescaped(text: str) -> str:
    """Spaces and the like are octal in it."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
