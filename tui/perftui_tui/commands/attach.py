"""`perftui attach [RUN]`: watch a training that runs already, beside whoever else watches it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.target import run_by_id, runs_directory
from perftui_tui.commands.terminal import why_headless

if TYPE_CHECKING:
    from perftui.run.manifest import Manifest


def attach(line: CommandLine) -> int:
    """Open a live run in the app; leaving never ends the training. Returns 0 when the user left.

    Raises:
        UsageError: no such run lives, or there is no terminal to show it in.
    """
    root = _live_run(line)
    reason = why_headless(line)
    if reason is not None:
        why = reason or "--headless does not go with attach, which opens the app"
        raise UsageError(f"{why}; perftui report {shlex.quote(str(root))} prints its state")
    from perftui_tui.commands.show import show

    return show(root, line, is_replay=True, attached=True, notes=_elsewhere(root))


def _live_run(line: CommandLine) -> Path:
    """The directory of the run that is meant, which lives."""
    from perftui.run.history import list_runs
    from perftui.run.layout import RUNS_DIRECTORY, is_run_directory

    runs = runs_directory(line)
    if line.words:
        path = Path(line.words[0])
        if is_run_directory(path) or not path.is_dir():
            root = path.absolute() if is_run_directory(path) else run_by_id(str(path), runs)
            return _checked(root)
        inside = (path / RUNS_DIRECTORY).absolute()
        runs = inside if inside.is_dir() else path.absolute()
    readable = [(one.root, one.manifest) for one in list_runs(runs) if one.manifest is not None]
    living = [root for root, manifest in readable if not manifest.status.is_over]
    if living:
        return living[0]
    if not readable:
        raise UsageError(f"no recorded run in {runs}; name a run or its directory")
    root, manifest = readable[0]
    raise UsageError(f"no training is running in {runs}; the newest, {_over(root, manifest)}")


def _elsewhere(root: Path) -> tuple[str, ...]:
    """Where the run is recorded, if that is another host, and whether it still is."""
    from perftui.run.history import entry_of, recorded_where

    where = recorded_where(entry_of(root))
    return (where,) if where else ()


def _checked(root: Path) -> Path:
    from perftui.run.manifest import ManifestError, run_state

    try:
        manifest = run_state(root)
    except ManifestError as error:
        raise UsageError(f"the run is damaged: {error}") from error
    if manifest.status.is_over:
        raise UsageError(_over(root, manifest))
    return root


def _over(root: Path, manifest: Manifest) -> str:
    """The message that a run is over, how it ended, and what opens it."""
    from perftui.run.manifest import Status

    if manifest.status is Status.LOST:
        how = "has ended: its recorder died"
    elif manifest.exit_code is None:
        how = "never started"
    else:
        how = f"ended with exit code {manifest.exit_code}"
    return f"{root.name}, {how}; perftui replay {shlex.quote(str(root))} opens it"
