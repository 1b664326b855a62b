"""The rows that an export which was cut off ends within: SQLite reads zeros for what they lack.

Format: https://www.sqlite.org/fileformat.html, "B-tree Pages" and "Record Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from perftui.run.files import open_regular
from perftui.trace.errors import TraceError

_LEAF = b"\x0d"
_HEADER = 8
_PAGE_SIZE_AT = 16
_INTEGERS = (0, 1, 2, 3, 4, 6, 8)
"""Bytes of an integer by its serial type, from 0 (NULL) to 6."""

Row = tuple[int, tuple[int | None, ...]]
"""Row id and columns; None for all that is no integer."""


def torn_rows(path: Path) -> list[Row]:
    """Rows of which the file has only a part, as SQLite reads them; empty for a file that ends
    with a page. Raises TraceError where the file cannot be read."""
    try:
        with open_regular(path) as file:
            head = file.read(_PAGE_SIZE_AT + 2)
            size = int.from_bytes(head[_PAGE_SIZE_AT:], "big")
            size = 65536 if size == 1 else size
            length = path.stat().st_size
            there = length % size if size else 0
            file.seek(length - there)
            page = file.read(there)
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if page[:1] != _LEAF or length < size:
        return []
    return list(_rows(page.ljust(size, b"\0"), there))


def _rows(page: bytes, there: int) -> Iterator[Row]:
    for cell in range(int.from_bytes(page[3:5], "big")):
        at = _HEADER + 2 * cell
        begin = int.from_bytes(page[at : at + 2], "big")
        payload, after = _varint(page, begin)
        row_id, record = _varint(page, after)
        if begin < _HEADER or record + payload > there:
            yield row_id, tuple(_columns(page, record))


def _columns(page: bytes, record: int) -> Iterator[int | None]:
    length, at = _varint(page, record)
    body = record + length
    while at < record + length and at < len(page):
        kind, at = _varint(page, at)
        if kind in (8, 9):
            yield kind - 8
            continue
        size = _size(kind)
        value = int.from_bytes(page[body : body + size], "big", signed=True)
        yield value if 0 < kind < len(_INTEGERS) else None
        body += size


def _size(kind: int) -> int:
    if kind < len(_INTEGERS):
        return _INTEGERS[kind]
    return 8 if kind == 7 else max((kind - 12) // 2, 0)


def _varint(page: Sequence[int], at: int) -> tuple[int, int]:
    """The number at ``at``, and where the next begins."""
    value = 0
    for place in range(at, min(at + 9, len(page))):
        if place == at + 8:
            return (value << 8) | page[place], place + 1
        value = (value << 7) | (page[place] & 0x7F)
        if page[place] < 0x80:
            return value, place + 1
    return value, len(page)
