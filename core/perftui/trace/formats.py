"""The formats of trace files: their names, how each is recognised, and what reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.files import open_regular
from perftui.trace.model import Cancelled, Preview, Progress, Trace, TraceError

if TYPE_CHECKING:
    # Every command asks for the endings: what reads a format is imported when a file needs it.
    from perftui.trace.model import Loader
    from perftui.trace.nsys.report import ExportProgress


@dataclass(frozen=True)
class Format:
    """One format of trace files."""

    endings: tuple[str, ...]
    """How names of such files end: of a directory no others are looked into."""
    reads: Callable[[Path], bool]
    """Whether the file is for this format to open; its loader reports what is wrong with it. False
    for a file that cannot be read."""
    loader: Callable[[Path, ExportProgress | None], Loader]
    """What loads the file; the second argument is called with how far another program has come that
    has to export it first. Raises TraceError where this Python lacks what that takes."""
    is_trace: Callable[[Path], bool] = lambda _: True
    """Whether a file for this format begins like a trace: others of a directory are passed over."""


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
    """Only these files need it. Raises TraceError where this Python was built without."""
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
    from perftui.trace.kineto.json_text import begins_like_a_trace
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
"""What Nsight Systems exports."""

KINETO = Format((".json", ".gz", ".trace"), lambda _: True, _kineto_loader, _is_kineto)
"""Chrome traces as ``torch.profiler`` exports them, plain or gzip."""

FORMATS = (
    NSYS_REPORT,
    NSYS,
    KINETO,
)
"""In this order they are asked; the last one reports what is wrong with any other file."""

ENDINGS = tuple(dict.fromkeys(ending for one in FORMATS for ending in one.endings))
"""How names of trace files end."""


def format_of(path: Path) -> Format:
    """The format that the file at ``path`` is for."""
    return next(one for one in FORMATS if one.reads(path))


def find_traces(directory: Path) -> list[Path]:
    """All traces below ``directory`` (a TensorBoard log directory, for instance), sorted by path.

    Hidden directories are left out, links to directories not followed, and what cannot be read
    skipped. Raises TraceError if there is no such directory.
    """
    if not directory.is_dir():
        raise TraceError(f"{directory} is not a directory")
    return sorted(path for path in _candidates(directory) if is_trace(path))


def traces_beside(path: Path) -> list[Path]:
    """The traces of the directory of ``path``, without those below it, newest first.

    Raises:
        OSError: the directory cannot be listed.
    """
    files = [one for one in path.parent.iterdir() if one.name.endswith(ENDINGS)]
    newest = sorted(filter(is_trace, files), key=lambda one: one.stat().st_mtime_ns, reverse=True)
    return [one for one in newest if one != path]


def unreadable_files(directory: Path) -> list[Path]:
    """Files that are named like traces and that this user may not read, sorted by path."""
    return sorted(path for path in _candidates(directory) if not os.access(path, os.R_OK))


def _candidates(directory: Path) -> Iterator[Path]:
    for root, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith(".")]
        yield from (Path(root, name) for name in files if name.endswith(ENDINGS))


def is_trace(path: Path) -> bool:
    """Whether the file begins like a trace; False for one that cannot be read."""
    return path.is_file() and format_of(path).is_trace(path)


def load_trace(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
    exporting: ExportProgress | None = None,
) -> Trace:
    """Load a Kineto (Chrome) trace, plain or gzip whatever its name says, or one of Nsight Systems.

    What can be read of a damaged file is loaded, and ``Trace.warnings`` says what was not.
    ``progress`` and ``cancelled`` are called between pieces of 256 KiB, ``preview`` with the trace
    of what was read so far, now and then where there is much more to come. ``exporting`` is called
    with how far ``nsys`` has come where it must export the file first.

    Raises TraceError, which says what to do, where the file is missing, empty or no trace, or holds
    no event with a duration; LoadCancelled after ``cancelled`` returned True.
    """
    load = format_of(path).loader(path, exporting)
    return load(path, progress, cancelled, preview)
