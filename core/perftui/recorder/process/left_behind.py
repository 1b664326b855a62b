"""Processes of the command that live on after it: nothing of them is recorded any further."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from perftui.wire.spool import SPOOL_VARIABLE

_HELPERS = ("from multiprocessing.resource_tracker ", "from multiprocessing.forkserver ")
"""What Python itself starts, in the command line: it ends when it notices that the others have."""


def living(spool: Path) -> set[int]:
    """Processes with the environment that was made for the command of the recording in ``spool``,
    whoever their parents are by now. 0.1 ms for each process of this user."""
    return {process.pid for process in psutil.process_iter() if _is_of(process, spool)}


def _is_of(process: psutil.Process, spool: Path) -> bool:
    try:
        if process.environ().get(SPOOL_VARIABLE) != str(spool):
            return False
        return not any(word.startswith(_HELPERS) for word in process.cmdline())
    except (psutil.Error, OSError):
        # It has ended, or belongs to somebody else.
        return False


def families(parents: Collection[int]) -> set[int]:
    """``parents`` with all that they have started, such as the workers of their data loaders."""
    return set(parents).union(*map(_below, parents))


def _below(pid: int) -> set[int]:
    with suppress(psutil.Error):
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return set()


def left_behind_message(left: Collection[int]) -> str:
    """The message about ``left``; empty where all of them have ended meanwhile."""
    named = [name for pid in sorted(left) if (name := _name(pid))]
    if not named:
        return ""
    if len(named) == 1:
        return f"{named[0]} is still running after the command ended; it is no longer recorded"
    return (
        f"{len(named)} processes are still running after the command ended, {named[0]} and others; "
        "they are no longer recorded"
    )


def _name(pid: int) -> str:
    """``process 812 (python)``; empty once it has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return f"process {pid} ({process.name()})"
    return ""
