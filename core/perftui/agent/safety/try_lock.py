"""Whose turn it is, of several who may only come one at a time and never wait."""

from __future__ import annotations


class Turn:
    """What a lock is, but that a holder is known: a signal whose handler raises may come between
    the taking of a lock and whoever is told of it, and it would be held for ever."""

    def __init__(self) -> None:
        self._holder: dict[None, object] = {}

    def take(self, whose: object) -> bool:
        """Whether it is free, and the turn of ``whose`` from now on."""
        # One call that no other thread comes into.
        return self._holder.setdefault(None, whose) is whose

    def is_of(self, whose: object) -> bool:
        """Whether it is the turn of ``whose``."""
        return self._holder.get(None) is whose

    def give_back(self, whose: object) -> None:
        """It is free again, if it was the turn of ``whose``."""
        if self.is_of(whose):
            self._holder.clear()
