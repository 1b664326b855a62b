"""Whether two analyses are the same, to the last row."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.formats import load_trace
from perftui.trace.kineto.arguments import arguments_of

_APART = {"read_arguments", "timeline_tracks", "worked_out"}
"""Fields that a trace that was kept has, or has in another form; they are compared by what they
answer."""


def assert_same(one: Any, other: Any) -> None:
    """All fields of two values agree, down to the types of arrays."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    elif is_dataclass(one):
        for each in fields(one):
            if each.name not in _APART:
                assert_same(getattr(one, each.name), getattr(other, each.name))
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other


def assert_right(found: TraceAnalysis, path: Path, rows: int = 5) -> None:
    """It is what reading the file gives, and so are its tracks and the arguments of some rows."""
    assert_equals(found, analyse(load_trace(path)), rows)


def assert_equals(found: TraceAnalysis, fresh: TraceAnalysis, rows: int) -> None:
    """It is ``fresh``, which was read, and so are its tracks and the arguments of some rows."""
    assert_same(fresh, found)
    if found.timeline_tracks:
        tracks = timeline_tracks(fresh.trace)
        assert_same(tracks, found.timeline_tracks)
        span = int(fresh.trace.end.max())
        for mine, theirs in zip(found.timeline_tracks, tracks, strict=True):
            for ask in ("busy", "dominant", "largest_gap"):
                answers = (getattr(track.index, ask)(0, span, 50) for track in (mine, theirs))
                assert_same(*answers)
    asked = np.arange(0, len(fresh.trace), max(1, len(fresh.trace) // rows), dtype=np.int64)
    arguments = dict(arguments_of(fresh.trace, asked))
    assert dict(arguments_of(found.trace, asked)) == arguments
    for row in asked[:3].tolist():
        assert found.trace.read_arguments(row) == arguments[row]
