"""Which files of a directory are traces, by content and not by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from perftui.trace.errors import TraceError
from perftui.trace.formats import ENDINGS, format_of


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
