"""A number that a process shares with those it forks.

``struct.pack_into`` clears its target before it writes there: whoever reads meanwhile finds 0, and
whoever is killed in between leaves 0. An item of a memory view is stored at once."""

from __future__ import annotations

import mmap


class SharedNumber:
    """Begins at 0; whoever stores it may be killed at any instant."""

    def __init__(self) -> None:
        self._word = memoryview(mmap.mmap(-1, 8)).cast("Q")

    def store(self, number: int) -> None:
        """It is ``number`` from now on."""
        self._word[0] = number

    def read(self) -> int:
        """The number that was stored last."""
        return self._word[0]
