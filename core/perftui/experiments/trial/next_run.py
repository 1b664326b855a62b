"""What a trial runs next, and what for."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from perftui import format as fmt
from perftui.experiments.trial.runs import Arm


class Purpose(str, enum.Enum):
    """What a run of a trial is for."""

    WORKERS = "workers"
    """To find the number of loader workers, before all pairs."""
    WARM_UP = "warm-up"
    """To have files and caches warm for the others; its time does not count."""
    PAIR = "pair"
    BLOCKS = "blocks"
    """Pairs of blocks within one run."""
    LOSSES = "losses"
    """To see whether losses repeat without the change."""


@dataclass(frozen=True)
class NextRun:
    """A run that is about to be started."""

    purpose: Purpose
    pair: int = 1
    """The pair that it belongs to, or with blocks the first of its pairs; counted from 1."""
    arm: Arm = Arm.BEFORE
    workers: int = 0
    """Workers that are tried."""
    further: int = 0
    """At most so many runs follow that try other numbers of workers."""

    @property
    def is_of_runs(self) -> bool:
        """Whether pairs are made of runs by now, not of blocks within them."""
        return self.purpose in (Purpose.WARM_UP, Purpose.PAIR)

    @property
    def before_pairs(self) -> str:
        """What it is for in a few words, where it belongs to no pair; else empty."""
        if self.purpose is Purpose.WORKERS:
            return f"trying {fmt.several(self.workers, 'worker')}"
        return "warm-up run" if self.purpose is Purpose.WARM_UP else ""

    @property
    def text(self) -> str:
        """What it is, for a person."""
        if self.purpose is Purpose.WORKERS:
            return self.before_pairs
        if self.purpose is Purpose.WARM_UP:
            return f"{self.before_pairs}, not counted"
        if self.purpose is Purpose.PAIR:
            way = "with" if self.arm is Arm.AFTER else "without"
            return f"pair {self.pair}, the run {way} the fix"
        if self.purpose is Purpose.BLOCKS:
            return "a run that switches the fix on and off"
        return "another run without the fix, to compare losses"


Began = Callable[[NextRun], object]
"""Called before each run."""


def unseen(_: NextRun) -> None:
    """For whoever does not follow the runs."""
