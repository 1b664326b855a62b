"""The cost of recording a training, and how much windows slowed it down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import median, run_is_over, step_kind, whole_sum
from perftui.run.table import Ints, Table, after_disturbance

BESIDE = 10
"""Steps before and after a window that show how long its steps would have been. The pace of a
training changes with its data and with what else the machine does: 450 steps of which no more than
9 were profiled had a median of 90 ms and a mean of 250 ms on a busy machine, and against the median
of them all the windows seemed to have taken 7.7 s."""

SETTLED = 3
"""Steps before the first window that are no warm-up: the agent opens it after so many alike."""

DEVIATIONS = 2.0
"""Standard errors on either side of the estimate for a 95 % interval."""


@dataclass(frozen=True)
class Slowed:
    """Total slowdown of all profiled steps, ns."""

    estimate: float
    """Negative if the profiled steps happened to be shorter."""
    error: float
    """Standard error of ``estimate``, from the scatter of neighbouring steps."""

    @property
    def certain(self) -> int:
        """Certain slowdown, ns: the estimate if it exceeds the scatter, else 0."""
        return round(self.estimate) if self.estimate > DEVIATIONS * self.error else 0

    @property
    def at_most(self) -> int:
        """Upper bound of the slowdown, ns."""
        return max(round(self.estimate + DEVIATIONS * self.error), 0)


NONE_SLOWED = Slowed(0.0, 0.0)


def slowed(steps: Table, kind: str) -> Slowed:
    """Time that windows added to the steps of ``kind``, besides the training's waits for them.

    Each window is compared with the mean of the undisturbed steps around it, and skipped if there
    are fewer than two. For steps no longer kept as rows, the means are compared."""
    in_rows, in_sums = _in_rows(steps, kind), _in_sums(steps, kind)
    # Their errors are independent.
    return Slowed(in_rows.estimate + in_sums.estimate, math.hypot(in_rows.error, in_sums.error))


def _in_rows(steps: Table, kind: str) -> Slowed:
    rows = np.flatnonzero(steps["kind"] == kind)
    if not steps["profiled"][rows].any():
        return NONE_SLOWED
    work = (steps["duration"] - steps["profiler"])[rows]
    profiled = steps["profiled"][rows]
    # First row of each run of profiled rows, and the row after its last.
    edges = np.flatnonzero(np.diff(np.concatenate(([0], profiled == 1, [0]))))
    first, end = edges[::2], edges[1::2]
    usual = np.flatnonzero(~after_disturbance(profiled))
    usual = usual[usual >= first[0] - SETTLED]
    where = np.searchsorted(usual, first)
    low, high = np.maximum(where - BESIDE, 0), np.minimum(where + BESIDE, len(usual))
    enough = high - low >= 2
    if not enough.any():
        return NONE_SLOWED
    low, high, first, end = low[enough], high[enough], first[enough], end[enough]
    mean, variance = _moments(work[usual], low, high)
    length = end - first
    total = np.concatenate(([0], np.cumsum(work)))
    added = total[end] - total[first] - length * mean
    error = variance * (length + length**2 / (high - low))
    return Slowed(float(added.sum()), math.sqrt(error.sum()))


def _moments(
    values: Ints, low: Ints, high: Ints
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and variance of ``values[low:high]`` for each pair."""
    # Squares of ns from the median: squares of the values themselves would lose their last digits.
    middle = median(values)
    centred = values - middle
    count = high - low
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (centred, centred**2))
    mean = (sums[high] - sums[low]) / count
    variance = (squares[high] - squares[low] - count * mean**2) / (count - 1)
    return mean + middle, np.maximum(variance, 0.0)


def _in_sums(steps: Table, kind: str) -> Slowed:
    profiled, plain = steps.sums.of(kind, True), steps.sums.of(kind, False)
    if not profiled.rows or plain.rows < 2:
        return NONE_SLOWED
    usual = (plain.of("duration").total - plain.of("profiler").total) / plain.rows
    total = profiled.of("duration").total - profiled.of("profiler").total
    # Values within a bucket of the histogram differ by 0.4 % at most.
    values = list(plain.histograms["duration"].values())
    counts = np.array([count for count, _ in values], dtype=np.float64)
    means = np.array([total for _, total in values], dtype=np.float64) / counts
    squares = counts * (means - np.average(means, weights=counts)) ** 2
    variance = float(squares.sum() / max(counts.sum() - 1, 1))
    error = variance * (profiled.rows + profiled.rows**2 / plain.rows)
    return Slowed(total - profiled.rows * usual, math.sqrt(error))


_SHOWN_FROM = 0.0005
"""Share below which ``<0.1 %`` is shown."""

SHORTEST_NS = 1_000_000_000
"""Total time of steps from which the cost of recording them is reported."""


@dataclass(frozen=True)
class OwnCost:
    """Overhead of recording in steps that took ``whole`` together; all in nanoseconds."""

    hooks: int
    """Time in hooks, as counted by the agent."""
    stalls: int
    """The training's waits for windows to be prepared and saved."""
    slowed: int
    """Certain slowdown of profiled steps against their neighbours."""
    slowed_at_most: int
    """Upper bound of the slowdown of profiled steps, as steps vary anyway."""
    whole: int

    total: int = field(init=False)
    """Time that recording certainly took."""
    at_most: int = field(init=False)
    """Time that recording took at most."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.hooks + self.stalls + self.slowed)
        object.__setattr__(self, "at_most", self.hooks + self.stalls + self.slowed_at_most)


@fact
def recording_cost(facts: Facts) -> OwnCost | None:
    """Recording cost of all steps of the rank.

    Profiled steps of the judged kind are compared with others. None before the first step, or if
    the agent did not count."""
    steps, sums = facts.steps, facts.steps.sums.of()
    if "overhead" not in steps:
        return None
    whole = whole_sum(steps, sums, "duration")
    if not whole:
        return None
    longer = slowed(steps, step_kind(facts))
    return OwnCost(
        hooks=int(steps["overhead"].clip(min=0).sum()) + int(sums.of("overhead").total),
        stalls=whole_sum(steps, sums, "profiler"),
        slowed=longer.certain,
        slowed_at_most=longer.at_most,
        whole=whole,
    )


@fact
def overhead_budget(facts: Facts) -> float | None:
    """The share of the run that recording may take, 0 to 1; None if none was set."""
    budget = facts.manifest.profile.get("overhead") if facts.manifest else None
    return budget if isinstance(budget, float) else None


@fact
def over_budget(facts: Facts) -> float | None:
    """The share of a finished run's steps that recording took, if over budget; None if within it,
    unknown, or the steps took less than a second."""
    cost, budget = recording_cost(facts), overhead_budget(facts)
    if cost is None or budget is None or not run_is_over(facts):
        return None
    is_over = cost.whole >= SHORTEST_NS and cost.total > budget * cost.whole
    return cost.total / cost.whole if is_over else None


@fact
def own_cost_text(facts: Facts) -> tuple[str, bool] | None:
    """Recording cost of the rank's steps so far, in words, and whether it is certainly over the
    limit; None if unknown. If that is unclear, as steps vary anyway, the upper bound is told too;
    no limit if none was set. A window takes a run over it until enough steps without follow."""
    cost, limit = recording_cost(facts), overhead_budget(facts)
    if cost is None:
        return None
    taken, most = cost.total / cost.whole, cost.at_most / cost.whole
    may_be_over = limit is not None and taken <= limit < most
    is_over = limit is not None and taken > limit
    text = cost_text(taken, limit, most if may_be_over else None)
    if is_over and cost.hooks <= (limit or 0) * cost.whole:
        # Steps without windows would have paid for them.
        ended = run_is_over(facts)
        return text.replace(", limit", ": short run, limit" if ended else ", falling to"), ended
    return text, is_over


def cost_text(taken: float, limit: float | None = None, most: float | None = None) -> str:
    """Shares of 0 to 1 as ``perftui 0.3 %, limit 1 %``; with ``most``, the upper bound, ``perftui
    0.3 to 1.1 %, limit 1 %``."""
    shown = "<0.1 %" if 0 < taken < _SHOWN_FROM else fmt.percent(taken)
    if most is not None:
        shown = f"{shown.removesuffix(' %')} to {fmt.percent(most)}"
    return f"perftui {shown}" + ("" if limit is None else f", limit {100 * limit:g} %")
