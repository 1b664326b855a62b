"""Small files of /proc and /sys, read by few system calls: a sample reads some hundred.

Paths are text: making an object of each would take longer than reading most of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = "/proc"
SYS = "/sys"

_CHUNK = 64 * 1024


def read(path: str, *, whole: bool = True) -> bytes:
    """The file at ``path``, the ``whole`` or what a single call returns of it. Raises OSError if it
    is missing, unreadable, or its subject has ended."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(file, _CHUNK)
        # The kernel returns generated files one page at a time.
        while whole and (chunk := os.read(file, _CHUNK)):
            content += chunk
        return content
    finally:
        os.close(file)


def read_or_empty(path: str) -> bytes:
    """The whole file at ``path``, empty if it cannot be read."""
    try:
        return read(path)
    except OSError:
        return b""


def record(path: str) -> bytes:
    """The file at ``path`` by a single call, empty if it cannot be read: for files that the kernel
    generates as a whole, as most below ``/proc/<pid>``. A run may have hundreds of processes."""
    try:
        return read(path, whole=False)
    except OSError:
        return b""


def why_unreadable(path: str) -> str:
    """Why the file at ``path`` cannot be read, such as ``Permission denied``; empty if it can."""
    try:
        read(path)
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def exists(path: str) -> bool:
    """Whether there is anything at ``path``."""
    return os.path.exists(path)  # noqa: PTH110 - text, as all paths here


def link(path: str) -> str:
    """Target of the symbolic link ``path``, empty if it cannot be read."""
    try:
        return os.readlink(path)  # noqa: PTH115 - text, as all paths here
    except OSError:
        return ""


def names_in(directory: str) -> list[str]:
    """Names in ``directory``, sorted; empty if it cannot be read."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - text, as all paths here
    except OSError:
        return []


def number(content: bytes) -> int | None:
    """``content`` as an integer, None if it is not one."""
    word = content.strip()
    return int(word) if word.isdigit() else None


def numbers(words: Iterable[bytes]) -> list[int] | None:
    """Integers of ``words``; None if any is not one."""
    texts = [*words]
    return [int(word) for word in texts] if all(word.isdigit() for word in texts) else None


def count_of(name: bytes, content: bytes) -> int | None:
    """The number behind ``name``, up to the end of its line; ``b"\nname:"`` matches any line but
    the first. Searching for a few lines of a long file is quicker than parsing all."""
    return number(content.partition(name)[2].partition(b"\n")[0])


def fields(content: bytes) -> dict[bytes, int]:
    """Numbers by name, from lines such as ``nr_throttled 5`` or ``MemFree:  123 kB``."""
    values = {}
    for line in content.splitlines():
        words = line.split()
        if len(words) in (2, 3) and words[1].isdigit():
            values[words[0].rstrip(b":")] = int(words[1])
    return values


NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "virtiofs", "ceph"),
        *("lustre", "gpfs", "beegfs", "pvfs2", "orangefs", "glusterfs", "panfs", "wekafs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs"),
        *("fuse.goofys", "fuse.rclone", "fuse.mount-s3", "fuse.blobfuse2", "fuse.cephfs"),
    )
)
"""File systems on other machines, by their names in mountinfo."""

NFS = frozenset(("nfs", "nfs4"))
"""File systems of the kernel's NFS client, which has counters."""

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
    """Number of its device, such as ``254:1``; ``0:...`` is a virtual device."""
    source: str = ""
    """Mounted device or share, such as ``/dev/sda1`` or ``server:/export``."""


def mount_of(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> Mount | None:
    """The file system that holds the absolute ``path``, by the lines of proc_pid_mountinfo(5); None
    if there are none, or none fits."""
    return mount_holding(str(path), mounts_in(read_or_empty(str(mountinfo))))


def mounts_in(mountinfo: bytes) -> list[Mount]:
    """Mounts of a ``/proc/<pid>/mountinfo``, in its order."""
    mounts = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(b" - ")
        fields, rest = before.split(b" "), after.split(b" ")
        if dash and len(fields) >= 5:
            point, number = unescaped(fields[4]), unescaped(fields[2])
            source = unescaped(rest[1]) if len(rest) > 1 else ""
            mounts.append(Mount(point, unescaped(rest[0]), number, source))
    return mounts


def mount_holding(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds the absolute ``path``. File systems are not asked: a network file system
    that is gone never answers."""
    result = None
    for mount in mounts:
        point = mount.point.rstrip("/")
        # The last of several mounts at one place hides the others.
        if (path == point or path.startswith(f"{point}/")) and (
            result is None or len(mount.point) >= len(result.point)
        ):
            result = mount
    return result


def unescaped(word: bytes) -> str:
    """``word`` with octal escapes of spaces and the like replaced."""
    raw = re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), word)
    return raw.decode("utf-8", "surrogateescape")
