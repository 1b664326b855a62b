"""The interval of time on screen, and how it moves."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_VIEW = 1_000
"""Nanoseconds: with any more zoom a column of a wide screen would be less than a few."""


@dataclass(frozen=True)
class Viewport:
    """``start`` to ``end`` of the ``first`` to ``last`` that there is; integer nanoseconds.

    Every change keeps ``first <= start < end <= last`` and a view at least ``SHORTEST_VIEW`` long
    (or the whole, where that is shorter).
    """

    start: int
    end: int
    first: int
    last: int

    @classmethod
    def whole(cls, first: int, last: int) -> Viewport:
        """All there is; never empty."""
        last = max(last, first + 1)
        return cls(first, last, first, last)

    @property
    def span(self) -> int:
        """How long the view is."""
        return self.end - self.start

    def showing(self, start: int, end: int) -> Viewport:
        """The view ``start`` to ``end``, made long enough and moved inside what there is."""
        span = min(max(end - start, SHORTEST_VIEW), self.last - self.first)
        start = (start + end - span) // 2
        start = min(max(start, self.first), self.last - span)
        return Viewport(start, start + span, self.first, self.last)

    def zoomed(self, factor: float, anchor: int) -> Viewport:
        """A view ``factor`` times as long in which ``anchor`` keeps its place on screen."""
        anchor = min(max(anchor, self.start), self.end)
        span = min(max(round(self.span * factor), SHORTEST_VIEW), self.last - self.first)
        start = anchor - (anchor - self.start) * span // self.span
        return self.showing(start, start + span)

    def panned(self, amount: int) -> Viewport:
        """The view moved by ``amount`` nanoseconds, as far as there is something to see."""
        return self.showing(self.start + amount, self.end + amount)

    def fitted(self, start: int, end: int) -> Viewport:
        """``start`` to ``end`` with a tenth of their length around them."""
        margin = max((end - start) // 10, 1)
        return self.showing(start - margin, end + margin)

    def revealing(self, start: int, end: int) -> Viewport:
        """The view moved so that ``start`` to ``end`` is in it; unchanged where it is."""
        if start >= self.start and end <= self.end:
            return self
        if end - start > self.span:
            return self.fitted(start, end)
        return self.showing((start + end - self.span) // 2, (start + end + self.span) // 2)

    def column(self, time: int, columns: int) -> int:
        """The column in which ``time`` falls: outside 0 to ``columns`` - 1 where it is not seen."""
        return (time - self.start) * columns // self.span

    def time(self, column: int, columns: int) -> int:
        """The middle of a column."""
        return self.start + (2 * column + 1) * self.span // (2 * columns)
