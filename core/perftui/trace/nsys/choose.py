"""Distinguishes the exports of Nsight Systems from all other files."""

from __future__ import annotations

from pathlib import Path

from perftui.run.files import open_regular
from perftui.trace.model import TraceError

_MAGIC = b"SQLite format 3\0"


def is_sqlite(path: Path) -> bool:
    """Whether the file begins as SQLite databases do; False for one that cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def need_sqlite(path: Path) -> None:
    """Only these files need it, and some builds of Python lack it.

    Raises:
        TraceError: this Python was built without SQLite, which ``path`` needs.
    """
    try:
        import sqlite3  # noqa: F401 - to see whether it is there
    except ImportError as error:
        raise TraceError(f"{path} needs SQLite, which this Python was built without") from error


def is_nsys_export(path: Path) -> bool:
    """Whether the file is an SQLite database that Nsight Systems wrote."""
    try:
        need_sqlite(path)
        from perftui.trace.nsys.database import open_database

        open_database(path)
    except TraceError:
        return False
    return True
