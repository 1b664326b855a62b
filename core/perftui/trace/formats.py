"""The formats of trace files: names, recognition, loaders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.files import open_regular
from perftui.trace.model import Cancelled, LoadCancelled, Preview, Progress, Trace, TraceError

if TYPE_CHECKING:
    # Every command needs the endings: a format's loader is imported when a file needs it.
    from perftui.trace.model import Loader
    from perftui.trace.nsys.report import ExportProgress


@dataclass(frozen=True)
class Format:
    """One format of trace files."""

    endings: tuple[str, ...]
    """Suffixes of such files: other files of a directory are not considered."""
    reads: Callable[[Path], bool]
    """Whether this format opens the file; its loader reports errors. False for a file that cannot
    be read."""
    loader: Callable[[Path, ExportProgress | None], Loader]
    """Loads the file; the second argument is called with the progress of another program that has
    to export it first. Raises TraceError if this Python lacks a module for it."""
    is_trace: Callable[[Path], bool] = lambda _: True
    """Whether a file for this format begins like a trace: others of a directory are skipped."""


def _report_loader(path: Path, exporting: ExportProgress | None) -> Loader:
    _need_sqlite(path)
    from perftui.trace.nsys.report import load_report

    return partial(load_report, exporting=exporting)


_SQLITE = b"SQLite format 3\0"


def _is_database(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _need_sqlite(path: Path) -> None:
    """Check for sqlite, which only these files need. Raises TraceError if this Python lacks it."""
    try:
        import sqlite3  # noqa: F401 - to see whether it is there
    except ImportError as error:
        raise TraceError(f"{path} needs SQLite, which this Python was built without") from error


def _is_nsys(path: Path) -> bool:
    try:
        _need_sqlite(path)
        from perftui.trace.nsys.database import open_database

        open_database(path)
    except TraceError:
        return False
    return True


def _nsys_loader(path: Path, _: ExportProgress | None) -> Loader:
    _need_sqlite(path)
    from perftui.trace.nsys.load import load_nsys

    return load_nsys


def _is_kineto(path: Path) -> bool:
    from perftui.trace.kineto.damaged_text import begins_like_a_trace
    from perftui.trace.kineto.source import first_piece

    return begins_like_a_trace(first_piece(path))


def _kineto_loader(_: Path, __: ExportProgress | None) -> Loader:
    from perftui.trace.kineto.load import load_kineto

    return load_kineto


_REPORTS = (".nsys-rep", ".qdrep")
NSYS_REPORT = Format(
    _REPORTS, lambda path: path.name.endswith(_REPORTS), _report_loader, lambda _: False
)
"""Reports of Nsight Systems: they begin with no known bytes, and only its program can read them.
Exporting all of a directory would take minutes. ``.qdrep`` was the name to 2021."""

NSYS = Format((".sqlite", ".db"), _is_database, _nsys_loader, _is_nsys)
"""Exports of Nsight Systems."""

KINETO = Format((".json", ".gz", ".trace"), lambda _: True, _kineto_loader, _is_kineto)
"""Chrome traces as ``torch.profiler`` exports them, plain or gzip."""

FORMATS = (NSYS_REPORT, NSYS, KINETO)
"""In order of recognition; the last one reports the errors of any other file."""

ENDINGS = tuple(dict.fromkeys(ending for fmt in FORMATS for ending in fmt.endings))
"""Suffixes of trace files."""


def format_of(path: Path) -> Format:
    """The format that opens the file at ``path``."""
    return next(fmt for fmt in FORMATS if fmt.reads(path))


def find_traces(directory: Path) -> list[Path]:
    """All traces below ``directory`` (a TensorBoard log directory, for instance), sorted by path.

    Hidden directories are left out, links to directories not followed, unreadable files skipped.
    Raises TraceError if there is no such directory.
    """
    if not directory.is_dir():
        raise TraceError(f"{directory} is not a directory")
    return sorted(path for path in _candidates(directory) if is_trace(path))


def traces_beside(path: Path) -> list[Path]:
    """The other traces in the directory of ``path`` itself, newest first. Raises OSError if the
    directory cannot be listed."""
    files = [file for file in path.parent.iterdir() if file.name.endswith(ENDINGS)]
    newest = sorted(filter(is_trace, files), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    return [file for file in newest if file != path]


def unreadable_files(directory: Path) -> list[Path]:
    """Files named like traces that this user may not read, sorted by path."""
    return sorted(path for path in _candidates(directory) if not os.access(path, os.R_OK))


def _candidates(directory: Path) -> Iterator[Path]:
    for root, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith(".")]
        yield from (Path(root, name) for name in files if name.endswith(ENDINGS))


def is_trace(path: Path) -> bool:
    """Whether the file begins like a trace; False if it cannot be read."""
    return path.is_file() and format_of(path).is_trace(path)


_TRIED = 4
"""Pieces of a file that are read to see whether it opens: a megabyte holds thousands of events."""


def cannot_open(path: Path) -> str:
    """Why the beginning of a local file cannot be opened as a trace; empty if it can."""
    from perftui.trace.remote import remote_of

    if remote_of(path) is not None:
        return ""
    read = count()
    try:
        load_trace(path, cancelled=lambda: next(read) >= _TRIED)
    except LoadCancelled:
        return ""
    except TraceError as error:
        return str(error)
    return ""


def load_trace(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
    exporting: ExportProgress | None = None,
) -> Trace:
    """Load a Kineto (Chrome) trace, plain or gzip whatever its name says, or one of Nsight Systems.

    The readable part of a damaged file is loaded, and ``Trace.warnings`` says what is missing.
    ``progress`` and ``cancelled`` are called between pieces of 256 KiB, ``preview`` with the trace
    so far, now and then while much more is to come. ``exporting`` is called with the progress of
    ``nsys`` if it must export the file first.

    Raises TraceError, which says what to do, if the file is missing, empty or no trace, or holds no
    event with a duration; LoadCancelled after ``cancelled`` returned True.
    """
    return format_of(path).loader(path, exporting)(path, progress, cancelled, preview)
