"""Distinguishes the files of Nsight Systems from all others, before anything of them is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.callbacks import Cancelled, Preview, Progress
from perftui.trace.errors import TraceError
from perftui.trace.model import Trace

if TYPE_CHECKING:
    from perftui.trace.nsys.exporting import ExportProgress

Loader = Callable[[Path, Progress | None, Cancelled | None, Preview | None], Trace]

_MAGIC = b"SQLite format 3\0"
_REPORTS = (".nsys-rep", ".qdrep")
"""Reports have no public format and begin with no known bytes; ``.qdrep`` was the name to 2021."""


def is_sqlite(path: Path) -> bool:
    """Whether the file begins as SQLite databases do; False for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def nsys_loader(path: Path, exporting: ExportProgress | None = None) -> Loader | None:
    """What loads the file if it is an SQLite database or a report of Nsight Systems, else None.

    ``exporting`` is called with how far the program has come that exports a report.

    Raises TraceError where this Python was built without SQLite.
    """
    is_report = path.name.endswith(_REPORTS)
    if not is_report and not is_sqlite(path):
        return None
    try:
        import sqlite3  # noqa: F401 - only these files need it, and some builds of Python lack it
    except ImportError as error:
        raise TraceError(f"{path} needs SQLite, which this Python was built without") from error
    if is_report:
        from perftui.trace.nsys.nsys_rep import load_report

        return partial(load_report, exporting=exporting)
    from perftui.trace.nsys.load import load_nsys

    return load_nsys


def is_nsys_export(path: Path) -> bool:
    """Whether the file is an SQLite database that Nsight Systems wrote."""
    try:
        if nsys_loader(path) is None:
            return False
        from perftui.trace.nsys.database import open_database

        open_database(path)
    except TraceError:
        return False
    return True
