"""The text of a trace file as a stream of pieces, plain or gzip, by content and not by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from perftui.run.files import open_regular
from perftui.trace.model import TraceError

MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31
"""zlib's window bits for a gzip member with its header."""

_MOST_OF_A_BYTE = 2048
"""Deflate expands one byte to at most 1032."""


class DamagedGzip(Exception):  # noqa: N818 - says how the stream ended
    """The stream ends before its data does; the message says how."""


class State(NamedTuple):
    """Where inflating can resume: bytes of the file consumed, and zlib's own state."""

    consumed: int
    inflater: Any


def _zlib() -> Any:
    """zlib-ng, 2.5 times as fast as the standard library's zlib, or the latter if it is missing."""
    try:
        return importlib.import_module("zlib_ng.zlib_ng")
    except ImportError:
        return importlib.import_module("zlib")


zlib = _zlib()


def inflate(file: BinaryIO, size: int, state: State | None = None) -> Iterator[tuple[bytes, State]]:
    """Segments of at most ``size`` bytes, each with the state after it.

    Members follow one another as in ``cat a.gz b.gz``; zero padding after the last is ignored.
    Raises DamagedGzip after everything that could be inflated, except for a few bytes.
    """
    inflater = state.inflater.copy() if state else zlib.decompressobj(GZIP_WINDOW)
    file.seek(state.consumed if state else 0)
    while raw := file.read(size):
        while raw:
            # A call that meets the fault returns nothing: it is repeated for ever smaller pieces.
            # The copy takes 1 to 4 us, inflating a piece of 256 KiB more than 100.
            before = inflater.copy()
            try:
                piece, raw, inflater = _step(inflater, raw, size)
            except zlib.error as error:
                if size == 1:
                    yield from _by_bytes(before, raw, file.tell())
                    raise DamagedGzip(f"the gzip data is damaged ({error})") from error
                inflater, size = before, max(1, size // 16)
                continue
            yield piece, State(file.tell() - len(raw), inflater)
    rest = inflater.flush()
    if rest:
        yield rest, State(file.tell(), inflater)
    if not inflater.eof:
        raise DamagedGzip("the gzip data is cut off")


def _by_bytes(inflater: Any, raw: bytes, end: int) -> Iterator[tuple[bytes, State]]:
    """All output up to the byte of the input with the fault."""
    for position in range(len(raw)):
        try:
            piece, _, inflater = _step(inflater, raw[position : position + 1], _MOST_OF_A_BYTE)
        except zlib.error:
            return
        yield piece, State(end - len(raw) + position + 1, inflater)


def _step(inflater: Any, raw: bytes, size: int) -> tuple[bytes, bytes, Any]:
    """One piece, the rest of the input, and the inflater for it."""
    if inflater.eof:
        raw = raw.lstrip(b"\0")
        if not raw:
            return b"", b"", inflater
        inflater = zlib.decompressobj(GZIP_WINDOW)
    piece = inflater.decompress(raw, size)
    return piece, inflater.unused_data if inflater.eof else inflater.unconsumed_tail, inflater


PIECE = 256 * 1024
"""Bytes in a piece: 64 KiB decodes 30 % slower, 4 MiB 10 % slower and holds more memory."""

_CHECKPOINT_EVERY = 16 * 1024 * 1024
"""Inflated bytes between saved states: reading any part again inflates at most this."""


class Source:
    """Reads one file from its start; ``done`` and ``total`` count bytes on disk.

    Raises TraceError if the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done = 0
        self.damage: str | None = None
        """Why the stream ended before its data did; None if it did not."""
        self._states: list[tuple[int, State]] = []
        try:
            status = path.stat()
            self._identity = (status.st_size, status.st_mtime_ns)
            with open_regular(path) as file:
                self.compressed = file.read(len(MAGIC)) == MAGIC
        except OSError as error:
            raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
        self.total = status.st_size

    def pieces(self) -> Iterator[bytes]:
        """The whole text in order; sets ``damage`` at the end if some of it was lost."""
        with self._open() as file:
            yield from self._inflated(file) if self.compressed else self._plain(file)

    def read_at(self, offset: int, length: int) -> bytes:
        """A part of the (inflated) text that ``pieces`` has returned.

        Raises TraceError if the file is gone, has changed since or can no longer be inflated.
        """
        with self._open() as file:
            if self.compressed:
                before = [saved for saved in self._states if saved[0] <= offset]
                position, state = before[-1] if before else (0, None)
                text = bytearray()
                try:
                    for piece, after in inflate(file, PIECE, state):
                        text += piece[max(0, offset - position) :]
                        position += len(piece)
                        # The file may be read here for the first time, if its trace was cached.
                        self._remember(position, after)
                        if len(text) >= length:
                            break
                except DamagedGzip as damage:
                    # The text before the damage was loaded, and is still there.
                    if len(text) < length:
                        raise TraceError(f"cannot read {self.path}: {damage}") from damage
                return bytes(text[:length])
            file.seek(offset)
            return file.read(length)

    def _open(self) -> BinaryIO:
        try:
            status = self.path.stat()
            if (status.st_size, status.st_mtime_ns) == self._identity:
                return open_regular(self.path)
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror or error}") from error
        raise TraceError(f"{self.path} has changed since it was opened: open it again")

    def _plain(self, file: BinaryIO) -> Iterator[bytes]:
        while piece := file.read(PIECE):
            self.done += len(piece)
            yield piece

    def _inflated(self, file: BinaryIO) -> Iterator[bytes]:
        position = 0
        try:
            for piece, state in inflate(file, PIECE):
                self.done = state.consumed
                position += len(piece)
                self._remember(position, state)
                yield piece
        except DamagedGzip as damage:
            self.damage = str(damage)

    def _remember(self, position: int, state: State) -> None:
        last = self._states[-1][0] if self._states else 0
        if position - last >= _CHECKPOINT_EVERY and not state.inflater.eof:
            self._states.append((position, State(state.consumed, state.inflater.copy())))


def first_piece(path: Path) -> bytes:
    """The file's text, at most ``PIECE`` bytes; empty if it cannot be read."""
    try:
        return next(Source(path).pieces(), b"")
    except TraceError:
        return b""
