"""Whose turn it is, of several who may only come one at a time and never wait."""

from __future__ import annotations


class TryLock:
    """What a lock is, but that a holder is known: a signal whose handler raises may come between
    the taking of a lock and whoever is told of it, and it would be held for ever."""

    def __init__(self) -> None:
        self._holder: dict[None, object] = {}

    def acquire(self, holder: object) -> bool:
        """Whether it is free, and the turn of ``whose`` from now on."""
        # One call that no other thread comes into.
        return self._holder.setdefault(None, holder) is holder

    def is_held_by(self, holder: object) -> bool:
        """Whether it is the turn of ``whose``."""
        return self._holder.get(None) is holder

    def release(self, holder: object) -> None:
        """It is free again, if it was the turn of ``whose``."""
        if self.is_held_by(holder):
            self._holder.clear()
