"""What a cached trace must agree with to be used: the file it was read from, and our own code."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from pathlib import Path

from perftui import __version__
from perftui.run.files import open_regular

_END = 64 * 1024
"""Bytes at each end of the file that are hashed."""

_JOURNALS = ("-wal", "-journal")

SIZE = 32
"""Bytes in an identity."""


def file_identity(path: Path) -> bytes | None:
    """Distinguishes files, and states of one file, without reading all of it.

    Its size, the times of its last changes, its inode and the first and last 64 KiB. The time of
    the inode's change is among them because programs that copy set the other one back. None for
    what cannot be read and for what is no regular file: a pipe can be read only once.

    The journals of a database count too: what lies in them is not in the file, and is warned of. A
    change that has gone into the file shows in its first 64 KiB: SQLite counts them there.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            ends = file.read(_END)
            file.seek(max(len(ends), status.st_size - _END))
            ends += file.read(_END)
    except OSError:
        return None
    times = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino} "
    journals = " ".join(str(_size(each)) for each in journals_of(path))
    return digest(f"{times}{journals} ".encode() + ends)


def journals_of(path: Path) -> tuple[Path, ...]:
    """Where SQLite puts what it has not yet written into a database."""
    return tuple(path.with_name(path.name + suffix) for suffix in _JOURNALS)


def _size(path: Path) -> int:
    """Bytes of a file; 0 for one that is not there or cannot be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def code_identity(*rooms: Path) -> bytes:
    """The version of perftui and the sources of these packages.

    What a trace was made into is right for the code that made it only: a field that is added and a
    number that is mended both show here, and nobody has to remember it. Reading and hashing
    80 files takes 2.5 ms.
    """
    state = hashlib.blake2b(f"{__version__} {sys.byteorder} ".encode(), digest_size=SIZE)
    for room in rooms:
        for source in sorted(each for kind in ("py", "c", "h") for each in room.rglob(f"*.{kind}")):
            text = source.read_bytes()
            state.update(f"{source.relative_to(room)} {len(text)} ".encode())
            state.update(text)
    return state.digest()


def digest(text: bytes) -> bytes:
    """A checksum of ``SIZE`` bytes that two texts do not share."""
    return hashlib.blake2b(text, digest_size=SIZE).digest()
