"""Tables as CSV, saved under a name that is free."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

from perftui.trace.model import Int64
from perftui_tui.tables.rows import Column, TableData


def csv_text(data: TableData, order: Int64) -> str:
    """All columns of the rows in ``order``: whole ns, shares as fractions, unknown empty."""
    columns = [column for column in data.columns if column.bar is None]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"{c.title} ({c.unit})" if c.unit else c.title for c in columns])
    for row in order.tolist():
        writer.writerow([_value(column, row) for column in columns])
    return text.getvalue()


def _value(column: Column, row: int) -> object:
    if column.exact is not None:
        found = column.exact(row)
        return "" if found is None else found
    return column.keys[row] if isinstance(column.keys[row], str) else column.text(row).strip()


def folder_for(target: Path) -> Path:
    """Where a table of what is shown is saved: in the run, or where the command was given."""
    return target / "tables" if target.is_dir() else Path.cwd()


def save_new(text: str, folder: Path, stem: str, ending: str = ".csv") -> Path:
    """Write a file that was not there: ``stem.csv``, else ``stem-2.csv`` and so on.

    Raises OSError where it cannot be written.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    for number in itertools.count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{ending}"
        try:
            file = path.open("x", encoding="utf-8", newline="")
        except FileExistsError:
            continue
        with file:
            file.write(text)
        return path
    raise AssertionError("there is always one more number")
