"""Which steps speak for the training: warm-up and what profiling disturbed are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perftui.run.aggregates import after_disturbance
from perftui.run.table import Table

if TYPE_CHECKING:
    from perftui.trace.model import Int64

Mask = npt.NDArray[np.bool_]

LONGEST_WARM_UP = 100
"""A change later than this many steps is a change of the training, not its warm-up."""

REFERENCE_STEPS = 1000
"""How many steps after the longest warm-up show what is usual."""

BAND = 1.25
"""A step within this factor of the usual one is usual, however quiet the rest are. Kernel
autotuning, compilation, allocator growth and worker start each cost a multiple of a step."""

BAND_DEVIATIONS = 4.0
"""Noisy steps widen the band to this many robust deviations (1.4826 times the median absolute
deviation, which is the standard deviation where the noise is normal)."""


def steady(steps: Table, kind: str = "train") -> Mask:
    """Mask over the rows of ``steps`` (``STEP_COLUMNS``): those of ``kind`` after the warm-up.

    Steps of another kind, profiled steps and the step after a profiled one (it pays for saving the
    window) are left out. One step alone is never steady: nothing distinguishes it from warm-up.
    """
    if not len(steps):
        return np.zeros(0, dtype=np.bool_)
    undisturbed = (steps["kind"] == kind) & ~after_disturbance(steps["profiled"])
    rows = np.flatnonzero(undisturbed)
    mask = np.zeros(len(steps), dtype=np.bool_)
    mask[rows[warm_up_length(steps["duration"][rows]) :]] = True
    return mask


def warm_up_length(durations: npt.NDArray[np.int64]) -> int:
    """How many of the first ``durations`` (ns) are warm-up.

    The maximum-likelihood change point between a run where most steps are unusual and one
    where most are usual: the prefix in which unusual steps exceed usual ones by the most, the
    shortest where several do. Usual is what lies in a band around the median of later steps, on a
    logarithmic scale, so that slow starts and starts from a full queue are found alike, and a lone
    slow step in the middle is not taken for a start.
    """
    count = len(durations)
    if count <= 1:
        return count
    longest = min(count // 2, LONGEST_WARM_UP)
    scale = np.log(np.maximum(durations[: longest + REFERENCE_STEPS], 1).astype(np.float64))
    reference = scale[longest:]
    usual = median(reference)
    deviation = 1.4826 * median(np.abs(reference - usual))
    band = max(np.log(BAND), BAND_DEVIATIONS * deviation)
    unusual = np.where(np.abs(scale[:longest] - usual) > band, 1, -1)
    excess = np.concatenate(([0], np.cumsum(unusual)))
    return int(np.argmax(excess))


def median(values: npt.NDArray[Any]) -> float:
    """The median of ``values``, of which there is at least one; what ``np.median`` returns.

    The first call of that imports ``numpy.ma``, which takes longer than to read and judge a run of
    some hundred steps.
    """
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float((ordered[~middle] + ordered[middle]) / 2)


def usual_distance(indices: Int64) -> int:
    """The usual distance of ``indices``, if all are about that far from each other; else 0."""
    if len(indices) < 3:
        return 0
    apart = np.diff(indices)
    usual = round(median(apart))
    return usual if np.abs(apart - usual).max() <= max(1, usual // 10) else 0
