"""Slow steps among the steady ones, and steps that grow during a run: which part of them, and at
which line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import union
from perftui.analysis.steps import BACKWARD
from perftui.facts.fact import Facts, UnknownError, fact, samples
from perftui.facts.script.compilations_and_pauses import (
    compiling_within,
    gc_pauses_of,
    saves_within,
)
from perftui.facts.script.looks import piling
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.facts.source.source_calls import call_of, line_that_keeps_graph
from perftui.facts.source.stack_profile import moments
from perftui.facts.step.judged_step import STAGES
from perftui.facts.step.steps import (
    MANY_STEPS,
    median,
    robust_spread,
    steady_rows,
    steady_span,
    usual_distance,
)
from perftui.run.columns import COMPILE, PHASES, PROFILE, SAVE
from perftui.run.table import Table
from perftui.trace.model import Int64, Mask

TIMES_MEDIAN = 1.5
"""Multiple of the median from which a step is slow: nsys-ai and TraceML."""

DEVIATIONS = 5.0
"""Robust standard deviations above the median that noise alone reaches in no run."""

COLLECTING, EVALUATING = "collecting garbage", "evaluating"

FORWARD_ALONE = 3.0
"""Multiple of the usual forward pass, with a usual backward: forward passes of other batches. If a
data loader fetches those, they are evaluation steps."""

FEWEST_ALIKE = 2
"""Fewest evaluating steps: a single one may be anything."""

MOST_EVALUATING = 0.2
"""Share of steps that may evaluate: with more, such as those with a pass of a teacher, the training
has two kinds of steps."""

MOSTLY = 0.75
"""Share of the excess of slow steps that must lie in steps of many forward passes. Forward passes
must be half of what is added to such a step: an evaluation also compares and counts."""

MOST_UNEXPLAINED = 0.1
"""Share of steps that may be slow without a cause: with more, the training has two kinds of steps
rather than a few slow ones."""

LEAST_UNEXPLAINED = 1 / 3
"""Share of the step lost to slow steps of unknown cause: the mean is then 1.5 times the median."""

DIFFERENCE = 0.5
"""Share of slow steps' excess over the median from which something explains it."""


@dataclass(frozen=True)
class SlowSteps:
    """The slow steps of a run: times in ns; means are over all ``steps``, slow or not."""

    count: int
    steps: int
    median: int
    mean: int
    typical: int
    """Median of the slow steps."""
    excess: int
    """Time of slow steps above the median, averaged over all steps."""
    phase: str
    """The phase with most of the excess."""
    cause: str
    """``SAVE``, ``COMPILE``, ``PROFILE``, ``COLLECTING``, ``EVALUATING``, or empty."""
    explained: int
    """The part of ``excess`` due to ``cause``, also averaged over all steps."""
    every: int
    """Steps between consecutive slow ones, if always about the same; else 0."""
    lines: LinesByTime | None
    """Lines of the main thread in slow steps; only while at the cause, if there is one."""

    @property
    def stands_out(self) -> bool:
        """Whether slow steps are few and hold much of the time for no known reason."""
        is_few = self.count <= MOST_UNEXPLAINED * self.steps
        return is_few and self.excess >= LEAST_UNEXPLAINED * self.mean


@fact
def slow_steps(facts: Facts) -> SlowSteps | None:
    """The slow steps among the steady ones; None if no step is slow. Unknown if there are too few
    steps to know what is usual."""
    steps = steady_rows(facts)
    if len(steps) < MANY_STEPS:
        raise UnknownError(f"{len(steps)} of {MANY_STEPS} steady steps so far")
    duration: Int64 = steps["duration"]
    usual = median(duration)
    slow = duration > slow_from(duration)
    if not slow.any():
        return None
    excess = int((duration[slow] - usual).sum())
    cause, explained, lines = _cause(facts, steps.where(slow), excess)
    is_cause = explained >= DIFFERENCE * excess
    if not is_cause and (evaluating := _evaluating(steps, slow)) is not None:
        # Other steps may also be slow, by little and for no reason.
        slow, is_cause = evaluating, True
        excess = int((duration[slow] - usual).sum())
        lines = _cause(facts, steps.where(slow), excess)[2]
        cause, explained = EVALUATING, excess
    # The phase that grows most from usual to slow steps.
    least = {phase: median(steps[phase][~slow]) if (~slow).any() else 0.0 for phase in PHASES}
    phase = max(PHASES, key=lambda phase: float(steps[phase][slow].mean()) - least[phase])
    return SlowSteps(
        count=int(slow.sum()),
        steps=len(steps),
        median=round(usual),
        mean=int(duration.sum()) // len(steps),
        typical=round(median(duration[slow])),
        excess=excess // len(steps),
        phase=phase,
        cause=cause if is_cause else "",
        explained=min(explained, excess) // len(steps) if is_cause else 0,
        every=usual_distance(steps["index"][slow]),
        lines=lines,
    )


def slow_from(duration: Int64) -> float:
    """ns from which a step is slow, among steps that took ``duration`` (at least one)."""
    usual, deviation = robust_spread(duration)
    return max(TIMES_MEDIAN * usual, usual + DEVIATIONS * deviation)


def _evaluating(steps: Table, slow: Mask) -> Mask | None:
    """Slow steps with many forward passes for one backward pass, if they hold most of the excess of
    slow steps; else None."""
    if slow.all():
        return None
    added = {
        phase: steps[phase][slow] - median(steps[phase][~slow]) for phase in (*PHASES, "duration")
    }
    usual = median(steps["forward"][~slow])
    many = (
        (added["forward"] >= FORWARD_ALONE * usual)
        & (added["forward"] >= FORWARD_ALONE * added["backward"])
        & (added["forward"] >= DIFFERENCE * added["duration"])
    )
    is_most = float(added["duration"][many].sum()) >= MOSTLY * added["duration"].sum()
    if not FEWEST_ALIKE <= int(many.sum()) <= MOST_EVALUATING * len(steps) or not is_most:
        return None
    mask: Mask = slow.copy()
    mask[slow] = many
    return mask


def _cause(facts: Facts, slow: Table, excess: int) -> tuple[str, int, LinesByTime | None]:
    """Activity with the most time in slow steps, besides the phases; its time, and its lines."""
    collected = gc_pauses_of(facts.events, slow)
    times = {
        COLLECTING: int(collected["duration"].sum()) if len(collected) else 0,
        SAVE: int(saves_within(facts.events, slow)[1].sum()),
        COMPILE: compiling_within(facts.events, slow)[2],
    }
    stacks = moments(facts)
    if stacks is None:
        cause = max(times, key=lambda name: times[name])
        return cause, times[cause], None
    during = union(slow["start"], slow["start"] + slow["duration"])
    time = during.within(stacks.time, stacks.time + stacks.length)
    masks = {stage: stacks.stage == stage for stage in (SAVE, COMPILE, PROFILE)}
    for name, mask in masks.items():
        times[name] = max(int(time[mask].sum()), times.get(name, 0))
    cause = max(times, key=lambda name: times[name])
    at_cause = masks.get(cause)
    if at_cause is not None and times[cause] >= DIFFERENCE * excess:
        return cause, times[cause], stacks.lines(at_cause, time)
    # Only the first moment of a sample is certain: one that began in a usual step proves nothing.
    return cause, times[cause], stacks.lines(during.holds(stacks.time), time)


BLOCKS = 10
"""Equal parts of the run, each with a median: single steps scatter too much."""

FEWEST_STEPS = 5 * BLOCKS
"""Five per block: the median of fewer scatters like single steps."""

MONOTONE = 0.6
"""Kendall's tau of the blocks' medians over time: by chance 1 run of 100 has as much."""

JUMP = 0.8
"""Share of the rise at one place from which nothing grows: what grows in proportion to the steps
rises by 2/9 there, to their square by 0.4, while a neighbour on the machine comes once."""

ALONE = 2.0
"""Ratio of a part's growth to that of the rest of the step: on a busier machine all parts grow
alike."""

LEAST = 0.4
"""Growth of a part that is most of the step, as a share, from which the script is the cause: where
each step did the same, backward went from 19 of 34 ms to 25 of 40, as machines vary."""

FAR = 2.0
"""Growth of the whole step from which other programs cannot be the cause, whichever parts grow:
taking half of the cores, they double a step at most."""


@dataclass(frozen=True)
class Trend:
    """A straight line through medians of blocks."""

    first: float
    last: float
    tau: float
    """Kendall's tau, -1 to 1: 1 if each block is higher than those before."""
    jump: float
    """Largest rise within three blocks, as a share of that from the first to the last."""

    @property
    def growth(self) -> float:
        """Growth as a share of the first value; above 1 if it more than doubled."""
        return (self.last - self.first) / self.first if self.first > 0 else 0.0


@dataclass(frozen=True)
class GrowingSteps:
    """Steps that grow during a run; times in ns."""

    step: Trend
    phase: str
    """The part that grows most."""
    part: Trend
    is_alone: bool
    """Whether only this part grows; else the whole step does."""
    cost: int
    """Mean of the steps above what the first ones took, at most what the last ones do."""
    line: LineShare | None
    """The line that takes ever more time; if backward grows, the only line that keeps a graph for
    later steps, else the one that runs backward. None if unknown."""
    rss: Trend | None
    """Memory of the processes, bytes, over the same time; None if not sampled."""


def trend(values: npt.NDArray[np.number]) -> Trend:
    """The trend of ``values`` (at least ``BLOCKS``), with the Theil-Sen slope."""
    blocks = np.array([np.sort(block)[len(block) // 2] for block in np.array_split(values, BLOCKS)])
    early, late = np.triu_indices(BLOCKS, 1)
    rises = (blocks[late] - blocks[early]).astype(np.float64)
    slope = np.sort(rises / (late - early))[len(rises) // 2]
    middle = np.sort(blocks - slope * np.arange(BLOCKS))[BLOCKS // 2]
    tau = float(np.sign(rises).sum()) / len(rises)
    # For values that rise faster and faster, the line would begin below all of them.
    first, last = max(middle, blocks.min()), middle + slope * (BLOCKS - 1)
    whole = float(blocks[-1] - blocks[0])
    jump = float((blocks[2:] - blocks[:-2]).max()) / whole if whole > 0 else 0.0
    return Trend(float(first), float(max(last, blocks.min())), tau, jump)


@fact
def growing_steps(facts: Facts) -> GrowingSteps | None:
    """Steps that grow; None if they do not, or all parts grow alike by little. Unknown if there are
    too few steps."""
    rows = steady_rows(facts)
    if len(rows) < FEWEST_STEPS:
        raise UnknownError(f"{len(rows)} of {FEWEST_STEPS} steady steps so far")
    whole = trend(rows["duration"])
    if whole.tau < MONOTONE or (whole.jump >= JUMP and piling(facts) is None):
        return None
    parts = {phase: trend(rows[phase]) for phase in PHASES}
    phase = max(parts, key=lambda name: parts[name].last - parts[name].first)
    part = parts[phase]
    added = part.last - part.first
    rest = trend(rows["duration"] - rows[phase])
    is_most = part.first >= 0.5 * whole.first
    least = max(ALONE * rest.growth, LEAST if is_most else 0.0)
    is_alone = part.growth >= least and added >= 0.5 * (whole.last - whole.first)
    is_clear = is_alone or whole.last >= (1 + FAR) * _at_begin(whole, rows)
    is_clear |= piling(facts) is not None
    if part.tau < MONOTONE or added <= 0 or not is_clear:
        return None
    grown, taken = (part, rows[phase]) if is_alone else (whole, rows["duration"])
    begin = _at_begin(grown, rows)
    line = _longer_line(facts, rows, phase)
    if phase == BACKWARD:
        # Backward is run at a single line, whatever it goes back through.
        line = line_that_keeps_graph(facts) or line or call_of(facts, "backward")
    return GrowingSteps(
        whole,
        phase,
        part,
        is_alone,
        max(round(min(float(taken.mean()), grown.last) - begin), 0),
        line,
        rss_trend.or_none(facts),
    )


def _at_begin(part: Trend, rows: Table) -> float:
    """Time of the part in the run's first step, ns, by the line through all blocks."""
    length = len(rows) / BLOCKS
    before = float(rows["index"][0]) / length + 0.5
    return max(part.first - before * (part.last - part.first) / (BLOCKS - 1), 0.0)


def _longer_line(facts: Facts, rows: Table, phase: str) -> LineShare | None:
    """The phase's line with the most additional time in the last half of the steps."""
    stacks = moments(facts)
    if stacks is None:
        return None
    of_phases = sum(STAGES.values(), ())
    stages = STAGES.get(phase)
    chosen = np.isin(stacks.stage, stages) if stages else ~np.isin(stacks.stage, of_phases)
    middle = int(rows["start"][len(rows) // 2])
    late = chosen & (stacks.time >= middle)
    early = chosen & (stacks.time < middle)
    after, before = stacks.lines(late), stacks.lines(early)
    if not after.suffices:
        return None
    had = {(line.file, line.line): line.held for line in before.lines}

    def stands_out(line: LineShare) -> float:
        """Additional time of the line in the later half, in units of the samples' scatter."""
        then = had.get((line.file, line.line), 0)
        return float((line.held - then) / math.sqrt(max(line.held + then, 1)))

    # Both halves have the same number of steps.
    return max((line for line in after.lines if line.file), key=stands_out, default=None)


@fact
def rss_trend(facts: Facts) -> Trend:
    """Memory of all processes of the run over the steady steps, bytes. Unknown if sampled too
    seldom."""
    run, rank, span = facts.run, facts.rank, steady_span(facts)
    if run is None or rank is None or span is None:
        raise UnknownError("no steady step so far")
    table = samples(facts)
    if "processes.rss" not in table:
        raise UnknownError("memory of the processes was not sampled")
    times, values = table["time"], table["processes.rss"]
    inside = (times >= span[0]) & (times <= span[1]) & np.isfinite(values)
    if int(inside.sum()) < BLOCKS:
        raise UnknownError("memory of the processes was sampled too seldom")
    return trend(values[inside])
