"""The middle of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def median(values: npt.NDArray[Any]) -> float:
    """The median of ``values``, of which there is at least one; what ``np.median`` says.

    The first call of that imports ``numpy.ma``, which takes longer than to read and judge a run of
    some hundred steps.
    """
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float((ordered[~middle] + ordered[middle]) / 2)
