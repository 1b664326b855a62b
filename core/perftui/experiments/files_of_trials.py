"""Gives back the files that the runs of a trial wrote to, as they were before."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perftui.run.files import read_regular
from perftui.run.layout import RunLayout
from perftui.run.manifest import read_manifest
from perftui.run.origin import check_run, is_trusted
from perftui.wire.spool import SPARED_JOURNAL

_RESTORED = "restored.jsonl"
"""Name of the journal after all of it has been given back."""


@dataclass(frozen=True)
class _Entry:
    time: int
    path: str | None = None
    copy: str | None = None
    made: str | None = None


def restore(root: Path) -> None:
    """Give back what the run in ``root`` wrote to; files that it made are moved into ``root``.

    Nothing happens where that was done, or nothing was written.

    Raises:
        ForeignRunError: the run may be somebody else's, and so may what it would write.
        OSError: a file cannot be written; the others are given back all the same.
        ManifestError: nothing tells whose run it is.
    """
    if not is_to_restore(root):
        return
    if not is_trusted(root):
        check_run(root, read_manifest(RunLayout(root).manifest))
    spared = RunLayout(root).spared
    journal = spared / SPARED_JOURNAL
    # A line that was cut off names a file that was not yet written.
    decoded = filter(None, map(_decoded, read_regular(journal).splitlines()))
    entries = sorted(decoded, key=lambda entry: entry.time, reverse=True)
    problems = []
    for entry in entries:
        try:
            _give_back(entry, spared)
        except OSError as error:  # noqa: PERF203 - the others are given back all the same
            problems.append(error)
    if problems:
        raise problems[0]
    journal.replace(spared / _RESTORED)


def is_to_restore(root: Path) -> bool:
    """Whether the run in ``root`` holds files of the user that have not been given back."""
    return (RunLayout(root).spared / SPARED_JOURNAL).exists()


def restore_all(directory: Path) -> None:
    """Restore the files of every run in ``directory``, newest first: trials may have been killed.
    Raises OSError if a file cannot be written."""
    for root in sorted(directory.glob("*/"), reverse=True):
        restore(root)


def _decoded(line: bytes) -> _Entry | None:
    try:
        return msgspec.json.decode(line, type=_Entry)
    except msgspec.DecodeError:
        return None


def _give_back(entry: _Entry, spared: Path) -> None:
    if entry.made is not None:
        file = Path(entry.made)
        if file.is_dir() and not any(file.iterdir()):
            file.rmdir()
    elif entry.path is not None and entry.copy is not None:
        _replace(spared / Path(entry.copy).name, Path(entry.path))
    elif entry.path is not None and os.path.lexists(entry.path):
        _put_aside(Path(entry.path), spared)


def _replace(copy: Path, path: Path) -> None:
    """``copy`` becomes ``path`` in one step, also where it lies on another file system."""
    temporary = path.with_name(f".{path.name}.perftui")
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(copy, temporary)
    temporary.replace(path)


def _put_aside(path: Path, spared: Path) -> None:
    if path.is_dir():
        return
    target = spared / "made" / path.relative_to(path.anchor)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.move(path, target)
