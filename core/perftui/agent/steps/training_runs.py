"""How many training steps are to come, in scripts that evaluate or generate text in between."""

from __future__ import annotations

from collections import deque

from .detection import TRAIN, Boundary

REMEMBERED = 4
"""Runs and gaps. Most loops have one or two lengths of each: steps between two validations, and
those left at the end of an epoch."""

LEAST_GAPS = 2
"""Gaps as long as each other after which the next is expected to be as long."""

LONG_GAP = 1000
MUCH_LONGER = 4
"""Steps of a gap, and times the longest one before, after which training seems to be over. Rollouts
of 2,048 calls between two updates are common, and texts of as many tokens."""

MANY = 1 << 62
"""More steps than any training has."""


class TrainingRuns:
    """Runs of training steps and the gaps between them, notified of every step from the first
    training step on.

    A run is expected to end where one of the last ones did, and to go on once it is longer than all
    of them. The end of a gap is known where a call with gradients marks it; where none did the last
    time, it is expected once the gap is as long as all of the last ones.
    """

    def __init__(self) -> None:
        self.gaps = 0
        """Gaps between runs that have begun."""
        self.is_foreseen = False
        """Whether the begin of the last run was known right before its first step."""
        self._runs: deque[int] = deque(maxlen=REMEMBERED)
        self._gaps: deque[int] = deque(maxlen=REMEMBERED)
        self._run = 0
        self._gap = 0
        self._trains_next = self._is_announced = False

    def step(self, ended: Boundary) -> None:
        """A step has ended."""
        if ended.kind == TRAIN:
            if self._gap:
                self.is_foreseen, self._is_announced = self.ahead > 0, self._trains_next
                self._gaps.append(self._gap)
                self._gap = 0
            self._run += 1
        else:
            if self._run:
                self._runs.append(self._run)
                self._run = 0
                self.gaps += 1
            self._gap += 1
        self._trains_next = ended.trains_next

    def usual(self, steps: int) -> None:
        """``steps`` more training steps have ended, after one of them."""
        self._run += steps

    @property
    def ahead(self) -> int:
        """Training steps that are expected to follow at once; ``MANY`` before the first."""
        if self._gap:
            is_over = self._trains_next or (not self._is_announced and self._is_as_long_as_ever)
            return self.shortest if is_over else 0
        ends = [run for run in self._runs if run >= self._run]
        if not ends:
            return MANY
        return min(ends) - self._run or int(self._trains_next)

    @property
    def shortest(self) -> int:
        """Steps of the shortest of the last runs."""
        return min(self._runs, default=MANY)

    @property
    def seem_over(self) -> bool:
        """Whether the script has not trained for much longer than ever before."""
        return self._gap > max(LONG_GAP, MUCH_LONGER * max(self._gaps, default=0))

    @property
    def _is_as_long_as_ever(self) -> bool:
        return len(self._gaps) >= LEAST_GAPS and set(self._gaps) == {self._gap}
