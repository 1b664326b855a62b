"""A lock that nobody waits for."""

from __future__ import annotations


class TryLock:
    """One holder at a time; who comes meanwhile does without.

    The holder is known, unlike that of a ``threading.Lock``: a signal whose handler raises may come
    between taking a lock and remembering that, and it would be held for ever.
    """

    def __init__(self) -> None:
        self._holder: dict[None, object] = {}

    def acquire(self, holder: object) -> bool:
        """Take the lock for ``holder`` if it is free; whether ``holder`` has it now."""
        # One call that no other thread comes into.
        return self._holder.setdefault(None, holder) is holder

    def is_held_by(self, holder: object) -> bool:
        """Whether ``holder`` has the lock."""
        return self._holder.get(None) is holder

    def release(self, holder: object) -> None:
        """Free the lock, if ``holder`` has it."""
        if self.is_held_by(holder):
            self._holder.clear()
