"""What recording has taken of a training, windows included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.run.sums import NO_SUMS, Sums
from perftui.run.table import Table


@dataclass(frozen=True)
class OwnCost:
    """All in ns, of steps that took ``whole`` together."""

    hooks: int
    """The agent's own account of what its hooks took."""
    stalls: int
    """What the training waited for windows to be prepared and saved."""
    slowed: int
    """By how much profiled training steps were longer than the usual one."""
    whole: int

    @property
    def total(self) -> int:
        """Everything."""
        return self.hooks + self.stalls + self.slowed


def own_cost(steps: Table, thinned: Sums = NO_SUMS) -> OwnCost | None:
    """The cost over all ``steps`` (``STEP_COLUMNS``) and those of which only sums are left.

    The usual step is the median of the training steps that were not profiled. None where nothing is
    known: no step yet, or an agent that did not count.
    """
    if "overhead" not in steps:
        return None
    gone, gone_disturbed = thinned.of(), thinned.of("train", True)
    whole = int(steps["duration"].sum()) + int(gone.of("duration").total)
    if not whole:
        return None
    trained = steps["kind"] == "train"
    profiled = trained & (steps["profiled"] == 1)
    plain = steps["duration"][trained & (steps["profiled"] == 0)]
    disturbed = int((steps["duration"][profiled] - steps["profiler"][profiled]).sum())
    disturbed += int(gone_disturbed.of("duration").total - gone_disturbed.of("profiler").total)
    count = int(profiled.sum()) + gone_disturbed.rows
    usual = int(np.median(plain)) if len(plain) else 0
    return OwnCost(
        hooks=int(steps["overhead"].clip(min=0).sum()) + int(gone.of("overhead").total),
        stalls=int(steps["profiler"].sum()) + int(gone.of("profiler").total),
        slowed=max(disturbed - count * usual, 0) if usual else 0,
        whole=whole,
    )
