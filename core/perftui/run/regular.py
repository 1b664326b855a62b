"""Files of a run directory that comes from anybody: only ordinary ones, and no endless ones."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 64 * 1024 * 1024
"""Of a file that is read whole; manifests and records have a few KiB, sources seldom a MiB."""


def open_regular(path: Path) -> BinaryIO:
    """The file at ``path``, or that a link there leads to, for reading.

    Raises:
        OSError: it cannot be read, or is a pipe, a device or a directory: a pipe would never be
            answered, and some devices never end.
    """
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Everything in the file at ``path``.

    Raises:
        OSError: it cannot be read, is no ordinary file, or has more than ``most`` bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return content
