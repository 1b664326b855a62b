"""Every step of every rank of a run, without the part in which ranks wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.facts.fact import Facts, fact
from perftui.facts.ranks.rank_table import WAITS_IN
from perftui.facts.step.steps import TRAIN
from perftui.run.table import Table

Ratios = npt.NDArray[np.float64]

NEWEST = 16384
"""Steps that are shown, at most: some 80 a column of a wide terminal."""


@dataclass(frozen=True, eq=False)
class StepGrid:
    """A row for each of ``ranks``, a column for each training step from number ``first`` on."""

    ranks: tuple[int, ...]
    first: int
    ratios: Ratios
    """Time of the step without waiting over the median of all; NaN where it was not recorded."""
    usual: int
    """That median, ns."""

    def binned(self, columns: int) -> Ratios:
        """The newest steps in at most so many columns, each the longest of as many steps."""
        steps = self.ratios.shape[1]
        size = -(-steps // max(columns, 1))
        missing = -steps % size
        padded = np.pad(self.ratios, ((0, 0), (missing, 0)), constant_values=np.nan)
        bins = padded.reshape(len(self.ranks), -1, size)
        longest: Ratios = np.where(np.isnan(bins), -np.inf, bins).max(axis=2)
        return np.where(np.isneginf(longest), np.nan, longest)


@fact
def step_grid(facts: Facts) -> StepGrid | None:
    """The newest training steps of all ranks; None for one rank, and before any steps. They are
    aligned by their numbers: the clocks of hosts differ."""
    run = facts.run
    places = sorted({one.place for one in run.ranks}) if run is not None else []
    tables = {place: facts.of_rank(place).steps for place in places}
    own = {place: found for place, table in tables.items() if len((found := _own(table))[0])}
    if len(own) < 2:
        return None
    last = max(int(index[-1]) for index, _ in own.values())
    first = max(min(int(index[0]) for index, _ in own.values()), last - NEWEST + 1)
    ratios = np.full((len(own), last - first + 1), np.nan)
    for line, (index, times) in zip(ratios, own.values(), strict=True):
        recent = index >= first
        line[index[recent] - first] = times[recent]
    usual = float(np.nanmedian(ratios))
    if usual <= 0:
        return None
    return StepGrid(tuple(own), first, ratios / usual, round(usual))


def _own(steps: Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Numbers of the training steps, and their times without waiting."""
    if not len(steps):
        return np.zeros(0, np.int64), np.zeros(0)
    rows = steps.where(steps["kind"] == TRAIN)
    return rows["index"], (rows["duration"] - rows[WAITS_IN]).astype(np.float64)
