"""Which files have a report of their own, by content and not by name."""

from __future__ import annotations

import codecs
import enum
from pathlib import Path

from perftui.trace.kineto.source import MAGIC

HEAD = 1024 * 1024
"""Bytes within which ncu's columns begin: it prints them behind what the program printed."""

_FIRST = (b"\x80", b"NVR\0", codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""First bytes of pickles, of a binary report, and of CSV that PowerShell redirected to a file."""


class Kind(enum.Enum):
    """What a file holds that is no trace; the value is what a person calls it."""

    MEMORY_SNAPSHOT = "memory snapshot"
    KERNEL_METRICS = "report of Nsight Compute"


def kind_of(path: Path) -> Kind | None:
    """The kind of the file at ``path``, None for any other and for what is no file. Raises OSError
    if it cannot be read."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(HEAD)
    is_gzip = head.startswith(MAGIC)
    if not is_gzip and not head.startswith(_FIRST) and b"Kernel Name" not in head:
        # Traces and scripts: the readers, which take a tenth of a second to import, are not needed.
        return None
    from perftui.trace.memory_pickle import is_memory_snapshot

    if is_memory_snapshot(head):
        return Kind.MEMORY_SNAPSHOT
    if is_gzip:
        # Only snapshots are read in gzip here; most such files are traces, and begin otherwise.
        return None
    from perftui.trace.ncu import is_ncu

    return Kind.KERNEL_METRICS if is_ncu(head) else None
