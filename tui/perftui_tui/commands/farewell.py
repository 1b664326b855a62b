"""What is printed after the app: the state of the training, how to see it again, what failed."""

from __future__ import annotations

import shlex
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, ManifestError, Status, wait_until_over
from perftui_tui.commands.output import log
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.rows import behind, plain

if TYPE_CHECKING:
    from perftui_tui.app import PerftuiApp

CRASHED = 70
"""``EX_SOFTWARE`` of sysexits.h: no code that a script is likely to use."""

FRAMES = 4
"""Innermost frames shown: enough to find the line, few enough to leave the advice on screen."""

LAST_LINES = 20
"""Lines of output repeated where the script failed: a traceback's end."""

STOP_SECONDS = 10.0
"""Seconds to wait for a training that was just asked to stop."""


def farewell(
    root: Path, *, is_replay: bool, stopping: bool = False, achieved: Iterable[tuple[str, str]] = ()
) -> int:
    """Print the farewell; returns the exit code: the script's, 0 if it still runs or is replayed.

    ``achieved`` is what was done in the app, each with a word in front.

    2 where the run can no longer be read: its directory has gone."""
    try:
        manifest = wait_until_over(root, STOP_SECONDS if stopping else 0.0)
    except ManifestError as error:
        log(f"perftui: the state of the run cannot be read: {error}")
        return 2
    log(_outcome(manifest))
    if not is_replay:
        tell_failure(root, manifest)
    # A terminal would break what it has no room for within words; commands stay whole.
    cells = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
    for word, what in achieved:
        room = sys.maxsize if what.startswith("perftui ") else cells
        for line in behind(((f"  {word:<7} ", ""),), what, room):
            log(plain(line))
    log(f"  run     {root}")
    again = "replay" if manifest.status.is_over else "attach"
    log(f"  again   perftui {again} {shlex.quote(str(root))}")
    for what, path in _others(RunLayout(root)):
        log(f"  {what:<7} perftui {shlex.quote(str(path))}")
    return 0 if is_replay or not manifest.status.is_over else exit_code(manifest)


def tell_failure(root: Path, manifest: Manifest) -> None:
    """Repeat the last lines of a script that failed, which say why."""
    from perftui_tui.reading.output import OutputTail

    failed = manifest.status.is_over and bool(manifest.exit_code or manifest.message)
    if failed and not manifest.stopped:
        tail = OutputTail(RunLayout(root).output, LAST_LINES)
        tail.poll()
        for text in tail.view().lines[-LAST_LINES:]:
            log(f"  | {text}")


def _others(layout: RunLayout) -> Iterator[tuple[str, Path]]:
    """Files in the run that open by themselves."""
    for rank in layout.ranks():
        for path in sorted(layout.rank(rank).memory.glob("*.pickle")):
            yield "memory", path
    for path in layout.nsys_reports():
        yield "nsys", path


def exit_code(manifest: Manifest) -> int:
    """The script's exit code; 2 where it could not be started, 1 where how it ended is unknown."""
    if manifest.exit_code is not None:
        return manifest.exit_code
    return 2 if manifest.message else 1


def _outcome(manifest: Manifest) -> str:
    script = manifest.script
    if not manifest.status.is_over:
        return f"perftui: {script} is still running (process {manifest.pid}) and being recorded"
    if manifest.message:
        return f"perftui: {script} could not be started: {manifest.message}"
    if manifest.status is Status.LOST:
        return (
            f"perftui: the recorder of {script} died, and the script's terminal with it; "
            "everything before that is saved"
        )
    if manifest.stopped:
        return f"perftui: {script} was {manifest.stopped} (exit code {manifest.exit_code})"
    if manifest.status is Status.KILLED:
        return f"perftui: {script} was killed by a signal (exit code {manifest.exit_code})"
    return f"perftui: {script} ended with exit code {manifest.exit_code}"


def report_crash(error: BaseException, target: Path) -> int:
    """Log what failed, that the training does not depend on it, and how to come back."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-FRAMES)
    log("perftui: the app failed; no recorded data is lost")
    for line in "".join(lines).rstrip().splitlines():
        log(f"  {line}")
    if target.is_dir():
        farewell(target, is_replay=True)
    else:
        log(f"  again   perftui replay {shlex.quote(str(target))}")
    return CRASHED


def achieved(app: PerftuiApp) -> Iterator[tuple[str, str]]:
    """What was done in the app, each with a word in front."""
    from perftui_tui.dialogs.experiment import NOT_MEASURED

    trials, written = app.trials, app.source_fixes.written
    if trials.pairs.is_running and trials.pairs.state is not None:
        title, root = trials.pairs.state.job.tried.title, trials.pairs.state.root
        attach = f"perftui attach {shlex.quote(str(root))}"
        yield "trial", hint(f"{title} goes on; {attach} shows it, {{app.trial}} there stops it")
    titles = {row.option.title for row in written}
    gains = {one.title: f"{one.headline}, proven" for one in trials.proofs.every if one.is_faster}
    for proof in trials.proofs.every:
        # Written fixes are named below, with the same figures.
        if proof.title not in titles:
            undone = ", undone" if proof.fix in app.source_fixes.undone else ""
            word = "proven" if proof.is_faster else "tried"
            yield word, f"{proof.title}: {proof.headline}{undone}"
    tuned = trials.tuning.state
    if tuned is not None and (files := tuned.journal.files):
        gain = f": {tuned.final.verdict.headline}" if tuned.final is not None else ""
        yield "tuned", f"{', '.join(files)} written{gain}"
        yield "undo", _undo(tuned.root, files)
    for row in written:
        gain = gains.get(row.option.title, row.gain) or NOT_MEASURED
        yield "wrote", f"{row.applied.path}: {row.option.title}, {gain}"
    for row in reversed(written):
        yield "undo", _undo(row.root, [Path(row.applied.path).name])


def _undo(root: Path, files: Sequence[str]) -> str:
    """The command that takes back what was written beside the run at ``root``, with its effect as a
    comment of the shell."""
    from perftui.report.next_command import command

    return f"{shlex.join(command('undo', root))}  # restores {', '.join(files)}"
