"""Moves snapshots of GPU memory from the spool into the run directory."""

from __future__ import annotations

from pathlib import Path

from perftui.recorder.spool.notes import Note
from perftui.recorder.spool.windows import copy_whole
from perftui.run.layout import PRIVATE_MODE, RankLayout
from perftui.wire.spool import Spool


class SnapshotError(Exception):
    """The snapshot that a note names cannot be moved; the message says why."""


def keep_snapshot(spool: Spool, note: Note, rank: RankLayout) -> Path:
    """Move the file that a ``memory_snapshot`` note names; returns where it went.

    There is one for each reason: it takes the place of the one before.

    Raises:
        SnapshotError: the note names no regular file of the spool, or the disk is full.
    """
    name, reason = note.data.get("file"), note.data.get("reason")
    source = spool.root / Path(str(name)).name
    if not isinstance(name, str) or source.is_symlink() or not source.is_file():
        raise SnapshotError(f"the agent named a snapshot that is not there: {name!r}")
    target = rank.memory / ("peak.pickle" if reason == "peak" else "out-of-memory.pickle")
    try:
        for directory in (rank.root, rank.memory):
            directory.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        copy_whole(source, target)
        source.unlink()
    except OSError as error:
        raise SnapshotError(f"{source.name}: {error.strerror}") from error
    return target
