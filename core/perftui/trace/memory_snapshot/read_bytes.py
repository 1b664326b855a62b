"""The bytes of a pickle, plain or gzip, by content and not by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perftui.trace.errors import TraceError
from perftui.trace.kineto.inflate import GZIP_WINDOW, MAGIC, zlib
from perftui.trace.kineto.source import Source

MOST_INFLATED = 128
"""Times the file's size that is inflated: real snapshots shrink to a tenth or a twentieth, and gzip
can hold a thousand times its size."""

_ALWAYS = 1024 * 1024
"""Bytes that are inflated of any file."""


def read_bytes(path: Path, check: Callable[[], None]) -> tuple[bytes, Source]:
    """Read and inflate the file, within twice its (inflated) size; ``check`` may raise to stop.

    All that could be read of it, and where it came from, which says whether gzip was damaged.

    Raises TraceError where it cannot be read, is empty, or is larger than ``MOST_INFLATED`` allows.
    """
    source = Source(path)
    most = max(_ALWAYS, MOST_INFLATED * source.total)
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in source.pieces():
            check()
            pieces.append(piece)
            size += len(piece)
            if source.compressed and size > most:
                raise TraceError(
                    f"{path} inflates to more than {MOST_INFLATED} times its size: refused; unpack "
                    "it with gunzip, and open what comes out"
                )
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if not size and source.damage is None:
        raise TraceError(f"{path} is empty: the snapshot was not written; record it again")
    return b"".join(pieces), source


def inflated_head(head: bytes, size: int) -> bytes:
    """The first bytes of what a file holds, given those of the file, which may be gzip."""
    if not head.startswith(MAGIC):
        return head[:size]
    try:
        return bytes(zlib.decompressobj(GZIP_WINDOW).decompress(head, size))
    except zlib.error:
        return b""
