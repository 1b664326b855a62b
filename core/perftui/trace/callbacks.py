"""What is called while a trace of any format is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perftui.trace.model import Trace

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and in all, as they are on disk."""

Cancelled = Callable[[], bool]
"""Asked whether to stop."""

Preview = Callable[[Trace], None]
"""Called with the trace of what was read so far."""

Loader = Callable[[Path, Progress | None, Cancelled | None, Preview | None], Trace]
"""Reads a file of one format."""

FIRST_PREVIEW = 64_000
"""Rows of the first preview: read in 0.1 to 0.2 s, and more than a screen can distinguish."""

PREVIEW_GROWTH = 8
"""Times as many rows from one preview to the next: all of them cost a seventh of the last."""
