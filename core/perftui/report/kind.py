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
    """The kind of the file at ``path``, None for any other and for what is no file.

    Raises:
        OSError: it cannot be read.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(MAGIC):
        return _inside_gzip(head)
    if not head.startswith(_FIRST) and b"Kernel Name" not in head:
        # Traces and scripts: the readers, which take a tenth of a second to import, are not needed.
        return None
    from perftui.trace.memory_pickle import is_memory_snapshot
    from perftui.trace.ncu import is_ncu

    if is_memory_snapshot(head[:512]):
        return Kind.MEMORY_SNAPSHOT
    return Kind.KERNEL_METRICS if is_ncu(head) else None


def _inside_gzip(head: bytes) -> Kind | None:
    """Only snapshots are read in gzip here; most such files are traces, and begin otherwise."""
    from perftui.trace.memory_pickle import inflated_head

    if not inflated_head(head, 1).startswith(_FIRST):
        return None
    from perftui.trace.memory_pickle import is_memory_snapshot

    return Kind.MEMORY_SNAPSHOT if is_memory_snapshot(head) else None
