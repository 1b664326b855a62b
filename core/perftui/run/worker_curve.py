"""Step times of a training with several numbers of loader workers, stored with its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from perftui.run.files import read_or_none, replace_file
from perftui.run.layout import RunLayout

SCHEMA = 1

LARGEST = 1 << 16
"""Most bytes of one of our files."""

LEVEL = 0.03
"""Share of the step that another worker has to save: below it the curve is level."""


@dataclass(frozen=True)
class CurvePoint:
    """The mean step of one run with this number of workers."""

    workers: int
    step_ns: int


@dataclass(frozen=True)
class WorkerCurve:
    """Runs that differ only in the number of workers, fewest first."""

    points: tuple[CurvePoint, ...]
    schema: int = SCHEMA

    @property
    def best(self) -> int | None:
        """The fewest workers whose step is within ``LEVEL`` of the shortest; None without
        points."""
        shortest = min((point.step_ns for point in self.points), default=0)
        enough = (point.workers for point in self.points if point.step_ns <= shortest * (1 + LEVEL))
        return min(enough, default=None)

    @property
    def is_level(self) -> bool:
        """Whether the largest number was no better than the best before it."""
        steps = [point.step_ns for point in self.points]
        return len(steps) > 1 and steps[-1] > min(steps[:-1]) * (1 - LEVEL)


def write_worker_curve(root: Path, curve: WorkerCurve) -> None:
    """Store ``curve`` in the run directory ``root``.

    Raises:
        OSError: the directory cannot be written.
    """
    replace_file(RunLayout(root).worker_curve, msgspec.json.encode(curve))


def read_worker_curve(root: Path) -> WorkerCurve | None:
    """The curve stored in ``root``; None if there is none, or it cannot be read."""
    path = RunLayout(root).worker_curve
    return read_or_none(path, WorkerCurve, SCHEMA, "a curve of workers", LARGEST)
