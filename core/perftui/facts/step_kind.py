"""Which steps of a run are looked at: those of training, or what it does instead."""

from __future__ import annotations

import numpy as np

from perftui.run.aggregates import NO_AGGREGATES, Aggregates
from perftui.run.table import Table

TRAIN, EVAL, INFER = "train", "eval", "infer"

WORK = {TRAIN: "training", EVAL: "evaluation", INFER: "inference"}
"""What a step of each kind is part of."""


def main_kind(steps: Table, downsampled: Aggregates = NO_AGGREGATES) -> str:
    """The kind of step that a run is about.

    Training where there is any of it, though most steps may be of evaluation; else whatever of
    evaluation and inference came more often. ``TRAIN`` before the first step. ``downsampled`` are
    steps that are no longer rows of ``steps``.
    """
    if count_of(TRAIN, steps, downsampled):
        return TRAIN
    counts = {kind: count_of(kind, steps, downsampled) for kind in (EVAL, INFER)}
    return max(counts, key=lambda kind: counts[kind]) if any(counts.values()) else TRAIN


def count_of(kind: str, steps: Table, downsampled: Aggregates = NO_AGGREGATES) -> int:
    """How many steps of that kind there were."""
    rows = int(np.count_nonzero(steps["kind"] == kind)) if len(steps) else 0
    return rows + downsampled.of(kind).rows
