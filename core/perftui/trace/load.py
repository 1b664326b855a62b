"""Reads a trace file of any profiler into columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.callbacks import Cancelled, Preview, Progress
from perftui.trace.formats import format_of
from perftui.trace.model import Trace

if TYPE_CHECKING:
    from perftui.trace.nsys.exporting import ExportProgress


def load_trace(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
    exporting: ExportProgress | None = None,
) -> Trace:
    """Load a Kineto (Chrome) trace, plain or gzip whatever its name says, or one of Nsight Systems.

    What can be read of a damaged file is loaded, and ``Trace.warnings`` says what was not.
    ``progress`` and ``cancelled`` are called between pieces of 256 KiB, ``preview`` with the trace
    of what was read so far, now and then where there is much more to come. ``exporting`` is called
    with how far ``nsys`` has come where it must export the file first.

    Raises TraceError, which says what to do, where the file is missing, empty or no trace, or holds
    no event with a duration; LoadCancelled after ``cancelled`` returned True.
    """
    load = format_of(path).loader(path, exporting)
    return load(path, progress, cancelled, preview)
