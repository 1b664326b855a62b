"""Bounds the size of the cache: the disk also belongs to trainings."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

COLUMNS = ".columns"
"""What the columns and tables of a trace end in."""

EXPORT = ".sqlite"
"""What the exports of reports end in."""

PARTIAL = ".partial"
"""What files and directories end in while they are written."""

MOST_BYTES = 2 << 30
"""Bytes of all that is kept together: what was used longest ago gives way."""

_LEFT_FREE = 1 << 30
"""Bytes of the disk that are left alone: a training may be about to write a checkpoint there."""

_ABANDONED = 3600.0
"""Seconds after which what is still being written has no writer any more."""


def has_room(directory: Path, size: int, most_bytes: int = MOST_BYTES) -> bool:
    """Whether so many bytes more can be kept. Raises OSError."""
    free = shutil.disk_usage(directory).free
    return size <= most_bytes and size + _LEFT_FREE <= free


def make_room(directory: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove what was used longest ago until the rest is small enough, and what writers that were
    killed left behind. Raises OSError."""
    kept: list[tuple[float, int, Path]] = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            status = path.stat()
            if path.suffix in (COLUMNS, EXPORT):
                # An export is used without being changed: that shows in the time of access alone.
                kept.append((max(status.st_mtime, status.st_atime), status.st_size, path))
            elif path.suffix == PARTIAL and time.time() - _written(path) > _ABANDONED:
                _remove(path)
    total = 0
    for _, size, path in sorted(kept, reverse=True):
        total += size
        if total > most_bytes:
            path.unlink(missing_ok=True)


def _written(path: Path) -> float:
    """When it, or anything in it, was last written to."""
    return max(each.stat().st_mtime for each in _with_contents(path))


def _with_contents(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        yield from path.iterdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
