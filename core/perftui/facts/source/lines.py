"""Time by line of the user's code, by samples of a thread.

Samples come at random moments (the time between two is drawn from an exponential distribution), so
that the time from one sample to the next is independent of what the sample found: the share of that
time is an unbiased estimate of the share of the thread's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from perftui.run.table import Table
from perftui.trace.model import Int64
from perftui.trace.text import printable

FEWEST_SAMPLES = 30
"""With so many, a share of one half is off by at most 26 % of the whole 19 times in 20: its
standard deviation is ``sqrt(2 p (1 - p) / n)``, twice the variance of counted samples."""

FEWEST_TO_NAME = 5
"""Samples below which they name no line: a few moments are chance."""

FEWEST_AGREEING = 3
"""Samples that name a line if each of them found it: of a line with a third of the time that is
chance once in 27 times."""

MOST_LINES = 8

LEAST_SHARE = 0.005
"""Share of the time from which on a line is listed for people."""


@dataclass(frozen=True)
class LineShare:
    """How long a thread was at a line."""

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

    @property
    def short(self) -> str:
        """File name and line, without directories."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file else self.inner


@dataclass(frozen=True)
class LinesByTime:
    """Lines by time, longest first; they are parts of ``covered``, not always all of it."""

    lines: tuple[LineShare, ...]
    covered: int
    """Time in ns that the samples stand for."""
    samples: int
    """How many samples that is: about as many, or in gaps exactly."""

    @property
    def listed(self) -> tuple[LineShare, ...]:
        """The lines worth a row: those with ``LEAST_SHARE`` of the time."""
        return tuple(line for line in self.lines if self.share(line) >= LEAST_SHARE)

    @property
    def first_own(self) -> LineShare | None:
        """The longest that is a line of the user's own code."""
        return next((line for line in self.lines if line.file), None)

    @property
    def suffices(self) -> bool:
        """Whether the samples are enough to name their first line."""
        agree = bool(self.lines) and self.lines[0].held == self.covered
        return self.samples >= (FEWEST_AGREEING if agree else FEWEST_TO_NAME)

    def share(self, line: LineShare) -> float:
        """Share of ``line`` in the time that is covered, 0 to 1."""
        return line.held / self.covered if self.covered else 0.0


def lines_by_time(stacks: Table, held: Int64, samples: int | None = None) -> LinesByTime:
    """Rows of ``stacks``, of which each counts with so many ns of ``held``.

    Without ``samples`` they are as many as the time asks for.
    """
    if not len(stacks):
        return LinesByTime((), 0, 0)
    if samples is None:
        samples = _samples(stacks, held)
    return LinesByTime(_by_line(stacks, held), int(held.sum()), samples)


def _samples(stacks: Table, held: Int64) -> int:
    every: Int64 = np.maximum(stacks["every"], 1)
    return sum(int(held[every == one].sum()) // one for one in np.unique(every).tolist())


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
