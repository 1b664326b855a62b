"""`perftui runs`: the recorded runs, newest first, or without those that are to go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import write_object
from perftui_tui.commands.target import runs_directory

if TYPE_CHECKING:
    from perftui.experiments.history import Listed
    from perftui.run.history import RunEntry
    from perftui.run.manifest import Manifest

MOST_JUDGED = 100
"""Runs that are read for their step time, the newest: 15 ms each."""


def runs(line: CommandLine) -> int:
    """Print one line for each run of the project or runs directory that ``line`` names, with its
    step time, and whether that is longer than in earlier runs of its command; or all as JSON; or
    with ``--prune`` delete those that exceed the limits given.

    Raises:
        UsageError: it names what is no directory, or limits without ``--prune``.
    """
    from perftui.experiments.history import listed
    from perftui.run.history import list_runs
    from perftui.trace.text import printable
    from perftui_tui.commands.prune import LIMITS, prune

    directory = _directory(line)
    if "prune" in line.flags:
        if "json" in line.flags:
            raise UsageError("--prune prints text: drop --json")
        return prune(directory, line)
    if given := [name for name in LIMITS if name in line.values]:
        raise UsageError(f"--{given[0]} says which runs are deleted: add --prune")
    entries = list_runs(directory)
    judged = listed(entries[:MOST_JUDGED])
    if "json" in line.flags:
        from perftui.report.runs import runs_object

        write_object(runs_object(directory, entries, judged))
        return 0
    if not entries:
        print(printable(f"no runs in {directory}"))
        return 0
    for entry in entries:
        if entry.manifest is None:
            print(printable(f"{entry.run_id:<40} {'damaged':<14} {entry.problem or ''}"))
            continue
        print(printable(_line(entry, entry.manifest, judged.get(entry.root))))
    return 0


def _line(entry: RunEntry, manifest: Manifest, known: Listed | None) -> str:
    from perftui.format import duration, percent
    from perftui.run.history import recorded_where
    from perftui_tui.look.format import date_and_time

    started = date_and_time(manifest.started_ns)
    step = duration(known.run.usual_ns) if known and known.run.usual_ns else ""
    name = f"  {manifest.name}" if manifest.name else ""
    slower = f"  {percent(known.slower)} slower than before" if known and known.slower else ""
    elsewhere = f"  ({where})" if (where := recorded_where(entry)) else ""
    state = f"{entry.run_id:<40} {manifest.state:<14} {started}"
    return f"{state}  {step:>8}  {manifest.script}{name}{slower}{elsewhere}"


def _directory(line: CommandLine) -> Path:
    from perftui.run.layout import RUNS_DIRECTORY

    if not line.words:
        return runs_directory(line)
    directory = Path(line.words[0]).absolute()
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    inside = directory / RUNS_DIRECTORY
    return inside if inside.is_dir() else directory
