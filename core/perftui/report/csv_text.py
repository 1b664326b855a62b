"""A table as CSV: every cell reads back as what it was, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perftui.report.shown import printable, replaced

Cell = str | int | float | None
"""Text, a number, or nothing where it is not known."""

_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
"""What a cell is quoted for. Python's own writer leaves a carriage return bare, which its reader
then refuses."""


@dataclass(frozen=True)
class CsvTable:
    """One table with all of its rows, each as long as ``heading``."""

    heading: tuple[str, ...]
    """Names of the columns, with the unit where there is one."""
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """Why there are no rows, or not all; for a person."""


def csv_text(table: CsvTable, *, for_terminal: bool = False) -> str:
    """The heading and the rows, each on a line that ends in a line feed.

    Text is exact, also what a spreadsheet takes for a formula: a mark in front of it would change
    names. ``for_terminal`` spells control characters as escapes.
    """
    lines = (table.heading, *table.rows)
    return "".join(f"{','.join(_cells(line, for_terminal))}\n" for line in lines)


def _cells(line: Iterable[Cell], for_terminal: bool) -> Iterable[str]:
    for cell in line:
        text = "" if cell is None else str(cell)
        text = printable(text) if for_terminal else replaced(text)
        yield _quoted(text) if _QUOTED.search(text) else text


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
