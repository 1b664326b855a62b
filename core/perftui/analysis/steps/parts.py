"""Where each step's wall time went: exclusive parts that sum to the step exactly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Idle
from perftui.analysis.intervals import Intervals, subtract, unite
from perftui.analysis.kernels.activity import busy
from perftui.analysis.model import GapCause, Step, StepParts
from perftui.trace.categories import MEMCPY
from perftui.trace.model import Int64, Trace

COMPUTE = "gpu compute"
EXPOSED_COMMUNICATION = "exposed communication"
EXPOSED_COPIES = "exposed copies"
OTHER = "other"


def device_parts(trace: Trace, rows: Int64, idle: Idle) -> Mapping[str, Intervals]:
    """Parts of one device's time: ``rows`` are its activity, ``idle`` the rest.

    Communication is exposed where nothing is computed, a copy where neither is going on. Setting
    memory counts as computing.
    """
    communicates = kinds.communication(trace)[rows]
    copies = trace.in_category(MEMCPY)[rows]
    compute = busy(trace, rows[~communicates & ~copies])
    communication = busy(trace, rows[communicates])
    copying = busy(trace, rows[copies])
    return {
        COMPUTE: compute,
        EXPOSED_COMMUNICATION: subtract(communication, compute),
        EXPOSED_COPIES: subtract(copying, unite(compute, communication)),
        **{cause.value: idle.causes[cause] for cause in GapCause},
    }


def step_parts(steps: tuple[Step, ...], parts: Mapping[str, Intervals]) -> tuple[StepParts, ...]:
    """One budget for each step; ``parts`` are exclusive, and what none covers is ``other``."""
    start = np.array([step.start for step in steps], dtype=np.int64)
    end = np.array([step.end for step in steps], dtype=np.int64)
    columns = {name: part.within(start, end).tolist() for name, part in parts.items()}
    return tuple(
        _parts(step, [(name, column[index]) for name, column in columns.items()])
        for index, step in enumerate(steps)
    )


def _parts(step: Step, parts: list[tuple[str, int]]) -> StepParts:
    rest = step.duration - sum(length for _, length in parts)
    # With a device, activity and idle time leave no rest; on the CPU the rest is a part.
    if rest or not any(name == COMPUTE for name, _ in parts):
        parts = [*parts, (OTHER, rest)]
    return StepParts(step, tuple(parts))
