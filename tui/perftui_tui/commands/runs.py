"""`perftui runs`: the recorded runs, newest first, or without those that are to go."""

from __future__ import annotations

import math
import shutil
import sys
import time
from pathlib import Path

from perftui.experiments.history import History, listed
from perftui.experiments.job import running_trial
from perftui.experiments.removal import (
    NotRemovableError,
    RemovalLimits,
    Stored,
    delete_run,
    plan,
    remove_leftovers,
)
from perftui.format import duration, percent, several, size
from perftui.report.recorded import concluded, runs_object
from perftui.run.reader import RunEntry, list_runs, recorded_where
from perftui.trace.text import printable
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import DONE, ERROR, log, refusing, write, write_object
from perftui_tui.commands.target import runs_directory
from perftui_tui.look.format import date_and_time

MOST_JUDGED = 100
"""Runs that are read for their step time, the newest: 15 ms each."""


def runs(line: CommandLine) -> int:
    """Print one line for each run of the project or runs directory that ``line`` names, with its
    mean step and verdict, and whether its usual step is longer than in earlier runs of its command;
    or all as JSON; or with ``--prune`` delete those that exceed the limits given."""
    named = Path(line.words[0]) if line.words else None
    if named is not None and not named.is_dir():
        raise UsageError(f"{named.absolute()} is not a directory")
    directory = runs_directory(line, named)
    if "prune" in line.flags:
        if "json" in line.flags:
            raise UsageError("--prune prints text: drop --json")
        return prune(directory, line)
    if limits := [name for name in LIMITS if name in line.values]:
        raise UsageError(f"--{limits[0]} says which runs are deleted: add --prune")
    entries = list_runs(directory)
    judged = listed(entries[:MOST_JUDGED])
    if "json" in line.flags:
        write_object(runs_object(directory, entries, judged))
        return 0
    if not entries:
        print(printable(f"no runs in {directory}"))
        return 0
    heads = ("run", "state", "started", "    step", "verdict", "script")
    rows = [heads, *(_cells(entry, judged.get(entry.root)) for entry in entries)]
    *widths, last = (max(map(len, column)) for column in zip(*rows, strict=True))
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    if sum(widths) + 2 * len(widths) + last > room:
        # A run's name begins with its start.
        rows, widths = [row[:2] + row[3:] for row in rows], widths[:2] + widths[3:]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0), strict=True))
        print(printable("  ".join(cells).rstrip()))
    return 0


def _cells(entry: RunEntry, judged: History | None) -> tuple[str, ...]:
    manifest = entry.manifest
    if manifest is None:
        return (entry.run_id, "damaged", "", "", "", entry.problem or "")
    step = duration(judged.now.mean_ns) if judged and judged.now.mean_ns else ""
    told = concluded(entry.root) if judged else None
    top = told.top if told else None
    verdict = f"{top.rule} {percent(top.share) if top.share else ''}" if top else ""
    name = f"  {manifest.name}" if manifest.name else ""
    slower = f"  {percent(judged.slower)} slower than before" if judged and judged.slower else ""
    elsewhere = f"  ({where})" if (where := recorded_where(entry)) else ""
    title = running_trial(entry.root)
    trial = f"  trial of {title} running: perftui attach shows it" if title else ""
    script = f"{manifest.script}{name}{slower}{trial}{elsewhere}"
    started = date_and_time(manifest.started_ns)
    return (entry.run_id, manifest.state, started, f"{step:>8}", verdict, script)


LIMITS = ("older-than", "keep", "max-size")
"""Options that say which runs go."""


def prune(runs: Path, line: CommandLine) -> int:
    """Print the runs of ``runs`` that go and delete them, or with ``--dry-run`` only print them; 1
    where one could not be deleted."""
    if not any(name in line.values for name in LIMITS):
        raise UsageError("--prune needs a limit: --older-than 30d, --keep N or --max-size 5G")
    limits = RemovalLimits(*map(line.values.get, LIMITS))
    dry, failed = "dry-run" in line.flags, False
    if not dry:
        try:
            remove_leftovers(runs)
        except OSError as error:
            log(f"perftui: the rest of a deleted run cannot be removed: {error}")
            failed = True
    with refusing(OSError, where=f"{runs} cannot be listed"):
        pruning = plan(runs, limits, time.time_ns())
    for run, why in pruning.staying:
        _print(f"keep    {run.entry.run_id}: {why}")
    gone = [run for run in pruning.going if _goes(run, dry=dry)]
    freed = sum(run.bytes for run in gone)
    left = pruning.left + len(pruning.going) - len(gone)
    left_bytes = pruning.left_bytes + pruning.freed_bytes - freed
    rest = f"{several(left, 'run')} left, {size(left_bytes)}"
    verb = "would be deleted" if dry else "deleted"
    _print(f"{several(len(gone), 'run')} {verb}, {size(freed)} freed; {rest}")
    return ERROR if failed or len(gone) < len(pruning.going) else DONE


def _goes(run: Stored, *, dry: bool) -> bool:
    """Print that the run goes, and delete it unless ``dry``; whether that succeeded."""
    manifest = run.entry.manifest
    script = manifest.script if manifest else ""
    ended = date_and_time(run.ended_ns)
    _print(f"delete  {run.entry.run_id:<40} {size(run.bytes):>9}  ended {ended}  {script}")
    if dry:
        return True
    try:
        delete_run(run.entry.root)
    except (NotRemovableError, OSError) as error:
        log(f"perftui: {run.entry.run_id} was not deleted: {error}")
        return False
    return True


def _print(line: str) -> None:
    write(f"{printable(line)}\n")
