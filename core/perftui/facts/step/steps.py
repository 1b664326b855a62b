"""The steps that a judgement rests on: which they are, how long they take, where that time goes.

Warm-up and what profiling disturbed are left out. Means are whole nanoseconds, whose parts sum to
them exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.rounding import whole_quotients
from perftui.run.aggregates import (
    NO_AGGREGATES,
    Aggregates,
    Group,
    Weighed,
    after_disturbance,
    consistent_rows,
)
from perftui.run.columns import PHASES
from perftui.run.manifest import Status
from perftui.run.table import Table

if TYPE_CHECKING:
    from perftui.analysis.model import StepParts
    from perftui.trace.model import Int64, Mask

LONGEST_WARM_UP = 100
"""A change later than this many steps is a change of the training, not its warm-up."""

REFERENCE_STEPS = 1000
"""How many steps after the longest warm-up show what is usual."""

BAND = 1.25
"""A step within this factor of the usual one is usual, however quiet the rest are. Kernel
autotuning, compilation, allocator growth and worker start each cost a multiple of a step."""

BAND_DEVIATIONS = 4.0
"""Noisy steps widen the band to this many robust deviations."""


def steady(steps: Table, kind: str = "train") -> Mask:
    """Mask over the rows of ``steps`` (``STEP_COLUMNS``): those of ``kind`` after the warm-up.

    Steps of another kind, profiled steps and the step after a profiled one (it pays for saving the
    window) are left out. One step alone is never steady: nothing distinguishes it from warm-up.
    """
    if not len(steps):
        return np.zeros(0, dtype=np.bool_)
    rows = np.flatnonzero((steps["kind"] == kind) & ~after_disturbance(steps["profiled"]))
    mask = np.zeros(len(steps), dtype=np.bool_)
    mask[rows[warm_up_length(steps["duration"][rows]) :]] = True
    return mask


def warm_up_length(durations: npt.NDArray[np.int64]) -> int:
    """How many of the first ``durations`` (ns) are warm-up.

    The maximum-likelihood change point between a run where most steps are unusual and one
    where most are usual: the prefix in which unusual steps exceed usual ones by the most, the
    shortest where several do. Usual is what lies in a band around the median of later steps, on a
    logarithmic scale, so that slow starts and starts from a full queue are found alike, and a lone
    slow step in the middle is not taken for a start.
    """
    count = len(durations)
    if count <= 1:
        return count
    longest = min(count // 2, LONGEST_WARM_UP)
    scale = np.log(np.maximum(durations[: longest + REFERENCE_STEPS], 1).astype(np.float64))
    usual, deviation = robust_spread(scale[longest:])
    band = max(np.log(BAND), BAND_DEVIATIONS * deviation)
    unusual = np.where(np.abs(scale[:longest] - usual) > band, 1, -1)
    excess = np.concatenate(([0], np.cumsum(unusual)))
    return int(np.argmax(excess))


def robust_spread(values: npt.NDArray[Any]) -> tuple[float, float]:
    """The median, and by how much values deviate from it: 1.4826 times the median absolute
    deviation, which is the standard deviation where the noise is normal."""
    usual = median(values)
    return usual, 1.4826 * median(np.abs(values - usual))


def median(values: npt.NDArray[Any]) -> float:
    """The median of ``values``, of which there is at least one; what ``np.median`` returns.

    The first call of that imports ``numpy.ma``, which takes longer than to read and judge a run of
    some hundred steps.
    """
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float((ordered[~middle] + ordered[middle]) / 2)


def usual_distance(indices: Int64) -> int:
    """The usual distance of ``indices``, if all are about that far from each other; else 0."""
    if len(indices) < 3:
        return 0
    apart = np.diff(indices)
    usual = round(median(apart))
    return usual if np.abs(apart - usual).max() <= max(1, usual // 10) else 0


@dataclass(frozen=True)
class StepBreakdown:
    """The mean of ``count`` steps, split into exclusive parts; all times in ns.

    ``parts`` are in drawing order and sum to ``mean`` exactly: the phases of ``PHASES`` for a run,
    the parts of ``StepParts`` for a trace. The quantiles are durations of real steps (nearest
    rank); for a run so long that its journal is downsampled they are within 0.4 %.
    """

    count: int
    """0 for a trace without known steps: the breakdown is then that of the whole trace."""
    mean: int
    parts: tuple[tuple[str, int], ...]
    p5: int
    p50: int
    p95: int
    usual: int
    """Mean of the steps without the fastest and the slowest tenth of them: a few extreme steps do
    not move it, and waits that come every few steps are part of it, which a median leaves out."""
    inconsistent: int = 0
    """Steps left out because their recorded phases do not sum to their duration."""
    of_run: bool = True
    """Measured in the training thread of a run, else read from a trace."""

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, 0 where there is no such part."""
        return dict(self.parts).get(name, 0)

    def part_of(self, ns: int) -> str:
        """``21 ms of each 35 ms step (60 %)``, or of what a trace without steps has recorded."""
        describe = fmt.part_of_step if self.of_run or self.count else fmt.part_of_trace
        return describe(ns, self.mean)

    @property
    def steps_per_second(self) -> float:
        """Throughput."""
        return 1e9 / self.mean if self.mean else 0.0


def run_breakdown(
    steps: Table, mask: Mask, downsampled: Aggregates = NO_AGGREGATES, kind: str = "train"
) -> StepBreakdown | None:
    """The breakdown over the rows of ``steps`` that ``mask`` selects; None where none is usable.

    The undisturbed steps of ``kind`` in ``downsampled``, no longer kept as rows, are part of
    it: the mean and its parts stay exact, quantiles take a step for the mean of those within 0.4 %.
    """
    chosen = steps.where(mask)
    kept = downsampled.steady(kind, consistent=True)
    whole = consistent_rows(chosen) if len(chosen) else np.zeros(0, dtype=np.bool_)
    usable = chosen.where(whole)
    count = len(usable) + kept.rows
    if not count:
        return None
    totals = [whole_sum(usable, kept, phase) for phase in PHASES]
    durations = usable["duration"] if len(usable) else np.zeros(0, dtype=np.int64)
    left_out = len(chosen) - len(usable) + downsampled.steady(kind, consistent=False).rows
    spread = Weighed(durations, kept.histogram("duration"))
    found = _breakdown(count, PHASES, totals, spread)
    return replace(found, inconsistent=left_out, of_run=True)


def trace_breakdown(steps: Sequence[StepParts], *, marked: bool) -> StepBreakdown | None:
    """The breakdown over ``steps`` of a trace; None where they take no time.

    If its steps are not known (``marked`` is false), they are one entry, the whole trace.
    """
    sums: Counter[str] = Counter()
    for each in steps:
        sums.update(dict(each.parts))
    if not sums.total() // max(len(steps), 1):
        return None
    spread = Weighed(np.array([each.step.duration for each in steps], dtype=np.int64))
    found = _breakdown(len(steps), tuple(sums), list(sums.values()), spread)
    return found if marked else replace(found, count=0)


def _breakdown(
    count: int, names: Sequence[str], totals: Sequence[int], spread: Weighed
) -> StepBreakdown:
    # Off by less than one each, the parts together are the mean.
    parts = tuple(zip(names, whole_quotients(totals, count), strict=True))
    p5, p50, p95 = (spread.nearest_rank(percent) for percent in (5, 50, 95))
    mean, usual = sum(totals) // count, spread.trimmed_mean(10)
    return StepBreakdown(count, mean, parts, p5, p50, p95, usual, of_run=False)


def whole_sum(rows: Table, gone: Group, column: str) -> int:
    """The sum of a column over ``rows`` and over those of which only sums are left."""
    return (int(rows[column].sum()) if len(rows) else 0) + int(gone.of(column).total)


FEWEST_STEPS = 2
"""Fewest steady steps for a warning: one step alone may be anything. A trace that marks but one is
judged whole, at low confidence, and gives no more than a warning."""

MANY_STEPS = 20
"""Fewest steady steps for a critical finding and for high confidence. A trace that holds fewer is
judged whole, at lower confidence."""

LONG_RUN_NS = 3_000_000_000
"""A run of fewer steps is judged all the same, at low confidence, where they took so long: 30
samples of the stack."""

TRAIN, EVAL, INFER = "train", "eval", "infer"

WORK = {TRAIN: "training", EVAL: "evaluation", INFER: "inference"}
"""What a step of each kind is part of."""


def count_of(kind: str, facts: Facts) -> int:
    """How many steps of that kind the rank has recorded."""
    rows = int(np.count_nonzero(facts.steps["kind"] == kind)) if len(facts.steps) else 0
    return rows + facts.downsampled.of(kind).rows


@fact
def step_kind(facts: Facts) -> str:
    """The kind of step that is judged.

    Training where there is any of it, though most steps may be of evaluation; else whatever of
    evaluation and inference came more often. ``TRAIN`` before the first step.
    """
    counts = {kind: count_of(kind, facts) for kind in (EVAL, INFER)}
    if count_of(TRAIN, facts) or not any(counts.values()):
        return TRAIN
    return max(counts, key=lambda kind: counts[kind])


@fact
def activity(facts: Facts) -> str:
    """``training``, ``evaluation`` or ``inference``."""
    return WORK[step_kind(facts)]


@fact
def step_count(facts: Facts) -> int:
    """Steps of that kind recorded, warm-up and profiled ones included."""
    return count_of(step_kind(facts), facts)


@fact
def steady_mask(facts: Facts) -> Mask:
    """Which rows of the rank's steps are steady; all of a run that has ended with a few long ones,
    of which none would be."""
    found, steps = steady(facts.steps, step_kind(facts)), facts.steps
    if not len(steps) or int(found.sum()) >= FEWEST_STEPS or facts.downsampled:
        return found
    of_kind: Mask = steps["kind"] == step_kind(facts)
    is_long = int(steps["duration"][of_kind].sum()) >= LONG_RUN_NS
    return of_kind if is_long and run_is_over(facts) else found


def run_is_over(facts: Facts) -> bool:
    """Whether there is a run and nothing more will come of it."""
    return facts.manifest is not None and facts.manifest.status.is_over


@fact
def steady_span(facts: Facts) -> tuple[int, int] | None:
    """Start and end of the steady steps, ns since the epoch; None where there are none."""
    chosen = steady_rows(facts)
    if not len(chosen):
        return None
    return int(chosen["start"][0]), int((chosen["start"] + chosen["duration"]).max())


@fact
def step_breakdown(facts: Facts) -> StepBreakdown | None:
    """Mean steady step of the run by phase of the training thread; None without steady steps."""
    return run_breakdown(facts.steps, steady_mask(facts), facts.downsampled, step_kind(facts))


@fact
def steady_step(facts: Facts) -> StepBreakdown:
    """``step_breakdown`` where it is of enough steps to be judged. Unknown if it is not."""
    found = step_breakdown(facts)
    if found is not None and found.mean:
        is_long = found.count * found.mean >= LONG_RUN_NS
        if found.count >= FEWEST_STEPS or (is_long and found.count == step_count(facts)):
            return found
    if found is not None and found.count and not found.mean:
        raise UnknownError("the recorded steps take no time")
    recorded = step_count(facts)
    if found is None and recorded > FEWEST_STEPS:
        raise UnknownError(
            f"none of {recorded} steps of {activity(facts)} is steady and consistent"
        )
    raise UnknownError(f"{found.count if found else 0} of {FEWEST_STEPS} steady steps so far")


@fact
def wait_p95(facts: Facts) -> int | None:
    """95th percentile of the data loader wait, ns; None where it was not recorded."""
    return _quantile(facts, "input_wait", 95)


@fact
def batches_ready(facts: Facts) -> int | None:
    """Median number of batches that waited in the loader's queue; None where not recorded."""
    return _quantile(facts, "batches_ready", 50)


@fact
def micro_batches(facts: Facts) -> int | None:
    """Median number of micro-batches of a step; None where not recorded."""
    return _quantile(facts, "micro_batches", 50)


@fact
def steady_rows(facts: Facts) -> Table:
    """Rows of the rank's steady steps that are still kept."""
    return facts.steps.where(steady_mask(facts))


@fact
def steady_sums(facts: Facts) -> Group:
    """Aggregates of the steady steps that are no longer kept as rows."""
    return facts.downsampled.steady(step_kind(facts))


def _quantile(facts: Facts, column: str, percent: int) -> int | None:
    rows = steady_rows(facts)
    if column not in rows:
        return None
    values = rows[column]
    known = Weighed(values[values >= 0], steady_sums(facts).histogram(column))
    return known.nearest_rank(percent) if len(known) else None


@fact
def whole_training(facts: Facts) -> int | None:
    """Steps from the first to the last of a script that came to its end by itself, without a
    failure and without a limit; None for any other, and where a step was lost on its way from the
    training (they are numbered from 0 on)."""
    manifest, steps = facts.manifest, facts.steps
    if manifest is None or not len(steps):
        return None
    ended = manifest.status is Status.EXITED and manifest.exit_code == 0
    if not ended or manifest.profile.get("max_steps") is not None:
        return None
    count = len(steps) + facts.downsampled.of().rows
    return step_count(facts) if int(steps["index"][-1]) + 1 == count else None


@dataclass(frozen=True)
class OtherSteps:
    """How many there are, their time and the time of all steps, ns."""

    count: int
    time: int
    whole: int

    @property
    def share(self) -> float:
        """Share of these steps in the time of all, 0 to 1."""
        return self.time / self.whole if self.whole else 0.0


@fact
def other_steps(facts: Facts) -> OtherSteps | None:
    """Steps of other kinds than the judged ones; None before the first step."""
    steps, downsampled, kind = facts.steps, facts.downsampled, step_kind(facts)
    if not len(steps):
        return None
    judged = whole_sum(steps.where(steps["kind"] == kind), downsampled.of(kind), "duration")
    whole = whole_sum(steps, downsampled.of(), "duration")
    count = len(steps) + downsampled.of().rows - count_of(kind, facts)
    return OtherSteps(count, whole - judged, whole)


DEVICE_PHASES = ("forward", "backward", "optimizer")
DEVICE_COLUMNS = tuple(f"device_{phase}" for phase in DEVICE_PHASES)
"""Theirs in ``STEP_COLUMNS``."""


@dataclass(frozen=True)
class DeviceShare:
    """Means of ``count`` steps, in ns: the few that were timed.

    Each is from when the GPU came to the phase until it had done its work, idle time in between
    included. They do not sum to the step: the GPU may be some steps behind.
    """

    count: int
    parts: tuple[tuple[str, int], ...]


def timed_steps(steps: Table) -> Table | None:
    """The rows of ``steps`` (``STEP_COLUMNS``) that were timed; None where none was."""
    if not len(steps) or not all(column in steps for column in DEVICE_COLUMNS):
        return None
    timed = steps.where(steps[DEVICE_COLUMNS[0]] >= 0)
    return timed if len(timed) else None


@fact
def device_phases(facts: Facts) -> DeviceShare | None:
    """The share over the rank's steady steps; None where none was timed."""
    timed = timed_steps(steady_rows(facts))
    if timed is None:
        return None
    count = len(timed)
    means = [int(timed[column].sum()) // count for column in DEVICE_COLUMNS]
    return DeviceShare(count, tuple(zip(DEVICE_PHASES, means, strict=True)))
