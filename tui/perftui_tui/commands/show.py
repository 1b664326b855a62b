"""`perftui attach` and `perftui replay`: a run or a trace in the app."""

from __future__ import annotations

import gc
import os
import shlex
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from perftui.run.layout import RUNS_DIRECTORY, RunLayout, is_run_directory
from perftui.run.manifest import Manifest, ManifestError, read_manifest, run_state
from perftui.run.reader import entry_of, list_runs, recorded_where
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import (
    draws_ascii,
    leave_splash,
    log,
    refusing,
    splash,
    theme_name,
    why_headless,
)
from perftui_tui.commands.report import kind, print_report, read_metrics
from perftui_tui.commands.target import Target, find_target, run_by_id, runs_directory

if TYPE_CHECKING:
    from perftui.trace.ncu import KernelMetrics
    from perftui.trace.rank_files import RankFile
    from perftui_tui.app import PerftuiApp

INTERRUPTED = 130
"""The exit code of a command that an interrupt (SIGINT) ended, as shells give it."""


def show(
    target: Path,
    line: CommandLine,
    *,
    is_replay: bool,
    attached: bool = False,
    notes: tuple[str, ...] = (),
    ranks: tuple[RankFile, ...] = (),
    metrics: KernelMetrics | None = None,
) -> int:
    """Show the run or trace at ``target`` until the user leaves; returns the exit code.

    ``attached`` watches a run that somebody else started: leaving it asks nothing. ``notes`` are
    shown in the app, and the traces of ``ranks`` can be opened there. ``metrics`` are what ncu
    measured of the kernels."""
    is_run = target.is_dir()
    try:
        splash()
        # Objects of the start stay: looking for garbage in them took a tenth of the time until the
        # first frame, and would take hundredths of a second between two keys later.
        gc.disable()
        app = _make_app(target, line, is_replay=is_replay and not attached)
        app.attached_to = target if attached else None
        app.notes, app.ranks, app.kernel_metrics = notes, ranks, metrics
        app.once_made = _look_for_garbage
        app.run()
    except KeyboardInterrupt:
        leave_splash()
        if is_run:
            from perftui_tui.commands.farewell import farewell

            farewell(target, is_replay=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - reported: a training may have been started
        from perftui_tui.commands.farewell import report_crash

        leave_splash()
        return report_crash(error, target)
    finally:
        gc.enable()
    from perftui_tui.commands.farewell import achieved, farewell, report_crash

    if app.crash is not None:
        return report_crash(app.crash, app.target)
    if app.failure is not None:
        from perftui.trace.remote import named

        log(f"perftui: {named(app.failure)}")
        return 2
    if not is_run:
        return app.return_code or 0
    is_replay = is_replay and app.own in (None, target)
    root = app.target if is_replay else app.own or app.target
    done = tuple(achieved(app))
    return farewell(root, is_replay=is_replay, stopping=app.is_stopping, achieved=done)


def _look_for_garbage() -> None:
    gc.freeze()
    gc.enable()


def _make_app(target: Path, line: CommandLine, *, is_replay: bool) -> PerftuiApp:
    no_color = os.environ.get("NO_COLOR")
    theme = theme_name(line.values)
    from perftui_tui.app import PerftuiApp
    from perftui_tui.keys.own_keys import key_file, read_overrides
    from perftui_tui.widgets.row_view import RowView

    RowView.ascii_only = draws_ascii(line.flags)
    app = PerftuiApp(target, replay=is_replay, theme=theme, keys=read_overrides(key_file()))
    if no_color is not None:
        # Textual takes the variable out of the environment; a training started again needs it.
        os.environ["NO_COLOR"] = no_color
    return app


def attach(line: CommandLine) -> int:
    """Open a run in the app that is live, or on which a fix is tried; leaving never ends either.
    Returns 0 when the user left."""
    root = _live_run(line)
    reason = why_headless(line.flags)
    if reason is not None:
        why = reason or "--headless does not go with attach, which opens the app"
        raise UsageError(f"{why}; perftui report {shlex.quote(str(root))} prints its state")
    # If the run is recorded on another host, say so, and whether it still is.
    notes = tuple(filter(None, [recorded_where(entry_of(root))]))
    if not line.words and root.parent != (runs := runs_directory(line)):
        notes = (*notes, f"no recorded run in {runs}, so this is the demo in {root.parents[2]}")
    return show(root, line, is_replay=True, attached=True, notes=notes)


def _live_run(line: CommandLine) -> Path:
    runs = runs_directory(line)
    if line.words:
        from perftui.experiments.job import running_trial

        path = Path(line.words[0])
        if is_run_directory(path) or not path.is_dir():
            root = path.absolute() if is_run_directory(path) else run_by_id(str(path), runs)
            with refusing(ManifestError, where="the run is damaged"):
                manifest = run_state(root)
            if manifest.status.is_over and not running_trial(root):
                raise UsageError(_over(root, manifest))
            return root
        runs = runs_directory(line, path)
    readable = _readable(runs)
    # A demo runs where nobody would look for it.
    demos = [] if readable or line.words or "runs" in line.values else map(_readable, _demos())
    for rows in (readable, *demos):
        if living := _living(rows):
            return living[0]
    if not readable:
        raise UsageError(f"no recorded run in {runs}; name a run or its directory")
    root, manifest = readable[0]
    raise UsageError(f"no training is running in {runs}; the newest, {_over(root, manifest)}")


def _readable(runs: Path) -> list[tuple[Path, Manifest]]:
    return [(row.root, row.manifest) for row in list_runs(runs) if row.manifest is not None]


def _living(rows: list[tuple[Path, Manifest]]) -> list[Path]:
    """Those whose training goes on, then those with a trial that does."""
    from perftui.experiments.job import running_trial

    living = [root for root, manifest in rows if not manifest.status.is_over]
    return living + [root for root, _ in rows if running_trial(root)]


def _demos() -> list[Path]:
    """Directories of runs of the user's demos, the newest demo first."""
    from perftui_tui.demo import PREFIX

    places = [(path.lstat(), path) for path in Path(gettempdir()).glob(f"{PREFIX}*")]
    own = sorted((at.st_mtime, path) for at, path in places if at.st_uid == os.getuid())
    return [path / RUNS_DIRECTORY for _, path in reversed(own)]


def _over(root: Path, manifest: Manifest) -> str:
    """The message that a run is over, how it ended, and what opens it."""
    opens = f"perftui replay {shlex.quote(str(root))} opens it"
    return f"{root.name} is over ({manifest.state}); {opens}"


def replay(line: CommandLine) -> int:
    """Open it in the app; without a terminal, print the report instead."""
    target = find_target(line)
    check(target.path)
    reason = why_no_screen(target, line)
    if reason is not None:
        if reason:
            log(f"perftui: {reason}, so printing the report instead")
        return print_report(target, line)
    metrics, notes = read_metrics(target, line), target.notes
    word = Path(*line.words)
    if line.words and word.is_dir() and target.path.is_dir() and not is_run_directory(word):
        count = len(list_runs(target.path.parent))
        newest = f"this is {target.path.name}, the newest of {count} runs; Runs opens the others"
        notes = (newest, *notes) if count > 1 else notes
    return show(target.path, line, is_replay=True, notes=notes, ranks=target.ranks, metrics=metrics)


def why_no_screen(target: Target, line: CommandLine) -> str | None:
    """Why the app cannot or shall not show it; None where it can."""
    from perftui.report.kind import Kind

    reason = why_headless(line.flags)
    if reason is not None:
        return reason
    special = kind(target)
    if special is None or (special is Kind.MEMORY_SNAPSHOT and "ncu" not in line.values):
        return None
    return f"there is no screen for a {special.value}"


def check(target: Path) -> None:
    """Refuse, before the screen is taken, what cannot be opened at all."""
    if target.is_dir():
        with refusing(ManifestError, where="the run is damaged"):
            read_manifest(RunLayout(target).manifest)
        return
    if target.suffix == ".py":
        raise UsageError(f"{target.name} is a script: run it with perftui {target.name}")
    with refusing(OSError, where=f"{target} cannot be read"), target.open("rb") as file:
        start = file.read(1)
    if not start:
        raise UsageError(f"{target} is empty; record the trace again")
