"""Files of a run: read only if ordinary and of a known schema, and replaced as a whole."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec


def replace_file(
    path: Path, content: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """Write ``content`` to ``path`` in one step: readers see the old file or the new one.

    The new file gets all bits of ``mode``, and ``owner`` (user and group id), if given.

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
    """A file to write to, which replaces ``path`` in one step as the block ends; after an exception
    the old file is untouched.

    The parameters and errors are those of ``replace_file``."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if owner is not None:
                _give(file.fileno(), owner, path)
            # After the owner: changing that clears the set-user-id and set-group-id bits.
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


def user_directory(variable: str, below_home: str) -> Path:
    """Our directory in the one that ``variable`` names by the XDG base directory specification, or
    else ``below_home``. No absolute path for a user without a home."""
    shared = Path(os.environ.get(variable, ""))
    if not shared.is_absolute():
        # By the specification a relative path is ignored.
        home = os.environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - it never raises
        shared = Path(home) / below_home
    return shared / "perftui"


MOST_BYTES = 64 * 1024 * 1024
"""Largest file that is read whole; manifests and records have a few KiB, sources seldom a MiB."""


def open_regular(path: Path) -> BinaryIO:
    """The file at ``path``, or at the target of a link there, for reading. Raises OSError if it
    cannot be read, or is a pipe, a device or a directory: a pipe would wait for its writer, and
    some devices never end."""
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
    """Everything in the file at ``path``. Raises OSError if it cannot be read, is no ordinary file,
    or has more than ``most`` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return content


DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions from decoding JSON that was cut off, overwritten or made to do harm."""


Content = TypeVar("Content")


class UnreadableError(ValueError):
    """The file is damaged, or newer than this version can read; the message says which."""


class NewerError(UnreadableError):
    """The file was written by a newer version; the message says so."""


class _Schema(msgspec.Struct):
    schema: int = 1


def _decode(content: bytes, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Names that are not UTF-8 are written with escapes that only the standard library accepts.
        with suppress(ValueError):
            return msgspec.convert(json.loads(content), kind, str_keys=True)
        raise


def decode_versioned(content: bytes, kind: type[Content], newest: int, what: str) -> Content:
    """Decode ``content`` as ``kind``, whose schema is ``newest``; unknown fields are ignored.

    Raises:
        NewerError: its ``schema`` is a newer one.
        UnreadableError: it is not ``what``.
    """
    try:
        # The schema first: fields of a newer schema may not fit this version's.
        schema = _decode(content, _Schema).schema
        if schema > newest:
            raise NewerError(f"written by a newer perftui (schema {schema}; this reads {newest})")
        return _decode(content, kind)
    except DAMAGE as error:
        raise UnreadableError(f"not {what} ({error})") from error


def read_or_none(
    path: Path, kind: type[Content], newest: int, what: str, most: int = MOST_BYTES
) -> Content | None:
    """The content of ``path`` by ``decode_versioned``; None where there is none of at most ``most``
    bytes that this version can read."""
    try:
        return decode_versioned(read_regular(path, most), kind, newest, what)
    except (OSError, UnreadableError):
        return None
