"""Series out of a run's telemetry, in the units that meters draw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from perftui_tui.reading.snapshot import Snapshot

if TYPE_CHECKING:
    from perftui.run.table import Table

RECENT_SAMPLES = 400
"""Samples that the widest chart can show."""

NOW_SAMPLES = 25
"""A value that is missing in so many samples, two a second, is no longer the present one: what is
read seldom comes every ten seconds."""

RESIDENT = "processes.rss"
"""Memory of the run's processes: nothing where none is left."""

STOPPED = "no longer sampled"
"""Shown for a metric whose source has failed."""


def table_of(snapshot: Snapshot) -> Table | None:
    """The telemetry that meters show: ``whole_table_of``, for an ended run only until its last step
    ended. What is sampled while a training leaves says nothing about it."""
    table = whole_table_of(snapshot)
    steps = snapshot.train
    if table is None or snapshot.phase.is_live or steps is None or not len(steps):
        return table
    end = int(steps["start"][-1]) + int(steps["duration"][-1])
    while_training = int((table["time"] <= end).sum())
    return table.head(while_training) if while_training else table


def whole_table_of(snapshot: Snapshot) -> Table | None:
    """The telemetry of the machine on which the run was started, or of the only one there is; for
    an ended run only as long as any of its processes lived."""
    if snapshot.run is None or not snapshot.run.telemetry:
        return None
    tables = snapshot.run.telemetry
    table = tables.get(snapshot.run.manifest.host) or next(iter(tables.values()))
    if snapshot.phase.is_live or RESIDENT not in table:
        return table
    import numpy as np

    # Without the samples taken after the training ended, when the machine was idle.
    lived = np.flatnonzero(table[RESIDENT] > 0)
    return table.head(int(lived[-1]) + 1) if len(lived) else table


def series(table: Table | None, name: str) -> tuple[float, ...]:
    """The newest samples of a metric, oldest first; NaN where one is missing, empty without any."""
    if table is None or name not in table:
        return ()
    values: list[float] = table[name][-RECENT_SAMPLES:].tolist()
    return () if all(math.isnan(value) for value in values) else tuple(values)


def latest(table: Table | None, name: str) -> float | None:
    """The present value of a metric, None where the newest samples do not know it."""
    newest = series(table, name)[-NOW_SAMPLES:]
    return next((value for value in reversed(newest) if not math.isnan(value)), None)


def mean(table: Table, name: str) -> float | None:
    """The mean of a metric over the whole run, None where no sample knows it."""
    values = known_in(table, name)
    return float(values.mean()) if len(values) else None


def known_in(table: Table | None, name: str) -> Any:
    """The samples of a metric that know it, oldest first."""
    if table is None or name not in table:
        return ()
    values = table[name]
    # NaN is not equal to itself.
    return values[values == values]


def why_absent(snapshot: Snapshot) -> str:
    """Why a meter has nothing to show."""
    return "no sample yet" if snapshot.phase.is_live else "not sampled"


def gpus(table: Table | None) -> list[str]:
    """Prefixes of the columns of each GPU: cards as ``gpu0``, MIG devices as ``gpu0.mig1``."""
    if table is None:
        return []
    from perftui.telemetry.gpu.names import gpu_prefixes

    return gpu_prefixes(column.name for column in table.columns)
