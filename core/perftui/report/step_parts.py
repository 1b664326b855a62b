"""The steps of a trace as columns: when each was, and its parts, which sum to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perftui.analysis.model import StepParts


@dataclass(frozen=True)
class StepColumns:
    """Columns of equal length, one entry for each step; times in ns since the trace's start."""

    index: tuple[int, ...]
    start: tuple[int, ...]
    duration: tuple[int, ...]
    parts: Mapping[str, tuple[int, ...]]
    """By name, in drawing order; a part that a step does not have takes 0 ns of it."""


def step_columns(steps: Sequence[StepParts]) -> StepColumns:
    """The columns of ``steps``."""
    names = dict.fromkeys(name for one in steps for name, _ in one.parts)
    parts = [dict(one.parts) for one in steps]
    return StepColumns(
        tuple(one.step.index for one in steps),
        tuple(one.step.start for one in steps),
        tuple(one.step.duration for one in steps),
        {name: tuple(part.get(name, 0) for part in parts) for name in names},
    )
