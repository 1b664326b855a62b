"""What phases take on the GPU, where the training had them timed there."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import steady_rows
from perftui.run.table import Table

DEVICE_PHASES = ("forward", "backward", "optimizer")
DEVICE_COLUMNS = tuple(f"device_{phase}" for phase in DEVICE_PHASES)
"""Theirs in ``STEP_COLUMNS``."""


@dataclass(frozen=True)
class DeviceShare:
    """Means of ``count`` steps, in ns: the few that were timed.

    Each is from when the GPU came to the phase until it had done its work, idle time in between
    included. They do not sum to the step: the GPU may be some steps behind.
    """

    count: int
    parts: tuple[tuple[str, int], ...]


def timed_steps(steps: Table) -> Table | None:
    """The rows of ``steps`` (``STEP_COLUMNS``) that were timed; None where none was."""
    if not len(steps) or not all(column in steps for column in DEVICE_COLUMNS):
        return None
    timed = steps.where(steps[DEVICE_COLUMNS[0]] >= 0)
    return timed if len(timed) else None


@fact
def device_phases(facts: Facts) -> DeviceShare | None:
    """The share over the rank's steady steps; None where none was timed."""
    timed = timed_steps(steady_rows(facts))
    if timed is None:
        return None
    count = len(timed)
    means = [int(timed[column].sum()) // count for column in DEVICE_COLUMNS]
    return DeviceShare(count, tuple(zip(DEVICE_PHASES, means, strict=True)))
