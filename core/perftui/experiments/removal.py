"""Removes a run with its trials, so that no other command ever meets half of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from perftui.experiments.trial.restore import is_to_restore
from perftui.run.layout import TRIALS, RunLayout, is_run_directory, trials_of
from perftui.run.liveness import with_liveness
from perftui.run.manifest import ManifestError, read_manifest

GOING = ".deleted-"
"""Begins the name of a directory that is being removed; no run is called so."""


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


def directories_of(root: Path) -> tuple[Path, ...]:
    """What ``delete_run`` removes of the run at ``root``."""
    return (root, *_own_trials(root))


def why_kept(root: Path) -> str:
    """Why the run at ``root`` cannot be deleted, empty where it can."""
    if root.is_symlink():
        return "it is a link to another directory"
    layout = RunLayout(root)
    for one in (layout, *layout.parts()):
        if reason := _why_alive(one):
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
    found = []
    for directory in (runs, trials_of(runs / "run").parent):
        try:
            beside = sorted(directory.iterdir())
        except OSError:
            continue
        found += [one for one in beside if one.name.startswith(GOING) and _is_own(one)]
    return found


def remove_leftovers(runs: Path) -> None:
    """Remove what an interrupted removal left.

    Raises:
        OSError: something of it cannot be removed.
    """
    for directory in leftovers(runs):
        shutil.rmtree(directory)


def _set_aside(directory: Path) -> Path:
    going = directory.with_name(f"{GOING}{directory.name}")
    if _is_own(going):
        shutil.rmtree(going)  # of a run of the same name, whose removal was interrupted
    directory.rename(going)
    return going


def _own_trials(root: Path) -> tuple[Path, ...]:
    """The directory of its trials, where that lies outside the run and is no link.

    Only they are for one run alone: copies of sources and originals of patches, which other runs
    may need, are kept elsewhere."""
    trials = trials_of(root)
    if trials.is_relative_to(root) or trials.parent.is_symlink() or not _is_own(trials):
        return ()
    return (trials,)


def _trial_runs(root: Path) -> Iterator[Path]:
    """The runs of its trials, wherever they lie."""
    inside = root / TRIALS / root.name
    for directory in (*_own_trials(root), *([inside] if _is_own(inside) else [])):
        yield from (one for one in sorted(directory.iterdir()) if is_run_directory(one))


def _is_own(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _why_alive(layout: RunLayout) -> str:
    try:
        manifest = with_liveness(read_manifest(layout.manifest))
    except ManifestError as error:
        return f"whether it still runs is not known: {error}"
    if manifest.status.is_over:
        return ""
    return f"it still runs on {manifest.host}, or its recorder there died; delete it on that host"
