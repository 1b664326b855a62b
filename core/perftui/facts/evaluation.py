"""Evaluation beside training: its steps, or forward passes with gradients inside training steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.lines import LinesByTime, lines_by_time
from perftui.facts.main_thread import stack_samples
from perftui.facts.moments import moments_of
from perftui.facts.steps import EVAL, TRAIN, count_of, step_kind
from perftui.facts.uneven_steps import EVALUATING, slow_steps
from perftui.run.stack_samples import FORWARD
from perftui.run.table import Table

FEWEST_INSIDE = 2
"""Samples that began within steps of evaluation, in lines that training does not call: whatever
they found is evaluation. One may be off by the error of two clocks."""


@dataclass(frozen=True)
class Evaluation:
    """Times in ns."""

    per_step: int
    """For each training step."""
    share: float
    """Of the time of training and evaluation together, 0 to 1."""
    count: int
    """Steps of evaluation, or training steps that evaluate with gradients."""
    waiting: float
    """Share of it that waits for data, 0 to 1."""
    with_gradients: bool
    lines: LinesByTime | None
    """Where the main thread was meanwhile, without the lines of the model that training also
    calls; None where too few samples tell."""


@fact
def evaluation(facts: Facts) -> Evaluation | None:
    """None where a training evaluates nothing.

    Raises:
        NotApplicableError: nothing is trained.
    """
    if facts.run is None or step_kind(facts) != TRAIN or not len(facts.steps):
        raise NotApplicableError
    of_eval = facts.steps.where(facts.steps["kind"] == EVAL)
    gone = facts.downsampled.of(EVAL)
    time = int(of_eval["duration"].sum()) + int(gone.of("duration").total)
    if not time:
        return _with_gradients(facts)
    of_train = facts.steps["duration"][facts.steps["kind"] == TRAIN]
    training = int(of_train.sum()) + int(facts.downsampled.of(TRAIN).of("duration").total)
    waiting = int(of_eval["input_wait"].sum()) + int(gone.of("input_wait").total)
    return Evaluation(
        per_step=time // max(count_of(TRAIN, facts), 1),
        share=time / max(time + training, 1),
        count=count_of(EVAL, facts),
        waiting=waiting / time,
        with_gradients=False,
        lines=_lines(facts, of_eval),
    )


def _with_gradients(facts: Facts) -> Evaluation | None:
    slow = slow_steps.or_none(facts)
    if slow is None or slow.cause != EVALUATING:
        return None
    share = slow.excess / max(slow.mean, 1)
    return Evaluation(slow.excess, share, slow.count, 0.0, True, slow.lines)


def _lines(facts: Facts, of_eval: Table) -> LinesByTime | None:
    outside, _ = stack_samples(facts)
    if not len(outside) or "stage" not in outside or not len(of_eval):
        return None
    during = union(of_eval["start"], of_eval["start"] + of_eval["duration"])
    # Of a row only its first moment is certain: one that began in training says nothing here.
    held = during.within(outside["time"], outside["time"] + outside["held"])
    held = np.where(during.holds(outside["time"]), held, 0)
    # The model's own lines are called by training too: those that only evaluation has are its own.
    everywhere = moments_of(outside, outside["held"])
    places = everywhere.places
    keys = list(zip(places["file"].tolist(), places["line"].tolist(), strict=True))
    whole = everywhere.by_place(everywhere.held)
    evaluating = held[outside["held"] > 0]
    within = everywhere.by_place(evaluating)
    is_shared = (everywhere.stages == FORWARD) & (whole > 2 * within)
    trained = {keys[row] for row in np.flatnonzero(is_shared).tolist()}
    own = np.array([key not in trained for key in keys], dtype=np.bool_)
    if np.count_nonzero(own[everywhere.at] & (evaluating > 0)) < FEWEST_INSIDE:
        return None
    return lines_by_time(everywhere.places, np.where(own, within, 0))
