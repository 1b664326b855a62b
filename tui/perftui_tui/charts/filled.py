"""``filled_steps`` of many shares at once; apart from it, as the first frame needs no numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perftui.trace.model import Int64


def all_filled_steps(fractions: npt.NDArray[np.float64], steps: int) -> Int64:
    """``filled_steps`` of each fraction; ``steps`` is at least 2."""
    between = np.clip(np.rint(fractions * steps), 1, steps - 1)
    full = np.where(fractions >= 1, steps, between)
    found: Int64 = np.where(fractions <= 0, 0, full).astype(np.int64)
    return found
