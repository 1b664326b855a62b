"""What the training spends on starting its loader again, epoch after epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.run.steady import Mask
from perftui.run.table import Table


@dataclass(frozen=True)
class Restarts:
    """The starts after the first, as far as they lie in steady steps."""

    count: int
    per_step: int
    """Their time spread over all steady steps, ns."""
    mean: int
    """Mean of one, ns."""


def restarts(steps: Table, mask: Mask) -> Restarts | None:
    """Starts of a loader in the steps that ``mask`` selects; the first of the run is no restart.

    None where there is none.
    """
    if "loader_start" not in steps or not mask.any():
        return None
    started = (steps["kind"] == "train") & (steps["loader_start"] > 0)
    started[: int(np.argmax(started)) + 1] = False
    again = started & mask
    count = int(again.sum())
    if not count:
        return None
    whole = int(steps["loader_start"][again].sum())
    return Restarts(count, whole // int(mask.sum()), whole // count)
