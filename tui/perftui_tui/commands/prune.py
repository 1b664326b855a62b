"""`perftui runs --prune`: delete the recorded runs that exceed age, number or size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write
from perftui_tui.commands.quantities import bytes_in, seconds_in

if TYPE_CHECKING:
    from perftui.experiments.removal import Stored

LIMITS = ("older-than", "keep", "max-size")
"""Options that say which runs go."""


def prune(runs: Path, line: CommandLine) -> int:
    """Print the runs of ``runs`` that go and delete them, or with ``--dry-run`` only print them; 1
    where one could not be deleted.

    Raises:
        UsageError: no limit is given, or the directory cannot be listed.
    """
    from perftui.experiments.removal import Limits, plan
    from perftui.format import several, size

    if not any(name in line.values for name in LIMITS):
        raise UsageError("--prune needs a limit: --older-than 30d, --keep N or --max-size 5G")
    limits = Limits(
        seconds_in(line.values.get("older-than", "")),
        line.number("keep"),
        bytes_in(line.values.get("max-size", "")),
    )
    dry = "dry-run" in line.flags
    failed = False if dry else not _cleared(runs)
    try:
        found = plan(runs, limits, time.time_ns())
    except OSError as error:
        raise UsageError(f"{runs} cannot be listed: {error.strerror or error}") from error
    for one, why in found.staying:
        _print(f"keep    {one.entry.run_id}: {why}")
    gone = [one for one in found.going if _goes(one, dry=dry)]
    freed = sum(one.bytes for one in gone)
    left = found.left + len(found.going) - len(gone)
    left_bytes = found.left_bytes + found.freed_bytes - freed
    rest = f"{several(left, 'run')} left, {size(left_bytes)}"
    verb = "would be deleted" if dry else "deleted"
    _print(f"{several(len(gone), 'run')} {verb}, {size(freed)} freed; {rest}")
    return ERROR if failed or len(gone) < len(found.going) else DONE


def _cleared(runs: Path) -> bool:
    """Whether nothing is left of removals that were interrupted."""
    from perftui.experiments.removal import remove_leftovers

    try:
        remove_leftovers(runs)
    except OSError as error:
        log(f"perftui: the rest of a deleted run cannot be removed: {error}")
        return False
    return True


def _goes(one: Stored, *, dry: bool) -> bool:
    """Print that the run goes, and delete it unless ``dry``; whether that succeeded."""
    from perftui.experiments.removal import NotRemovableError, delete_run
    from perftui.format import size
    from perftui_tui.look.format import date_and_time

    manifest = one.entry.manifest
    script = manifest.script if manifest else ""
    ended = date_and_time(one.ended_ns)
    _print(f"delete  {one.entry.run_id:<40} {size(one.bytes):>9}  ended {ended}  {script}")
    if dry:
        return True
    try:
        delete_run(one.entry.root)
    except (NotRemovableError, OSError) as error:
        log(f"perftui: {one.entry.run_id} was not deleted: {error}")
        return False
    return True


def _print(line: str) -> None:
    from perftui.trace.text import printable

    write(f"{printable(line)}\n")
