"""Removes runs with their trials, chosen by name or by age, number and size."""

from __future__ import annotations

import bisect
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perftui.experiments.files_of_trials import is_to_restore
from perftui.run.layout import TRIALS, RunLayout, is_run_directory, trials_of
from perftui.run.manifest import ManifestError, run_state
from perftui.run.reader import RunEntry, list_runs

GOING = ".deleted-"
"""Start of the name of a directory that is being removed; no run is called so."""


class NotRemovableError(ValueError):
    """The run must be kept, and the message says why."""


def delete_run(root: Path) -> None:
    """Remove the run at ``root`` with everything in it, and the runs of its trials.

    Both are renamed first, the trials before the run: if this process ends in between, there is a
    run that was never tried, and nobody lists half of one. ``remove_leftovers`` does the rest.

    Raises:
        NotRemovableError: it lives, one of its trials does or has files to give back, or whether
            they live is not known.
        OSError: it cannot be removed.
    """
    reason = why_kept(root)
    if reason:
        raise NotRemovableError(reason)
    going = [_set_aside(directory) for directory in (*_own_trials(root), root)]
    for directory in going:
        shutil.rmtree(directory)


def why_kept(root: Path) -> str:
    """Why the run at ``root`` cannot be deleted, empty where it can."""
    if root.is_symlink():
        return "it is a link to another directory"
    layout = RunLayout(root)
    for part in (layout, *layout.parts()):
        if reason := _why_alive(part):
            return reason
    for trial in _trial_runs(root):
        if reason := _why_alive(RunLayout(trial)):
            return f"its trial {trial.name}: {reason}"
        if is_to_restore(trial):
            return (
                f"its trial {trial.name} was interrupted and holds the originals of files that it "
                "wrote to; the next trial of the run restores them"
            )
    return ""


def leftovers(runs: Path) -> list[Path]:
    """Directories below ``runs``, and beside it those of trials, whose removal was interrupted."""
    paths = []
    for directory in (runs, trials_of(runs / "run").parent):
        try:
            entries = sorted(directory.iterdir())
        except OSError:
            continue
        paths += [path for path in entries if path.name.startswith(GOING) and _is_own(path)]
    return paths


def remove_leftovers(runs: Path) -> None:
    """Remove what an interrupted removal left. Raises OSError if some of it cannot be removed."""
    for directory in leftovers(runs):
        shutil.rmtree(directory)


def _set_aside(directory: Path) -> Path:
    going = directory.with_name(f"{GOING}{directory.name}")
    if _is_own(going):
        shutil.rmtree(going)  # of a run of the same name, whose removal was interrupted
    directory.rename(going)
    return going


def _own_trials(root: Path) -> tuple[Path, ...]:
    """The directory of the run's trials, where that lies outside the run and is no link.

    Only trials are for one run alone: copies of sources and originals of patches, which other runs
    may need, are kept elsewhere."""
    trials = trials_of(root)
    if trials.is_relative_to(root) or trials.parent.is_symlink() or not _is_own(trials):
        return ()
    return (trials,)


def _trial_runs(root: Path) -> Iterator[Path]:
    """The runs of the trials of a run, wherever they lie."""
    inside = root / TRIALS / root.name
    for directory in (*_own_trials(root), *([inside] if _is_own(inside) else [])):
        yield from (path for path in sorted(directory.iterdir()) if is_run_directory(path))


def _is_own(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _why_alive(layout: RunLayout) -> str:
    try:
        manifest = run_state(layout.root)
    except ManifestError as error:
        return f"whether it still runs is not known: {error}"
    if manifest.status.is_over:
        return ""
    return f"it still runs on {manifest.host}, or its recorder there died; delete it on that host"


@dataclass(frozen=True)
class RemovalLimits:
    """Limits of kept runs: a run goes if it exceeds all that are given."""

    older_than_s: float | None = None
    """Time since its end."""
    keep: int | None = None
    """Number of the newest runs that stay."""
    max_bytes: int | None = None
    """Size of all runs with their trials: the oldest go until no more is left."""


@dataclass(frozen=True)
class Stored:
    """A run on the disk."""

    entry: RunEntry
    bytes: int
    """Size on the disk, with its trials."""
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
        """Bytes that are freed on the disk."""
        return sum(run.bytes for run in self.going)


def plan(runs: Path, limits: RemovalLimits, now_ns: int) -> Pruning:
    """What ``limits`` remove of the directory ``runs``; nothing is changed.

    A run that lives or cannot be read stays, and so does the one that a run which the limits keep
    repeats: they are compared. Raises OSError if the directory cannot be listed."""
    # Directories that are no runs are left alone.
    stored = [_stored(entry) for entry in list_runs(runs) if is_run_directory(entry.root)]
    beyond = _beyond(stored, limits, now_ns)
    blocked = {run.entry.run_id: why for run in beyond if (why := why_kept(run.entry.root))}

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


def _stored(entry: RunEntry) -> Stored:
    size = sum(map(disk_bytes, (entry.root, *_own_trials(entry.root))))
    manifest = entry.manifest
    if manifest is not None and manifest.ended_ns is not None:
        return Stored(entry, size, manifest.ended_ns)
    written = max((status.st_mtime_ns for status in _statuses(entry.root)), default=0)
    return Stored(entry, size, written)


def _statuses(directory: Path) -> Iterator[os.stat_result]:
    """The status of ``directory`` and of all below it; what vanishes meanwhile is left out."""
    try:
        yield directory.lstat()
        with os.scandir(directory) as entries_of:
            entries = list(entries_of)
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


def _beyond(stored: Sequence[Stored], limits: RemovalLimits, now_ns: int) -> list[Stored]:
    """The runs that exceed age and number, oldest first. ``stored`` has the newest first."""
    old = list(stored[limits.keep or 0 :])
    if limits.older_than_s is not None:
        before = now_ns - round(limits.older_than_s * 1e9)
        old = [run for run in old if run.ended_ns < before]
    return old[::-1]


def _of_oldest(
    stored: Sequence[Stored], beyond: Sequence[Stored], blocked: Mapping[str, str]
) -> Pruning:
    """All of ``beyond`` go but those ``blocked``, and those that a run which stays repeats."""
    ids = {run.entry.run_id for run in beyond} - blocked.keys()
    # If several runs repeat it, the oldest one is named.
    needed = {run.parent: run.entry.run_id for run in stored if run.entry.run_id not in ids}
    reasons = {
        name: f"{needed[name]} repeats it and is compared with it" for name in ids & needed.keys()
    } | dict(blocked)
    going = tuple(run for run in beyond if run.entry.run_id not in reasons)
    staying = tuple(
        (run, reasons[run.entry.run_id]) for run in beyond if run.entry.run_id in reasons
    )
    gone = {run.entry.run_id for run in going}
    left = [run for run in stored if run.entry.run_id not in gone]
    return Pruning(going, staying, len(left), sum(run.bytes for run in left))
