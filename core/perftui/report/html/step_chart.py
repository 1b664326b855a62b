"""The chart of step times over a run or a trace; slow steps are marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.facts.fact import Facts
from perftui.facts.step.steps import median, steady_mask, step_kind
from perftui.facts.step.trace_steps import trace_steps
from perftui.facts.step.uneven_steps import slow_from
from perftui.trace.model import Int64

FEWEST = 3
"""Steps that are worth a chart."""

ABOVE = 1.25
"""The chart is to scale up to this many times the limit of slow steps or the 95th percentile, the
larger, or the longest step if that is less: a step of a thousand times the usual length would
flatten all others."""


WIDTH, HEIGHT = 1_000, 100

MOST_DOTS = 240
"""Most steps drawn one by one; more are drawn as so many columns."""

MOST_SLOW = 100
"""Slow steps that are marked, the longest ones."""


class Mark(NamedTuple):
    """A path of the drawing."""

    path: str
    kind: str
    text: str = ""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Steps of one kind in order, as columns of equal length; at least one is steady."""

    index: Int64
    duration: Int64
    """ns."""
    steady: npt.NDArray[np.bool_]
    """Neither of the warm-up nor disturbed by profiling."""

    @property
    def usual(self) -> float:
        """Median of the steady steps, ns."""
        return median(self.duration[self.steady])

    @cached_property
    def limit(self) -> float:
        """Steady steps longer than this are slow, ns."""
        return slow_from(self.duration[self.steady])

    @property
    def slow(self) -> npt.NDArray[np.bool_]:
        """Which steady steps are slow."""
        slow: npt.NDArray[np.bool_] = self.steady & (self.duration > self.limit)
        return slow

    @property
    def top(self) -> int:
        """Most ns that are drawn to scale; longer steps lie above the chart."""
        ordered = np.sort(self.duration[self.steady])
        high = float(ordered[(len(ordered) - 1) * 95 // 100])
        return int(ABOVE * min(float(self.duration.max()), max(self.limit, high))) + 1

    def down(self, ns: float) -> float:
        """Height of a time: 0 at the top of the chart, ``HEIGHT`` at 0 ns."""
        return HEIGHT * (1 - min(ns / self.top, 1.0))

    def marks(self) -> Iterator[Mark]:
        """Each step as a dot; of many steps, the median and the range of groups."""
        yield from self._dots() if len(self.index) <= MOST_DOTS else self._columns()
        rows = np.flatnonzero(self.slow)
        longest = rows[np.argsort(-self.duration[rows], kind="stable")][:MOST_SLOW]
        yield from (self._dot(at, "slow", ", slow") for at in sorted(longest.tolist()))

    def caption(self) -> Iterator[str]:
        """What is drawn, in sentences."""
        slow, beyond = int(self.slow.sum()), self.duration > self.top
        steady = fmt.several(int(self.steady.sum()), "steady step")
        text = f", {slow:,} slow (over {fmt.duration(self.limit)})" if slow else ", none slow"
        yield f"{steady}, median {fmt.duration(self.usual)}{text}."
        if slow > MOST_SLOW:
            yield f"The {MOST_SLOW} longest are marked."
        if len(self.index) > MOST_DOTS:
            yield "A line stands for the range of several steps, the curve for their median."
        elif not self.steady.all():
            yield "Hollow: warm-up or profiled."
        if beyond.any():
            at = int(self.duration.argmax())
            longest = f"step {self.index[at]} with {fmt.duration(int(self.duration[at]))}"
            lie = "step lies" if int(beyond.sum()) == 1 else "steps lie"
            yield f"{int(beyond.sum()):,} {lie} above the chart; the longest is {longest}."

    def _place(self, at: float, ns: float) -> str:
        return f"{number(WIDTH * (at + 0.5) / len(self.index))} {number(self.down(ns))}"

    def _dots(self) -> Iterator[Mark]:
        yield _line([self._place(at, ns) for at, ns in enumerate(self.duration.tolist())])
        slow = self.slow
        for at, steady in enumerate(self.steady.tolist()):
            if not steady:
                yield self._dot(at, "aside", ", warm-up or profiled")
                yield Mark(self._dot(at, "").path, "dot hollow")
            elif not slow[at]:
                yield self._dot(at, "steady")

    def _dot(self, at: int, kind: str, more: str = "") -> Mark:
        """A line without length, whose round ends make a dot however the chart is stretched."""
        ns = int(self.duration[at])
        text = f"step {self.index[at]}, {fmt.duration(ns)}{more}"
        return Mark(f"M{self._place(at, ns)}h0", f"dot {kind}", text)

    def _columns(self) -> Iterator[Mark]:
        edges = np.linspace(0, len(self.index), MOST_DOTS + 1).astype(np.int64).tolist()
        ranges, middles = [], []
        for low, high in pairwise(edges):
            some, middle = self.duration[low:high], (low + high - 1) / 2
            lowest = number(self.down(int(some.min())))
            ranges.append(f"M{self._place(middle, int(some.max()))}V{lowest}")
            middles.append(self._place(middle, median(some)))
        yield Mark("".join(ranges), "range")
        yield _line(middles)


def _line(places: list[str]) -> Mark:
    return Mark(f"M{'L'.join(places)}", "line")


def number(value: float) -> str:
    """A coordinate: two decimals at most, and none that are zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def step_times(facts: Facts) -> StepTimes | None:
    """The steps of a run that are still kept one by one, or of a trace; None where they are few."""
    times = _of_run(facts) if len(facts.steps) else _of_trace(facts)
    if times is None or len(times.index) < FEWEST or not times.steady.any():
        return None
    return times


def _of_run(facts: Facts) -> StepTimes:
    of_kind = facts.steps["kind"] == step_kind(facts)
    rows = facts.steps.where(of_kind)
    return StepTimes(rows["index"], rows["duration"], steady_mask(facts)[of_kind])


def _of_trace(facts: Facts) -> StepTimes | None:
    traced = trace_steps.or_none(facts)
    if traced is None or not traced.steps:
        return None
    judged = {row.step.row for row in traced.each}
    steps = [row.step for row in traced.analysis.step_parts]
    return StepTimes(
        np.array([step.index for step in steps], dtype=np.int64),
        np.array([step.duration for step in steps], dtype=np.int64),
        np.array([step.row in judged for step in steps], dtype=np.bool_),
    )
