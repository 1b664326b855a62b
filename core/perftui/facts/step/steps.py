"""The steps that a judgement rests on: which they are, how long they take, what they wait for."""

from __future__ import annotations

import numpy as np

from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.step.steady import Mask, steady
from perftui.facts.step.step_breakdown import StepBreakdown, run_breakdown
from perftui.run.aggregates import Group, Weighed
from perftui.run.manifest import Status
from perftui.run.table import Table

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
    """``step_breakdown`` where it is of enough steps to be judged.

    Raises:
        UnknownError: it is not.
    """
    found = step_breakdown(facts)
    if found is not None and found.mean:
        is_long = found.count * found.mean >= LONG_RUN_NS
        if found.count >= FEWEST_STEPS or (is_long and found.count == step_count(facts)):
            return found
    if found is not None and found.count and not found.mean:
        raise UnknownError("the recorded steps take no time")
    recorded = step_count(facts)
    if found is None and recorded > FEWEST_STEPS:
        steps_of = f"{recorded} steps of {activity(facts)}"
        raise UnknownError(f"none of {steps_of} is steady and consistent")
    steps = found.count if found else 0
    raise UnknownError(f"{steps} of {FEWEST_STEPS} steady steps so far")


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
