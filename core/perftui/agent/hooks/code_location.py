"""Copies the code location of a function of torch to the function that takes its place.

Warnings and tracebacks name the lines of code that they come through.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any

NO_LOCATION = 15 << 3
NO_COLUMNS = 13 << 3
COLUMNS = 14 << 3
"""Kinds of entries in a location table of Python 3.11 and later, for one instruction each."""


def with_location_of(code: CodeType, like: CodeType, methods: tuple[str, ...]) -> CodeType:
    """``code`` with file and name of ``like``.

    Lines where both call a method of ``self`` that is one of ``methods`` become those of ``like``;
    all else seems to be where ``like`` begins.
    """
    theirs = {name: (line, column) for line, name, column in _calls(like, methods)}
    lines = {
        line: (theirs[name][0], theirs[name][1] - column)
        for line, name, column in _calls(code, methods)
        if name in theirs
    }
    changes: dict[str, Any] = {}
    if sys.version_info >= (3, 11):
        changes["co_qualname"] = like.co_qualname
        changes["co_linetable"] = _table(code, lines, like.co_firstlineno)
    else:
        changes["co_linetable"] = _table_of_lines(code, lines, like.co_firstlineno)
    return code.replace(
        co_filename=like.co_filename,
        co_name=like.co_name,
        co_firstlineno=like.co_firstlineno,
        **changes,
    )


def _calls(code: CodeType, methods: tuple[str, ...]) -> list[tuple[int, str, int]]:
    """The lines that pass arguments on: with the method, and the column of ``self``."""
    at = {place: line for start, end, line in code.co_lines() for place in range(start, end)}
    names: dict[int | None, set[str]] = {}
    columns: dict[int | None, int] = {}
    for one in dis.get_instructions(code):
        line = at.get(one.offset)
        found = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        names.setdefault(line, set()).update(name for name in found if isinstance(name, str))
        if sys.version_info >= (3, 11) and "self" in found and one.positions is not None:
            columns.setdefault(line, one.positions.col_offset or 0)
    return [
        (line, name, columns.get(line, 0))
        for line, loaded in names.items()
        for name in methods
        if line is not None and {name, "args"} <= loaded
    ]


def _table(code: Any, lines: dict[int, tuple[int, int]], first: int) -> bytes:
    """The location table as Python has it from 3.11 on."""
    table = bytearray()
    now = first
    for line, end_line, column, end_column in code.co_positions():
        if line is None:
            table.append(0x80 | NO_LOCATION)
            continue
        there, shift = lines.get(line, (first, 0))
        is_known = line in lines and None not in (end_line, column, end_column)
        table.append(0x80 | (COLUMNS if is_known else NO_COLUMNS))
        delta = there - now
        _add(table, delta << 1 if delta >= 0 else -delta << 1 | 1)
        if is_known:
            for number in (end_line - line, column + shift + 1, end_column + shift + 1):
                _add(table, number)
        now = there
    return bytes(table)


def _add(table: bytearray, number: int) -> None:
    while number >= 64:
        table.append(0x40 | number & 63)
        number >>= 6
    table.append(number)


def _table_of_lines(code: CodeType, lines: dict[int, tuple[int, int]], first: int) -> bytes:
    """The location table as Python 3.10 has it: bytes of code, and lines since those before."""
    table = bytearray()
    now = first
    for start, end, line in code.co_lines():
        there = now if line is None else lines.get(line, (first, 0))[0]
        table += bytes(_pairs(end - start, there - now))
        now = there
    return bytes(table)


def _pairs(length: int, lines: int) -> Iterable[int]:
    """An entry of the table, in parts that fit into its bytes."""
    while not -127 <= lines <= 127:
        part = 127 if lines > 0 else -127
        yield from (0, part & 255)
        lines -= part
    while length > 254:
        yield from (254, lines & 255)
        length, lines = length - 254, 0
    yield from (length, lines & 255)
