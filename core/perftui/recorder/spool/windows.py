"""Moves finished windows and snapshots of GPU memory from the spool into the run directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from perftui.recorder.spool.notes import Note
from perftui.run.layout import PRIVATE_MODE, RankLayout
from perftui.wire.spool import Spool

QUOTA = 1024 * 1024 * 1024
"""Bytes that the windows of one rank may take: those of a week, when none is slow to write."""


class SpoolFileError(Exception):
    """The file that a note names cannot be moved or read; the message says why."""


def keep_window(spool: Spool, note: Note, rank: RankLayout) -> Path:
    """Move the file that a ``window`` note names to the rank's windows; returns where it went.

    Readers see it whole or not at all, also where the spool is on another file system.

    Raises:
        SpoolFileError: the note names no regular file of the spool, the disk is full, or the run
            directory is gone, which is not made anew.
    """
    source = spool_file(spool, note.data.get("file"))
    return _move(source, rank, rank.windows, lambda: _free_name(rank, _first_step(note)))


def keep_snapshot(spool: Spool, note: Note, rank: RankLayout) -> Path:
    """Move the file that a ``memory_snapshot`` note names; returns where it went.

    There is one for each reason: it takes the place of the one before.

    Raises:
        SpoolFileError: the note names no regular file of the spool, the disk is full, or the run
            directory is gone.
    """
    name = "peak" if note.data.get("reason") == "peak" else "out-of-memory"
    source = spool_file(spool, note.data.get("file"))
    return _move(source, rank, rank.memory, lambda: rank.memory / f"{name}.pickle")


def spool_file(spool: Spool, name: object) -> Path:
    """The regular file ``name`` of ``spool``.

    Raises:
        SpoolFileError: there is none.
    """
    path = spool.root / Path(str(name)).name
    if not isinstance(name, str) or path.is_symlink() or not path.is_file():
        raise SpoolFileError(f"the agent named a file that is not there: {name!r}")
    return path


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


def _move(source: Path, rank: RankLayout, to: Path, target_of: Callable[[], Path]) -> Path:
    try:
        for directory in (rank.root, to):
            directory.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        target = target_of()
        copy_whole(source, target)
        source.unlink()
    except OSError as error:
        raise SpoolFileError(f"{source.name}: {error.strerror}") from error
    return target


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
