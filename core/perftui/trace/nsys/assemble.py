"""Joins the columns of an export into one ordered, nested Trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perftui.trace.columns.nesting import nest_by_category, order
from perftui.trace.columns.outliers import time_outliers
from perftui.trace.model import NONE, LoadWarning, Trace
from perftui.trace.nsys.arguments import RowPlaces, RowReader
from perftui.trace.nsys.columns import Columns
from perftui.trace.nsys.database import Database
from perftui.trace.nsys.tracks import Names


@dataclass(frozen=True)
class AboutExport:
    """What an export holds beside its events."""

    names: Names
    metadata: Mapping[str, Any]
    session_start: int | None
    """Nanoseconds since the epoch of time 0."""
    domains: Mapping[tuple[int, int], str]


def assemble(
    database: Database, columns: Columns, about: AboutExport, warnings: tuple[LoadWarning, ...]
) -> Trace:
    """The trace; ``columns``, which hold at least one row, are used up."""
    track, start, duration = (columns.joined(name) for name in ("track", "start", "duration"))
    rows = order(track, start, duration)
    start, duration, track = start[rows], duration[rows], track[rows]
    apart = time_outliers(start)
    categories = tuple(columns.categories)
    category = columns.joined("category")[rows]
    nesting = nest_by_category(track, start, duration, category, categories)
    origin = int(start.min())
    start -= origin
    return Trace(
        path=database.path,
        start=start,
        duration=duration,
        name=columns.joined("name")[rows],
        category=category,
        track=track,
        correlation=columns.joined("correlation")[rows],
        external_id=np.full(len(rows), NONE, dtype=np.int64),
        bytes=columns.joined("bytes")[rows],
        parent=nesting.parent,
        depth=nesting.depth,
        names=tuple(columns.names),
        categories=categories,
        tracks=columns.tracks.tracks(about.names),
        origin=origin,
        wall_origin=None if about.session_start is None else about.session_start + origin,
        complete_events=len(rows),
        metadata=about.metadata,
        warnings=(*warnings, LoadWarning(apart.message)) if apart else warnings,
        read_arguments=RowReader(
            database,
            RowPlaces(
                tuple(columns.tables),
                columns.joined("table")[rows],
                columns.joined("row_id")[rows],
                tuple((*key, name) for key, name in about.domains.items()),
            ),
        ),
    )
