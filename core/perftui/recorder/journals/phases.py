"""Exclusive times: of nested intervals, each instant belongs to the innermost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from perftui.run.columns import PHASES

OTHER = "other"


class Interval(NamedTuple):
    """One finished interval of the training thread, ``[start, end)`` in ns."""

    start: int
    end: int
    kind: str


def exclusive_times(start: int, end: int, intervals: Iterable[Interval]) -> dict[str, int]:
    """Nanoseconds of each phase inside ``[start, end)``; together exactly ``end - start``.

    ``intervals`` come in the order in which they finished. They are clipped to the range; an
    instant belongs to the interval that covers it and began last, of equal beginnings to the
    shorter one, of equal intervals to the one that finished first. What none covers is ``other``.
    """
    sweep = _Sweep(start, end)
    numbered = [(i.start, -i.end, -n, i.kind) for n, i in enumerate(intervals) if i.end > i.start]
    for opened, negative_end, _, kind in sorted(numbered):
        sweep.advance(min(max(opened, start), end))
        sweep.open(min(-negative_end, end), kind)
    sweep.advance(end)
    return sweep.totals


class _Sweep:
    """Walks forward in time with the stack of open intervals, outermost at the bottom."""

    def __init__(self, start: int, end: int) -> None:
        self.totals = dict.fromkeys(PHASES, 0)
        self._at = start
        self._end = end
        self._open: list[tuple[int, str]] = []

    def open(self, end: int, kind: str) -> None:
        if end > self._at:
            self._open.append((end, kind))

    def advance(self, to: int) -> None:
        while self._open and self._at < to:
            end, kind = self._open[-1]
            self._give(kind, min(end, to))
            if end <= to:
                self._open.pop()
        self._give(OTHER, to)

    def _give(self, kind: str, until: int) -> None:
        if until > self._at:
            self.totals[kind] += until - self._at
            self._at = until
