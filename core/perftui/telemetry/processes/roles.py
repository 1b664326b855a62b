"""What the processes of a run do."""

from __future__ import annotations

from dataclasses import dataclass

ROLES = {
    "ranks": "the processes that train",
    "workers": "data loader workers",
    "rest": "other processes of the run",
}
"""``rest``: launchers, compilers, and whatever else the training has started."""


@dataclass(frozen=True)
class Roles:
    """Which processes do what, by number; those in neither are the rest."""

    ranks: frozenset[int] = frozenset()
    workers: frozenset[int] = frozenset()

    def of(self, pid: int) -> str:
        """The role of process ``pid``, one of ``ROLES``."""
        if pid in self.ranks:
            return "ranks"
        return "workers" if pid in self.workers else "rest"
