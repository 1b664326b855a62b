"""The chart of step times over a run or a trace as SVG; slow steps are marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.facts.fact import Facts
from perftui.facts.step.steps import median, steady_mask, step_kind
from perftui.facts.step.trace_steps import trace_steps
from perftui.facts.step.uneven_steps import slow_from
from perftui.report.html.element import Element, element, number
from perftui.trace.model import Int64

FEWEST = 3
"""Steps that are worth a chart."""

ABOVE = 1.25
"""Times the limit of slow steps, or the 95th percentile, up to which a chart is drawn to scale: one
step of a thousand times the usual length would flatten all others. Of even steps, times the longest
of them."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Steps in order, those of one kind; columns of equal length, at least one step is steady."""

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
        """From how many ns on a steady step is slow."""
        return slow_from(self.duration[self.steady])

    @property
    def slow(self) -> npt.NDArray[np.bool_]:
        """Which steady steps are slow."""
        found: npt.NDArray[np.bool_] = self.steady & (self.duration > self.limit)
        return found

    @property
    def top(self) -> int:
        """Up to how many ns the steps are drawn to scale; longer ones lie above the chart."""
        ordered = np.sort(self.duration[self.steady])
        high = float(ordered[(len(ordered) - 1) * 95 // 100])
        return int(ABOVE * min(float(self.duration.max()), max(self.limit, high))) + 1


def step_times(facts: Facts) -> StepTimes | None:
    """The steps of a run that are still kept one by one, or of a trace; None where they are few."""
    found = _of_run(facts) if len(facts.steps) else _of_trace(facts)
    if found is None or len(found.index) < FEWEST or not found.steady.any():
        return None
    return found


def _of_run(facts: Facts) -> StepTimes:
    of_kind = facts.steps["kind"] == step_kind(facts)
    rows = facts.steps.where(of_kind)
    return StepTimes(rows["index"], rows["duration"], steady_mask(facts)[of_kind])


def _of_trace(facts: Facts) -> StepTimes | None:
    found = trace_steps.or_none(facts)
    if found is None or not found.steps:
        return None
    judged = {one.step.row for one in found.each}
    steps = [one.step for one in found.analysis.step_parts]
    return StepTimes(
        np.array([step.index for step in steps], dtype=np.int64),
        np.array([step.duration for step in steps], dtype=np.int64),
        np.array([step.row in judged for step in steps], dtype=np.bool_),
    )


WIDTH, HEIGHT = 1_000, 100

MOST_DOTS = 240
"""Steps that are drawn one by one; of more, so many columns of several."""

MOST_SLOW = 100
"""Slow steps that are marked, the longest ones."""


def step_chart(times: StepTimes) -> Element:
    """Each step as a dot, or of many the median and the range of several in a row."""
    limit = _down(times, times.limit)
    drawing = element(
        "svg",
        element("path", d=f"M0 {number(limit)}H{WIDTH}", class_="limit") if limit > 0 else None,
        *(_dots(times) if len(times.index) <= MOST_DOTS else _columns(times)),
        *_slow(times),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label="time of each step over the run",
    )
    told = f"slow from {fmt.duration(times.limit)}"
    label = element("span", told, style=f"top:{number(limit)}%") if limit > 0 else None
    first, last = int(times.index[0]), int(times.index[-1])
    return element(
        "figure",
        element("div", fmt.duration(times.top), class_="axis"),
        element("div", drawing, label, class_="chart"),
        element(
            "div", element("span", f"step {first:,}"), element("span", f"{last:,}"), class_="axis"
        ),
        element("figcaption", " ".join(_caption(times))),
    )


def _down(times: StepTimes, ns: float) -> float:
    """Where a time lies: 0 at the top of the chart, ``HEIGHT`` at 0 ns."""
    return HEIGHT * (1 - min(ns / times.top, 1.0))


def _across(times: StepTimes, at: float) -> float:
    return WIDTH * (at + 0.5) / len(times.index)


def _dots(times: StepTimes) -> Iterator[Element]:
    points = [
        (_across(times, at), _down(times, ns)) for at, ns in enumerate(times.duration.tolist())
    ]
    yield _line(points)
    slow = times.slow
    for at, (across, down) in enumerate(points):
        if not slow[at]:
            yield _dot(times, at, across, down, "steady" if times.steady[at] else "aside")
        if not times.steady[at]:
            yield element("path", d=f"M{number(across)} {number(down)}h0", class_="dot hollow")


def _columns(times: StepTimes) -> Iterator[Element]:
    edges = np.linspace(0, len(times.index), MOST_DOTS + 1).astype(np.int64).tolist()
    ranges, middles = [], []
    for low, high in pairwise(edges):
        some, across = times.duration[low:high], _across(times, (low + high - 1) / 2)
        top, bottom = _down(times, int(some.max())), _down(times, int(some.min()))
        ranges.append(f"M{number(across)} {number(top)}V{number(bottom)}")
        middles.append((across, _down(times, median(some))))
    yield element("path", d="".join(ranges), class_="range")
    yield _line(middles)


def _line(points: list[tuple[float, float]]) -> Element:
    path = "L".join(f"{number(across)} {number(down)}" for across, down in points)
    return element("path", d=f"M{path}", class_="line")


def _slow(times: StepTimes) -> Iterator[Element]:
    rows = np.flatnonzero(times.slow)
    longest = rows[np.argsort(-times.duration[rows], kind="stable")][:MOST_SLOW]
    for at in sorted(longest.tolist()):
        down = _down(times, int(times.duration[at]))
        yield _dot(times, at, _across(times, at), down, "slow")


def _dot(times: StepTimes, at: int, across: float, down: float, kind: str) -> Element:
    """A line without length, whose round ends make a dot however the chart is stretched."""
    text = f"step {times.index[at]}, {fmt.duration(int(times.duration[at]))}"
    if kind != "steady":
        text += ", slow" if kind == "slow" else ", warm-up or profiled"
    path = f"M{number(across)} {number(down)}h0"
    return element("path", element("title", text), d=path, class_=f"dot {kind}")


def _caption(times: StepTimes) -> Iterator[str]:
    slow, beyond = int(times.slow.sum()), times.duration > times.top
    steady = fmt.several(int(times.steady.sum()), "steady step")
    told = f", {slow:,} slow (over {fmt.duration(times.limit)})" if slow else ", none slow"
    yield f"{steady}, median {fmt.duration(times.usual)}{told}."
    if slow > MOST_SLOW:
        yield f"The {MOST_SLOW} longest are marked."
    if len(times.index) > MOST_DOTS:
        yield "A line stands for the range of several steps, the curve for their median."
    elif not times.steady.all():
        yield "Hollow: warm-up or profiled."
    if beyond.any():
        at = int(times.duration.argmax())
        longest = f"step {times.index[at]} with {fmt.duration(int(times.duration[at]))}"
        lie = "step lies" if int(beyond.sum()) == 1 else "steps lie"
        yield f"{int(beyond.sum()):,} {lie} above the chart; the longest is {longest}."
