"""A journal of stacks, which stays small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perftui.recorder.faults import FaultLog
from perftui.recorder.journals.downsampling import DownsamplingSink
from perftui.run.journal import Column
from perftui.run.stacks import STACK_TEXT

SEGMENT_BYTES = 2 * 1024 * 1024
"""Of its pieces: half an hour of looks at ten a second that find a new place each."""


def stack_journal(path: Path, columns: Sequence[Column], faults: FaultLog) -> DownsamplingSink:
    """The journal at ``path``, opened with its first row."""
    return DownsamplingSink(path, columns, faults, text=STACK_TEXT, segment_bytes=SEGMENT_BYTES)
