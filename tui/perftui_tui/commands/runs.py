"""`perftui runs`: the recorded runs, newest first."""

from __future__ import annotations

import time

from perftui_tui.commands.line import CommandLine
from perftui_tui.commands.target import runs_directory


def runs(line: CommandLine) -> int:
    """Print one line for each run."""
    from perftui.run.history import list_runs
    from perftui.trace.text import printable

    directory = runs_directory(line)
    entries = list_runs(directory)
    if not entries:
        print(printable(f"no runs in {directory}"))
        return 0
    for entry in entries:
        if entry.manifest is None:
            print(printable(f"{entry.run_id:<40} {'damaged':<14} {entry.problem or ''}"))
            continue
        manifest = entry.manifest
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.started_ns / 1e9))
        code = "" if manifest.exit_code is None else f" {manifest.exit_code}"
        status = f"{manifest.status.value}{code}"
        print(printable(f"{entry.run_id:<40} {status:<14} {started}  {manifest.script}"))
    return 0
