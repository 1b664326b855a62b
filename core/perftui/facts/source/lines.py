"""Time by line of the user's code, by samples of a thread, and the lines of the main thread.

Samples come at random moments (the time between two is drawn from an exponential distribution), so
that the time from one sample to the next is independent of what the sample found: the share of that
time is an unbiased estimate of the share of the thread's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import run_is_over, steady_rows, steady_step, step_kind
from perftui.run.columns import COLLATE, FETCH, stack_rate_of
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
    function: str = ""
    inner: str = ""
    """The innermost frame there most of the time."""
    held: int = 0
    """Time in ns; 0 where no sample was there, and only the text of the line shows it."""

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

    def standing_out(self, least: float) -> LineShare | None:
        """The longest line, where it is the user's own and has that share of the time."""
        line = self.lines[0] if self.lines else None
        return line if line and line.file and self.share(line) >= least else None

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


@fact
def stack_samples(facts: Facts) -> tuple[Table, Table]:
    """Samples of the main thread's stack, by ``STACK_COLUMNS``: those that py-spy took from
    outside, and those that the agent took in windows from inside."""
    if facts.run is None or facts.rank is None:
        return Table(), Table()
    outside = facts.rank.stacks
    if "every" not in outside and len(outside):
        # An older run has one rate a second for all samples.
        every = 1_000_000_000 // max(stack_rate_of(facts.run.manifest.profile), 1)
        column: Int64 = np.full(len(outside), every, dtype=np.int64)
        outside = Table(outside.columns, {**outside.values, "every": column})
    return outside, facts.rank.window_stacks


@fact
def steady_held(facts: Facts) -> Int64:
    """The time within the steady steps that each sample from outside stands for, ns; all of it in
    a run that has ended without any."""
    outside, _ = stack_samples(facts)
    if len(outside) and is_without_steps(facts):
        return np.asarray(outside["held"], np.int64)
    return _held(outside, steady_rows(facts))


@fact
def is_without_steps(facts: Facts) -> bool:
    """Whether the run has ended without steps that could be judged."""
    return run_is_over(facts) and steady_step.or_none(facts) is None


@fact
def main_thread(facts: Facts) -> LinesByTime | None:
    """Where the main thread was over the steady steps; None with too few samples."""
    outside, _ = stack_samples(facts)
    return _enough(outside, steady_held(facts))


@fact
def window_thread(facts: Facts) -> LinesByTime | None:
    """Where it was over the steps in which a window was open, or which follow one, seen from
    inside; None with too few samples, and where it was seen from outside."""
    (outside, inside), steps = stack_samples(facts), facts.steps
    if len(outside) or "profiled" not in steps:
        return None
    profiled = steps.where((steps["profiled"] != 0) & (steps["kind"] == step_kind(facts)))
    return _enough(inside, _held(inside, profiled))


@fact
def main_batches(facts: Facts) -> LinesByTime | None:
    """Where the main thread was, over the steady steps, while it made batches itself; None where
    too few samples tell."""
    outside, _ = stack_samples(facts)
    if "stage" not in outside:
        return None
    making = np.isin(outside["stage"], (FETCH, COLLATE))
    return _enough(outside, np.where(making, steady_held(facts), 0))


def _held(stacks: Table, steps: Table) -> Int64:
    """The time within ``steps`` that each sample stands for, ns."""
    if not len(stacks) or not len(steps):
        return np.zeros(len(stacks), dtype=np.int64)
    during = union(steps["start"], steps["start"] + steps["duration"])
    return during.within(stacks["time"], stacks["time"] + stacks["held"])


def _enough(stacks: Table, held: Int64) -> LinesByTime | None:
    found = lines_by_time(stacks, held)
    return found if found.samples >= FEWEST_SAMPLES else None
