"""Two marks in time, and the range between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeMarks:
    """Times in ns since the trace's origin; None for a mark that was not set."""

    first: int | None = None
    second: int | None = None

    @property
    def range(self) -> tuple[int, int] | None:
        """Start and end of what lies between both marks; None while one is missing."""
        if self.first is None or self.second is None:
            return None
        return min(self.first, self.second), max(self.first, self.second)

    def marked(self, start: int, end: int) -> TimeMarks:
        """With a further mark on the stretch ``start`` to ``end``: the first at its beginning, the
        second at the edge that is farther from the first. A third begins anew."""
        if self.first is None or self.second is not None:
            return TimeMarks(start)
        farther = end if abs(end - self.first) >= abs(start - self.first) else start
        return TimeMarks(self.first, farther)
