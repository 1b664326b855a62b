"""Finds where a step ends in loops that fetch from no DataLoader: by the order of optimizers."""

from __future__ import annotations

LONGEST_CYCLE = 64
"""Optimizer steps without an end after which the order learned is no longer believed."""


class OptimizerCycle:
    """Learns which optimizer steps last in each iteration of the loop.

    The newest optimizer to appear is taken for the last one: with a discriminator and a generator
    it is the generator, however many times the discriminator steps first. Whether the first
    iteration is over shows when an optimizer steps again; its end is then in the past.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: a data loader ends the steps now."""
        self._known: set[int] = set()
        self._last = -1
        self._pending = 0
        self._learning = True
        self._since_end = 0

    def state(self) -> tuple[object, ...]:
        """All that decides about the ends to come."""
        return frozenset(self._known), self._last, self._learning, self._since_end

    def settle(self) -> int | None:
        """No optimizer has stepped for long: when the first iteration has ended, if that was it."""
        if not self._learning or not self._known:
            return None
        self._learning = False
        return self._pending

    def step(self, optimizer: int, now: int) -> list[int]:
        """Optimizer number ``optimizer`` has stepped; times at which steps have ended."""
        is_new = optimizer not in self._known
        if is_new:
            self._known.add(optimizer)
            self._last = optimizer
        if self._learning and is_new:
            self._pending = now
            return []
        ends = [self._pending] if self._learning else []
        self._learning = False
        self._since_end += 1
        if optimizer == self._last or self._since_end >= LONGEST_CYCLE:
            self._last = optimizer
            self._since_end = 0
            ends.append(now)
        return ends
