"""Small files of /proc and /sys, read by few system calls: some hundred of them make a sample.

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


def read(path: str) -> bytes:
    """The whole file at ``path``.

    Raises:
        OSError: it is not there, may not be read, or what it is about has ended.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        # The kernel returns a page at a time of those it makes up when they are read.
        while chunk := os.read(file, _CHUNK):
            content += chunk
        return content
    finally:
        os.close(file)


def read_or_empty(path: str) -> bytes:
    """The whole file at ``path``, empty where it cannot be read (now, or at all)."""
    try:
        return read(path)
    except OSError:
        return b""


def record(path: str) -> bytes:
    """The file at ``path``, empty where it cannot be read, by one call: of those that the kernel
    makes up as a whole, as most below ``/proc/<pid>`` are. A run may have hundreds of processes."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, _CHUNK)
    except OSError:
        # What it is about has ended meanwhile.
        return b""
    finally:
        os.close(file)


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
    """Where the symbolic link ``path`` leads, empty where it cannot be read."""
    try:
        return os.readlink(path)  # noqa: PTH115 - text, as all paths here
    except OSError:
        return ""


def names_in(directory: str) -> list[str]:
    """Names in ``directory``, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - text, as all paths here
    except OSError:
        return []


def number(content: bytes) -> int | None:
    """The whole number that ``content`` is, None where it is anything else."""
    word = content.strip()
    return int(word) if word.isdigit() else None


def numbers(words: Iterable[bytes]) -> list[int] | None:
    """Integers of ``words``; None if any is not one."""
    found = [*words]
    return [int(word) for word in found] if all(word.isdigit() for word in found) else None


def count_of(name: bytes, content: bytes) -> int | None:
    """The number behind ``name``, up to the end of its line; ``b"\\nname:"`` begins a line that is
    not the first. Looking for some lines of a long file is quicker than for all."""
    return number(content.partition(name)[2].partition(b"\n")[0])


def fields(content: bytes) -> dict[bytes, int]:
    """Numbers by name, of lines such as ``nr_throttled 5`` or ``MemFree:  123 kB``."""
    found = {}
    for line in content.splitlines():
        words = line.split()
        if len(words) in (2, 3) and words[1].isdigit():
            found[words[0].rstrip(b":")] = int(words[1])
    return found


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
