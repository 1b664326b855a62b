"""Which recorded runs are to go, by age, number and size."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perftui.experiments.removal import directories_of, why_kept
from perftui.run.history import RunEntry, list_runs
from perftui.run.layout import is_run_directory


@dataclass(frozen=True)
class Limits:
    """What a run has to exceed to go: all of those that are given."""

    older_than_s: float | None = None
    """Since its end."""
    keep: int | None = None
    """So many of the newest runs stay."""
    max_bytes: int | None = None
    """Of all runs with their trials: the oldest go until no more is left."""


@dataclass(frozen=True)
class Stored:
    """A run on the disk."""

    entry: RunEntry
    bytes: int
    """On the disk, with its trials."""
    ended_ns: int
    """When it ended, or was written to last."""

    @property
    def parent(self) -> str | None:
        """The id of the run that it repeats."""
        return self.entry.manifest.parent if self.entry.manifest else None


@dataclass(frozen=True)
class Pruning:
    """The runs that go, oldest first, and those that would but must stay, with the reason."""

    going: tuple[Stored, ...]
    staying: tuple[tuple[Stored, str], ...]
    left: int
    """Runs that are there afterwards."""
    left_bytes: int

    @property
    def freed_bytes(self) -> int:
        """What is freed on the disk."""
        return sum(one.bytes for one in self.going)


def plan(runs: Path, limits: Limits, now_ns: int) -> Pruning:
    """What ``limits`` remove of the directory ``runs``; nothing is changed.

    A run that lives or cannot be read stays, and so does the one that a run which the limits keep
    repeats: they are compared.

    Raises:
        OSError: the directory cannot be listed.
    """
    stored = [_stored(entry) for entry in _entries(runs)]
    beyond = _beyond(stored, limits, now_ns)
    blocked = {one.entry.run_id: why for one in beyond if (why := why_kept(one.entry.root))}

    def chosen(count: int) -> Pruning:
        return _of_oldest(stored, beyond[:count], blocked)

    most = limits.max_bytes
    if most is None:
        return chosen(len(beyond))
    small_enough = bisect.bisect_left(
        range(len(beyond)), True, key=lambda count: chosen(count).left_bytes <= most
    )
    return chosen(small_enough)


def disk_bytes(directory: Path) -> int:
    """Bytes that ``directory`` takes on the disk with all it holds; links are not followed."""
    return sum(status.st_blocks * 512 for status in _statuses(directory))


def _entries(runs: Path) -> list[RunEntry]:
    """The runs, newest first, without directories of anybody else."""
    return [entry for entry in list_runs(runs) if is_run_directory(entry.root)]


def _stored(entry: RunEntry) -> Stored:
    size = sum(map(disk_bytes, directories_of(entry.root)))
    manifest = entry.manifest
    if manifest is not None and manifest.ended_ns is not None:
        return Stored(entry, size, manifest.ended_ns)
    written = max((status.st_mtime_ns for status in _statuses(entry.root)), default=0)
    return Stored(entry, size, written)


def _statuses(directory: Path) -> Iterator[os.stat_result]:
    """Of ``directory`` and all below it; what goes meanwhile is left out."""
    try:
        yield directory.lstat()
        with os.scandir(directory) as found:
            entries = list(found)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _statuses(Path(entry.path))
            continue
        try:
            yield entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue


def _beyond(stored: Sequence[Stored], limits: Limits, now_ns: int) -> list[Stored]:
    """Those that exceed age and number, oldest first. ``stored`` has the newest first."""
    old = list(stored[limits.keep or 0 :])
    if limits.older_than_s is not None:
        before = now_ns - round(limits.older_than_s * 1e9)
        old = [one for one in old if one.ended_ns < before]
    return old[::-1]


def _of_oldest(
    stored: Sequence[Stored], beyond: Sequence[Stored], blocked: Mapping[str, str]
) -> Pruning:
    """Of ``beyond`` all go but those that are ``blocked`` or that a run which stays repeats."""
    ids = {one.entry.run_id for one in beyond} - blocked.keys()
    # Of several the one that has it longest.
    needed = {one.parent: one.entry.run_id for one in stored if one.entry.run_id not in ids}
    reasons = {
        name: f"{needed[name]} repeats it and is compared with it" for name in ids & needed.keys()
    } | dict(blocked)
    going = tuple(one for one in beyond if one.entry.run_id not in reasons)
    staying = tuple(
        (one, reasons[one.entry.run_id]) for one in beyond if one.entry.run_id in reasons
    )
    gone = {one.entry.run_id for one in going}
    left = [one for one in stored if one.entry.run_id not in gone]
    return Pruning(going, staying, len(left), sum(one.bytes for one in left))
