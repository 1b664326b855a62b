"""The steps that a judgement rests on: which, how long they take, and where their time goes.

Warm-up and what profiling disturbed are left out. Means are integer nanoseconds, and their parts
sum to them exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.format import whole_quotients
from perftui.run.columns import PHASES, phase_name
from perftui.run.manifest import Status
from perftui.run.table import Group, Table, Weighed, after_disturbance, consistent_rows

if TYPE_CHECKING:
    from perftui.analysis.model import StepParts
    from perftui.trace.model import Int64, Mask

LONGEST_WARM_UP = 100
"""Steps within which a change may be warm-up; a later one is a change of the training."""

REFERENCE_STEPS = 1000
"""Steps after the longest warm-up that show what is usual."""

BAND = 1.25
"""A step within this factor of the usual time is usual, however quiet the others are. Kernel
autotuning, compilation, allocator growth and worker start each cost a multiple of a step."""

BAND_DEVIATIONS = 4.0
"""Robust deviations to which noisy steps widen the band."""


def steady(steps: Table, kind: str = "train") -> Mask:
    """Mask of the rows of ``steps`` (``STEP_COLUMNS``) that are of ``kind`` and after the warm-up.

    Profiled steps and the step after each (it pays for saving the window) are left out. A single
    step is never steady: nothing distinguishes it from warm-up."""
    if not len(steps):
        return np.zeros(0, dtype=np.bool_)
    rows = np.flatnonzero((steps["kind"] == kind) & ~after_disturbance(steps["profiled"]))
    mask = np.zeros(len(steps), dtype=np.bool_)
    mask[rows[warm_up_length(steps["duration"][rows]) :]] = True
    return mask


def warm_up_length(durations: npt.NDArray[np.int64]) -> int:
    """Number of leading ``durations`` (ns) that are warm-up.

    It is the maximum-likelihood change point between mostly unusual and mostly usual steps: the
    shortest prefix in which unusual steps exceed usual ones by the most. Usual is what lies in a
    band around the median of later steps, on a logarithmic scale, so that slow starts and starts
    from a full queue are found alike, and a lone slow step in the middle is not taken for a start.
    """
    count = len(durations)
    if count <= 1:
        return count
    longest = min(count // 2, LONGEST_WARM_UP)
    scale = np.log(np.maximum(durations[: longest + REFERENCE_STEPS], 1).astype(np.float64))
    usual, deviation = robust_spread(scale[longest:])
    band = max(np.log(BAND), BAND_DEVIATIONS * deviation)
    unusual = np.where(np.abs(scale[:longest] - usual) > band, 1, -1)
    return int(np.argmax(np.concatenate(([0], np.cumsum(unusual)))))


def robust_spread(values: npt.NDArray[Any]) -> tuple[float, float]:
    """The median and the robust deviation: 1.4826 times the median absolute deviation, which equals
    the standard deviation of normal noise."""
    usual = median(values)
    return usual, 1.4826 * median(np.abs(values - usual))


def median(values: npt.NDArray[Any]) -> float:
    """The median of ``values`` (at least one), as ``np.median`` returns it.

    The first call of ``np.median`` imports ``numpy.ma``, which takes longer than reading and
    judging a run of some hundred steps."""
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float((ordered[~middle] + ordered[middle]) / 2)


def usual_distance(indices: Int64) -> int:
    """The usual distance of consecutive ``indices`` if all are about that far apart; else 0."""
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
    rank); for a run so long that its journal is downsampled they are within 0.4 %."""

    count: int
    """0 for a trace whose steps are unknown: the breakdown is of the whole trace."""
    mean: int
    parts: tuple[tuple[str, int], ...]
    p5: int
    p50: int
    p95: int
    usual: int
    """Mean without the fastest and the slowest tenth of the steps: a few extreme steps do not move
    it, and waits every few steps are included, which a median leaves out."""
    inconsistent: int = 0
    """Number of steps left out because their phases do not sum to their duration."""
    drift: float = 0.0
    """The share by which one part of the run differs from another, 95 % of the time; see
    ``drift_of``. 0 where it is not known, as of a trace."""
    of_run: bool = True
    """Whether it was measured in the training thread of a run, else read from a trace."""
    profiler: str = "perftui"
    """Whose work the part ``profiler`` is."""

    def shown(self, part: str) -> str:
        """The name of ``part`` for people."""
        return self.profiler if part == "profiler" else phase_name(part)

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, ns; 0 if absent."""
        return dict(self.parts).get(name, 0)

    def part_of(self, ns: int) -> str:
        """``21 ms of each 35 ms step (60 %)``, or the share of a trace without known steps."""
        describe = fmt.part_of_step if self.of_run or self.count else fmt.part_of_trace
        return describe(ns, self.mean)

    @property
    def steps_per_second(self) -> float:
        """Steps per second."""
        return 1e9 / self.mean if self.mean else 0.0


def run_breakdown(steps: Table, mask: Mask, kind: str = "train") -> StepBreakdown | None:
    """The breakdown over the rows of ``steps`` that ``mask`` selects; None if none is usable.

    It includes the undisturbed steps of ``kind`` that are only kept as sums: mean and parts stay
    exact, quantiles take a step for the mean of those within 0.4 %."""
    chosen = steps.where(mask)
    sums = steps.sums.of(kind, disturbed=False, consistent=True)
    whole = consistent_rows(chosen) if len(chosen) else np.zeros(0, dtype=np.bool_)
    usable = chosen.where(whole)
    count = len(usable) + sums.rows
    if not count:
        return None
    totals = [whole_sum(usable, sums, phase) for phase in PHASES]
    durations = usable["duration"] if len(usable) else np.zeros(0, dtype=np.int64)
    left_out = len(chosen) - len(usable)
    left_out += steps.sums.of(kind, disturbed=False, consistent=False).rows
    result = _breakdown(count, PHASES, totals, Weighed(durations, sums.histograms.get("duration")))
    return replace(result, inconsistent=left_out, of_run=True, drift=drift_of(durations))


def drift_of(durations: Int64, parts: int = 10) -> float:
    """By what share the typical steps of two tenths of a run differ in 95 % of cases; 0 where a
    tenth has fewer than 8 steps.

    What slows a host for seconds shows so: 363 steps of one program, ten times on a shared host,
    had a drift of 6 to 30 % in a run, and the runs differed by 28 %; on an idle one by 5 %."""
    if len(durations) < 8 * parts:
        return 0.0
    typical = [np.median(tenth) for tenth in np.array_split(durations, parts)]
    return float(np.expm1(2 * np.sqrt(2) * np.log(np.maximum(typical, 1)).std(ddof=1)))


def trace_breakdown(steps: Sequence[StepParts], *, marked: bool) -> StepBreakdown | None:
    """The breakdown over ``steps`` of a trace; None if they take no time.

    If steps are unknown (``marked`` is false), the whole trace is the only entry."""
    sums: Counter[str] = Counter()
    for step in steps:
        sums.update(dict(step.parts))
    if not sums.total() // max(len(steps), 1):
        return None
    spread = Weighed(np.array([step.step.duration for step in steps], dtype=np.int64))
    result = _breakdown(len(steps), tuple(sums), list(sums.values()), spread)
    return result if marked else replace(result, count=0)


def _breakdown(
    count: int, names: Sequence[str], totals: Sequence[int], spread: Weighed
) -> StepBreakdown:
    # Each part is off by less than one ns; together they are the mean.
    parts = tuple(zip(names, whole_quotients(totals, count), strict=True))
    p5, p50, p95 = (spread.nearest_rank(percent) for percent in (5, 50, 95))
    mean, usual = sum(totals) // count, spread.trimmed_mean(10)
    return StepBreakdown(count, mean, parts, p5, p50, p95, usual, of_run=False)


def whole_sum(rows: Table, sums: Group, column: str) -> int:
    """The sum of a column over ``rows`` and over downsampled steps."""
    return (int(rows[column].sum()) if len(rows) else 0) + int(sums.of(column).total)


FEWEST_STEPS = 2
"""Fewest steady steps for a warning: a single step may be anything. A trace with a single marked
step is judged as a whole, at low confidence, and gives no more than a warning."""

MANY_STEPS = 20
"""Fewest steady steps for a critical finding and for high confidence. A trace with fewer is judged
as a whole, at lower confidence."""

LONG_RUN_NS = 3_000_000_000
"""Time from which a run with fewer steps is judged all the same, at low confidence: 30 stack
samples."""

TRAIN, EVAL, INFER = "train", "eval", "infer"

WORK = {TRAIN: "training", EVAL: "evaluation", INFER: "inference"}
"""The activity that a kind of step belongs to."""


def count_of(kind: str, facts: Facts) -> int:
    """Number of steps of that kind recorded by the rank."""
    rows = int(np.count_nonzero(facts.steps["kind"] == kind)) if len(facts.steps) else 0
    return rows + facts.steps.sums.of(kind).rows


@fact
def step_kind(facts: Facts) -> str:
    """The kind of step that is judged.

    Training if there is any, even if most steps are evaluation; else the more frequent of
    evaluation and inference. ``TRAIN`` before the first step."""
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
    """Number of steps of the judged kind, including warm-up and profiled ones."""
    return count_of(step_kind(facts), facts)


@fact
def steady_mask(facts: Facts) -> Mask:
    """Which rows of the rank's steps are steady; all rows of an ended run of a few long steps, none
    of which would be steady."""
    mask, steps = steady(facts.steps, step_kind(facts)), facts.steps
    if not len(steps) or int(mask.sum()) >= FEWEST_STEPS or steps.sums:
        return mask
    of_kind: Mask = steps["kind"] == step_kind(facts)
    is_long = int(steps["duration"][of_kind].sum()) >= LONG_RUN_NS
    return of_kind if is_long and run_is_over(facts) else mask


def run_is_over(facts: Facts) -> bool:
    """Whether there is a run and it has ended."""
    return facts.manifest is not None and facts.manifest.status.is_over


@fact
def steady_span(facts: Facts) -> tuple[int, int] | None:
    """Start and end of the steady steps, ns since the epoch; None if there are none."""
    chosen = steady_rows(facts)
    if not len(chosen):
        return None
    return int(chosen["start"][0]), int((chosen["start"] + chosen["duration"]).max())


@fact
def step_breakdown(facts: Facts) -> StepBreakdown | None:
    """Mean steady step of the run by phase of the training thread; None without steady steps."""
    return run_breakdown(facts.steps, steady_mask(facts), step_kind(facts))


@fact
def steady_step(facts: Facts) -> StepBreakdown:
    """``step_breakdown`` if it has enough steps to be judged. Unknown if not, and not applicable to
    a trace alone."""
    if facts.run is None:
        raise NotApplicableError
    step = step_breakdown(facts)
    if step is not None and step.mean:
        is_long = step.count * step.mean >= LONG_RUN_NS
        if step.count >= FEWEST_STEPS or (is_long and step.count == step_count(facts)):
            return step
    if step is not None and step.count and not step.mean:
        raise UnknownError("the recorded steps take no time")
    recorded = step_count(facts)
    if step is None and recorded > FEWEST_STEPS:
        raise UnknownError(
            f"none of {recorded} steps of {activity(facts)} is steady and consistent"
        )
    raise UnknownError(f"{step.count if step else 0} of {FEWEST_STEPS} steady steps so far")


@fact
def wait_p95(facts: Facts) -> int | None:
    """95th percentile of the data loader wait, ns; None if not recorded."""
    return _quantile(facts, "input_wait", 95)


@fact
def batches_ready(facts: Facts) -> int | None:
    """Median number of batches ready in the loader's queue; None if not recorded."""
    return _quantile(facts, "batches_ready", 50)


@fact
def micro_batches(facts: Facts) -> int | None:
    """Median number of micro-batches of a step; None if not recorded."""
    return _quantile(facts, "micro_batches", 50)


@fact
def steady_rows(facts: Facts) -> Table:
    """The rank's steady steps that are still kept as rows."""
    return facts.steps.where(steady_mask(facts))


@fact
def steady_sums(facts: Facts) -> Group:
    """Sums of steady steps no longer kept as rows, all of which came after the warm-up."""
    return facts.steps.sums.of(step_kind(facts), disturbed=False)


def _quantile(facts: Facts, column: str, percent: int) -> int | None:
    rows = steady_rows(facts)
    if column not in rows:
        return None
    values = rows[column]
    valid = Weighed(values[values >= 0], steady_sums(facts).histograms.get(column))
    return valid.nearest_rank(percent) if len(valid) else None


@fact
def whole_training(facts: Facts) -> int | None:
    """Number of steps of a script that ended by itself, without a failure or a limit; None for any
    other, and if a step got lost (they are numbered from 0)."""
    manifest, steps = facts.manifest, facts.steps
    if manifest is None or not len(steps):
        return None
    ended = manifest.status is Status.EXITED and manifest.exit_code == 0
    if not ended or manifest.profile.get("max_steps") is not None:
        return None
    count = len(steps) + steps.sums.of().rows
    return step_count(facts) if int(steps["index"][-1]) + 1 == count else None


class OtherSteps(NamedTuple):
    """Steps of other kinds than the judged ones."""

    steps: int
    ns: int
    share: float
    """Share of the time of all steps, 0 to 1."""


@fact
def other_steps(facts: Facts) -> OtherSteps | None:
    """None before the first step."""
    steps, kind = facts.steps, step_kind(facts)
    if not len(steps):
        return None
    judged = whole_sum(steps.where(steps["kind"] == kind), steps.sums.of(kind), "duration")
    whole = whole_sum(steps, steps.sums.of(), "duration")
    count = len(steps) + steps.sums.of().rows - count_of(kind, facts)
    return OtherSteps(count, whole - judged, (whole - judged) / whole if whole else 0.0)


DEVICE_PHASES = ("forward", "backward", "optimizer")
DEVICE_COLUMNS = tuple(f"device_{phase}" for phase in DEVICE_PHASES)
"""Columns of ``DEVICE_PHASES`` in ``STEP_COLUMNS``."""


@dataclass(frozen=True)
class DeviceShare:
    """Mean phase times on the device, ns, of ``count`` timed steps.

    Each is from when the GPU reached the phase until it finished its work, including idle time in
    between. They do not sum to the step: the GPU may be some steps behind."""

    count: int
    parts: tuple[tuple[str, int], ...]


def timed_steps(steps: Table) -> Table | None:
    """The rows of ``steps`` (``STEP_COLUMNS``) with device times; None if none has."""
    if not len(steps) or not all(column in steps for column in DEVICE_COLUMNS):
        return None
    timed = steps.where(steps[DEVICE_COLUMNS[0]] >= 0)
    return timed if len(timed) else None


@fact
def device_phases(facts: Facts) -> DeviceShare | None:
    """Mean device phases of the rank's steady steps; None if none was timed."""
    timed = timed_steps(steady_rows(facts))
    if timed is None:
        return None
    count = len(timed)
    means = [int(timed[column].sum()) // count for column in DEVICE_COLUMNS]
    return DeviceShare(count, tuple(zip(DEVICE_PHASES, means, strict=True)))
