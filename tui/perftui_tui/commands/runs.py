"""`perftui runs`: the recorded runs, newest first, or without those that are to go."""

from __future__ import annotations

from pathlib import Path

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import write_object
from perftui_tui.commands.target import runs_directory


def runs(line: CommandLine) -> int:
    """Print one line for each run of the project or runs directory that ``line`` names, or all as
    JSON, or with ``--prune`` delete those that exceed the limits given.

    Raises:
        UsageError: it names several, or what is no directory, or limits without ``--prune``.
    """
    from perftui.run.history import list_runs, recorded_where
    from perftui.trace.text import printable
    from perftui_tui.commands.prune import LIMITS, prune
    from perftui_tui.look.format import date_and_time

    directory = _directory(line)
    if "prune" in line.flags:
        if "json" in line.flags:
            raise UsageError("--prune prints text: drop --json")
        return prune(directory, line)
    if given := [name for name in LIMITS if name in line.values]:
        raise UsageError(f"--{given[0]} says which runs are deleted: add --prune")
    entries = list_runs(directory)
    if "json" in line.flags:
        from perftui.report.runs import runs_object

        write_object(runs_object(directory, entries))
        return 0
    if not entries:
        print(printable(f"no runs in {directory}"))
        return 0
    for entry in entries:
        if entry.manifest is None:
            print(printable(f"{entry.run_id:<40} {'damaged':<14} {entry.problem or ''}"))
            continue
        manifest = entry.manifest
        started = date_and_time(manifest.started_ns)
        name = f"  {manifest.name}" if manifest.name else ""
        line_of_run = f"{entry.run_id:<40} {manifest.state:<14} {started}  {manifest.script}{name}"
        elsewhere = f"  ({where})" if (where := recorded_where(entry)) else ""
        print(printable(f"{line_of_run}{elsewhere}"))
    return 0


def _directory(line: CommandLine) -> Path:
    from perftui.run.layout import RUNS_DIRECTORY

    if not line.words:
        return runs_directory(line)
    directory = Path(line.words[0]).absolute()
    if len(line.words) > 1:
        raise UsageError(f"runs takes one directory; unexpected {line.words[1]!r}")
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    inside = directory / RUNS_DIRECTORY
    return inside if inside.is_dir() else directory
