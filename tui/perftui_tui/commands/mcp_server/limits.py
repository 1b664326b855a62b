"""Answers of a size that a context window has room for, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perftui.report.encode import encode_object

MOST_BYTES = 40_000
"""Of an answer as JSON: some 12,000 tokens. Clients refuse answers of about twice that."""


class TooLongError(ValueError):
    """Even a little of it is too long; the message says how long."""


def limited(plain: dict[str, Any], rows: int) -> dict[str, Any]:
    """``plain`` with at most so many items in each table, fewer where all would be too long.

    ``left_out`` then holds by name of the table how many items it lacks. Lists of words, such as
    commands and notes, and pairs stay whole.

    Raises:
        TooLongError: it is too long with one item in each table.
    """
    while True:
        left_out: dict[str, int] = {}
        shown = {name: _cut(value, rows, name, left_out) for name, value in plain.items()}
        found = {**shown, "left_out": left_out} if left_out else shown
        size = len(encode_object(found, on_one_line=True).encode())
        if size <= MOST_BYTES:
            return found
        if rows == 1:
            raise TooLongError(f"{size:,} bytes with one row in each table, over {MOST_BYTES:,}")
        rows //= 2


def _cut(value: Any, rows: int, name: str, left_out: dict[str, int]) -> Any:
    if isinstance(value, dict):
        if _are_columns(value, rows):
            left_out[name] = len(next(iter(value.values()))) - rows
            return {key: column[:rows] for key, column in value.items()}
        return {key: _cut(item, rows, f"{name}.{key}", left_out) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    kept = value if _is_whole(value) else value[:rows]
    if len(kept) < len(value):
        left_out[name] = len(value) - len(kept)
    return [_cut(item, rows, f"{name}[{at}]", left_out) for at, item in enumerate(kept)]


def _are_columns(value: dict[str, Any], rows: int) -> bool:
    """Whether it is a table of more than so many rows that is kept by column."""
    lengths = {len(item) if isinstance(item, list) else 0 for item in value.values()}
    return len(value) > 1 and len(lengths) == 1 and lengths.pop() > max(rows, 2)


def _is_whole(items: list[Any]) -> bool:
    is_pair = len(items) == 2 and not isinstance(items[0], dict)
    return is_pair or all(isinstance(item, str) for item in items)


def csv_rows(text: str, skip: int, rows: int) -> tuple[str, int]:
    """The heading and ``rows`` of the rows after the first ``skip``, and how many there are.

    Fewer where those would be too long, at least one.
    """
    heading, *lines = _records(text)
    kept: list[str] = []
    left = MOST_BYTES - len(heading.encode())
    for line in lines[skip : skip + rows]:
        left -= len(line.encode())
        if left < 0 and kept:
            break
        kept.append(line)
    return "".join((heading, *kept)), len(lines)


def _records(text: str) -> Iterator[str]:
    """The rows of CSV text; a quoted cell may hold line ends, and quotes come in pairs."""
    record = ""
    for line in text.split("\n")[:-1]:
        record += f"{line}\n"
        if record.count('"') % 2 == 0:
            yield record
            record = ""
