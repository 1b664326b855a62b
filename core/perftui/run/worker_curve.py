"""The step of a training with several numbers of loader workers, kept with its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from perftui.run.files import UnreadableError, decode_versioned, read_regular, replace_file
from perftui.run.layout import RunLayout

SCHEMA = 1

LARGEST = 1 << 16
"""Bytes beyond which a file is none of ours."""

LEVEL = 0.03
"""Share of the step that another worker has to save: below it the curve is level."""


@dataclass(frozen=True)
class CurvePoint:
    """The mean step of one run with this number of workers."""

    workers: int
    step_ns: int


@dataclass(frozen=True)
class WorkerCurve:
    """Runs that differ in the number of workers alone, fewest first."""

    points: tuple[CurvePoint, ...]
    schema: int = SCHEMA

    @property
    def best(self) -> int | None:
        """The fewest workers whose step is within ``LEVEL`` of the shortest; None where nothing was
        measured."""
        shortest = min((one.step_ns for one in self.points), default=0)
        enough = (one.workers for one in self.points if one.step_ns <= shortest * (1 + LEVEL))
        return min(enough, default=None)

    @property
    def is_level(self) -> bool:
        """Whether the last number was no better than the best before it."""
        steps = [one.step_ns for one in self.points]
        return len(steps) > 1 and steps[-1] > min(steps[:-1]) * (1 - LEVEL)


def write_worker_curve(root: Path, curve: WorkerCurve) -> None:
    """Keep ``curve`` in the run directory ``root``.

    Raises:
        OSError: the directory cannot be written.
    """
    replace_file(RunLayout(root).worker_curve, msgspec.json.encode(curve))


def read_worker_curve(root: Path) -> WorkerCurve | None:
    """What is kept in ``root``; None where nothing is, or nothing that can be read."""
    path = RunLayout(root).worker_curve
    try:
        if path.stat().st_size > LARGEST:
            return None
        return decode_versioned(read_regular(path), WorkerCurve, SCHEMA, "a curve of workers")
    except (OSError, UnreadableError):
        return None
