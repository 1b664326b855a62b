"""Files that are replaced whole, so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def replace_file(
    path: Path, content: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """Write ``content`` to ``path`` in one step: readers see the old file or the new one.

    The new file gets all bits of ``mode``, and ``owner`` (user and group id), where given.

    Raises:
        PermissionError: the file cannot be given to ``owner``; the old file is then untouched.
        OSError: the directory cannot be written; the old file is then untouched.
    """
    with replacing(path, mode, owner) as file:
        file.write(content)


@contextmanager
def replacing(
    path: Path, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` in one step as the block ends; where
    it ends with an exception, the old file is untouched.

    The parameters and errors are those of ``replace_file``.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if owner is not None:
                _give(file.fileno(), owner, path)
            # After the owner, as a change of owner clears the set-user-id and set-group-id bits.
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _give(handle: int, owner: tuple[int, int], path: Path) -> None:
    status = os.fstat(handle)
    if (status.st_uid, status.st_gid) == owner:
        return
    try:
        os.fchown(handle, *owner)
    except OSError as error:
        user, group = owner
        message = f"it belongs to user {user} and group {group}, which cannot be preserved"
        raise PermissionError(error.errno, message, str(path)) from error
