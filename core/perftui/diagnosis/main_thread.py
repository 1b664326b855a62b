"""Where the training's main thread was, by line of the user's code: over steps and in GPU gaps.

Looks come at random moments (py-spy draws the time between two from an exponential distribution),
so that the time from one look to the next is independent of what the look found: the share of that
time is an unbiased estimate of the share of the thread's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.run.reader import RunSnapshot
from perftui.run.stacks import looks_of
from perftui.run.steady import Mask
from perftui.run.table import Table
from perftui.trace.model import Int64
from perftui.trace.text import printable

FEWEST_LOOKS = 30
"""With so many, a share of one half is off by at most 26 % of the whole 19 times in 20: its
standard deviation is ``sqrt(2 p (1 - p) / n)``, twice the variance of counted looks."""

FEWEST_IN_GAPS = 5
"""A single look in a gap is one moment of one gap."""

CERTAIN_LOOKS = 3
"""A stretch as long as so many mean intervals goes without a look inside it once in 20 times
(``exp(-3)``), and every one found the same: it names a gap that it holds."""

MOST_LINES = 8

LEAST_SHARE = 0.005
"""Of a line that is listed for people."""


@dataclass(frozen=True)
class LineShare:
    """How long the main thread was at a line."""

    file: str
    """Empty where no line of the user's own was on the stack; made safe to show, like the rest."""
    line: int
    function: str
    inner: str
    """The innermost frame there most of the time."""
    held: int
    """Time in ns."""

    @property
    def source(self) -> str:
        """The line as ``file:line``, or in words that there is none."""
        return f"{self.file}:{self.line}" if self.file else f"no line of yours ({self.inner})"


@dataclass(frozen=True)
class MainThread:
    """Lines by time, longest first; they are parts of ``covered``, not always all of it."""

    lines: tuple[LineShare, ...]
    covered: int
    """Time in ns that the looks stand for."""
    looks: int
    """How many looks that is: about as many, or in gaps exactly."""

    @property
    def listed(self) -> tuple[LineShare, ...]:
        """Those worth a row."""
        return tuple(line for line in self.lines if self.share(line) >= LEAST_SHARE)

    def share(self, line: LineShare) -> float:
        """Of the time that is covered, 0 to 1."""
        return line.held / self.covered if self.covered else 0.0


@dataclass(frozen=True)
class GapLines:
    """Where the main thread was while the GPU idled for one cause."""

    cause: GapCause
    idle: int
    """Time in ns of all those gaps."""
    thread: MainThread


def main_thread(run: RunSnapshot, stacks: Table, steps: Table, mask: Mask) -> MainThread | None:
    """Over the ``steps`` that ``mask`` selects; None where fewer than ``FEWEST_LOOKS`` saw them."""
    rate = looks_of(run.manifest.profile)
    if not len(stacks) or not mask.any() or not rate:
        return None
    chosen = steps.where(mask)
    during = union(chosen["start"], chosen["start"] + chosen["duration"])
    held = during.within(stacks["time"], stacks["time"] + stacks["held"])
    covered = int(held.sum())
    looks = covered * rate // 1_000_000_000
    if looks < FEWEST_LOOKS:
        return None
    return MainThread(_by_line(stacks, held), covered, looks)


def lines_of_gaps(run: RunSnapshot, stacks: Table, analysis: TraceAnalysis) -> tuple[GapLines, ...]:
    """By cause, the one with most idle time first, as far as looks tell."""
    gaps = analysis.gaps
    seen = _Seen.of(run, stacks, analysis.trace.wall_origin)
    if seen is None:
        return ()
    found = []
    for cause in dict.fromkeys(gap.cause for gap in gaps):
        chosen = [gap for gap in gaps if gap.cause is cause]
        thread = seen.within(chosen)
        if thread.looks >= FEWEST_IN_GAPS:
            found.append(GapLines(cause, sum(gap.duration for gap in chosen), thread))
    return tuple(sorted(found, key=lambda one: -one.idle))


def line_of_gap(
    run: RunSnapshot, stacks: Table, analysis: TraceAnalysis, gap: Gap
) -> MainThread | None:
    """Where the main thread was in ``gap``; None where no look tells."""
    seen = _Seen.of(run, stacks, analysis.trace.wall_origin)
    thread = seen.within([gap]) if seen else None
    return thread if thread and thread.looks else None


@dataclass(frozen=True, eq=False)
class _Seen:
    """Stretches in the time of a trace."""

    stacks: Table
    start: Int64
    end: Int64
    certain: int
    """A stretch as long as this (ns) tells of every moment inside it."""

    @staticmethod
    def of(run: RunSnapshot, stacks: Table, origin: int | None) -> _Seen | None:
        rate = looks_of(run.manifest.profile)
        if origin is None or not rate or not len(stacks):
            return None
        start: Int64 = stacks["time"] - origin
        return _Seen(stacks, start, start + stacks["held"], CERTAIN_LOOKS * 1_000_000_000 // rate)

    def within(self, gaps: Sequence[Gap]) -> MainThread:
        """A stretch tells of the gap that it begins in, from there on, and, where it is certain, of
        one inside it."""
        held = np.zeros(len(self.start), dtype=np.int64)
        begins = np.array([gap.start for gap in gaps], dtype=np.int64)
        ends = np.array([gap.end for gap in gaps], dtype=np.int64)
        looks = 0
        # Windows are short: a few stretches meet thousands of gaps.
        meets = (self.end > begins.min(initial=0)) & (self.start < ends.max(initial=0))
        for row in np.flatnonzero(meets).tolist():
            start, end = int(self.start[row]), int(self.end[row])
            known = (begins <= start) & (start < ends)
            if end - start >= self.certain:
                known |= (begins >= start) & (ends <= end)
            overlap = np.minimum(ends[known], end) - np.maximum(begins[known], start)
            held[row] = overlap.sum()
            looks += len(overlap)
        return MainThread(_by_line(self.stacks, held), int(held.sum()), looks)


def _by_line(stacks: Table, held: Int64) -> tuple[LineShare, ...]:
    totals: dict[tuple[str, int, str], int] = {}
    inner: dict[tuple[str, int, str], dict[str, int]] = {}
    rows = np.flatnonzero(held > 0)
    columns = [stacks[name][rows].tolist() for name in ("file", "line", "function", "inner")]
    for file, line, function, innermost, time in zip(*columns, held[rows].tolist(), strict=True):
        key = (file, line, function)
        totals[key] = totals.get(key, 0) + time
        of_line = inner.setdefault(key, {})
        of_line[innermost] = of_line.get(innermost, 0) + time
    found = sorted(totals, key=lambda key: (-totals[key], key))[:MOST_LINES]
    return tuple(
        LineShare(
            printable(str(key[0])),
            key[1],
            printable(str(key[2])),
            printable(str(max(inner[key], key=lambda one: inner[key][one]))),
            totals[key],
        )
        for key in found
    )
