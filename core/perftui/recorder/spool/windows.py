"""Moves finished windows from the spool into the run directory."""

from __future__ import annotations

import shutil
from pathlib import Path

from perftui.recorder.spool.notes import Note
from perftui.run.layout import PRIVATE_MODE, RankLayout
from perftui.wire.spool import Spool

QUOTA = 1024 * 1024 * 1024
"""Bytes that the windows of one rank may take: those of a week, when none is slow to write."""


class WindowError(Exception):
    """The window that a note names cannot be moved; the message says why."""


def keep_window(spool: Spool, note: Note, rank: RankLayout) -> Path:
    """Move the file that a ``window`` note names to the rank's windows; returns where it went.

    Readers see it whole or not at all, also where the spool is on another file system.

    Raises:
        WindowError: the note names no regular file of the spool, the disk is full, or the run
            directory is gone, which is not made anew.
    """
    name = note.data.get("file")
    source = spool.root / Path(str(name)).name
    if not isinstance(name, str) or source.is_symlink() or not source.is_file():
        raise WindowError(f"the agent named a window that is not there: {name!r}")
    try:
        for directory in (rank.root, rank.windows):
            directory.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        target = _free_name(rank, _first_step(note))
        copy_whole(source, target)
        source.unlink()
    except OSError as error:
        raise WindowError(f"{source.name}: {error.strerror}") from error
    return target


def limit_windows(rank: RankLayout, quota: int = QUOTA) -> None:
    """Remove the oldest windows but the first while all take more than ``quota`` bytes.

    Raises:
        OSError: one cannot be looked at or removed.
    """
    sizes = [(path, path.stat().st_size) for path in rank.window_files()]
    # The newest is what viewers show.
    removable = sizes[1:-1]
    excess = sum(size for _, size in sizes) - quota
    for path, size in removable:
        if excess <= 0:
            break
        path.unlink()
        excess -= size


def copy_whole(source: Path, target: Path) -> None:
    """Copy ``source`` to ``target``, which readers see as it was or whole, never in part.

    Raises:
        OSError: it cannot be copied.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        shutil.copyfile(source, partial)
        partial.chmod(0o600)
        partial.replace(target)
    except OSError:
        # On a full disk what was copied would be in the way of everything else.
        partial.unlink(missing_ok=True)
        raise


def _first_step(note: Note) -> int:
    first = note.data.get("first_step", note.step)
    return first if isinstance(first, int) and first >= 0 else max(note.step, 0)


def _free_name(rank: RankLayout, first_step: int) -> Path:
    """A second window from the same step (a step counter that began anew) gets a number."""
    target = rank.window(first_step)
    again = 2
    while target.exists():
        target = rank.windows / f"{first_step}.{again}.pt.trace.json"
        again += 1
    return target
