"""Evaluation beside training: its steps, or forward passes inside training steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.source.lines import LinesByTime, lines_by_time, stack_samples
from perftui.facts.source.source_calls import matching_line
from perftui.facts.source.stack_profile import moments_of
from perftui.facts.step.steps import EVAL, TRAIN, count_of, step_kind, whole_sum
from perftui.facts.step.uneven_steps import EVALUATING, slow_steps
from perftui.run.aggregates import Group
from perftui.run.columns import FORWARD
from perftui.run.table import Table

FEWEST_INSIDE = 2
"""Fewest samples that began within evaluation steps, in lines that training does not call. One may
be off by the error of two clocks."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation during a training; times in ns."""

    per_step: int
    """Time per training step."""
    share: float
    """Share of evaluation in the time of training and evaluation together, 0 to 1."""
    count: int
    """Evaluation steps, or training steps that evaluate."""
    waiting: float
    """Share of evaluation that waits for data, 0 to 1."""
    within_steps: bool
    """Whether a few training steps evaluate, in a loop without a data loader."""
    lacks_no_grad: bool
    """Whether no readable line of the script has ``no_grad`` or ``inference_mode``."""
    lines: LinesByTime | None
    """Lines of the main thread meanwhile, without model lines that training also calls; None with
    too few samples."""


@fact
def evaluation(facts: Facts) -> Evaluation | None:
    """Evaluation between or within training steps; None if a training does not evaluate. Not
    applicable if nothing is trained."""
    if facts.run is None or step_kind(facts) != TRAIN or not len(facts.steps):
        raise NotApplicableError
    of_train = facts.steps.where(facts.steps["kind"] == TRAIN)
    summed, sums = facts.downsampled.of(TRAIN), facts.downsampled.of(EVAL)
    # Before the first training step a model prepares data, or is tried: that is the start.
    begun = min([*of_train["start"][:1].tolist(), *([summed.first] if summed.rows else [])])
    later = (facts.steps["kind"] == EVAL) & (facts.steps["start"] >= begun)
    of_eval = facts.steps.where(later)
    if sums.last <= begun:
        sums = Group()
    time = whole_sum(of_eval, sums, "duration")
    within = _within_steps(facts)
    steps = count_of(TRAIN, facts)
    if not time or (within is not None and within.per_step * steps > time):
        return within
    training = whole_sum(of_train, summed, "duration")
    return Evaluation(
        per_step=time // max(steps, 1),
        share=time / max(time + training, 1),
        count=len(of_eval) + sums.rows,
        waiting=whole_sum(of_eval, sums, "input_wait") / time,
        within_steps=False,
        lacks_no_grad=False,
        lines=_lines(facts, of_eval),
    )


def _within_steps(facts: Facts) -> Evaluation | None:
    slow = slow_steps.or_none(facts)
    if slow is None or slow.cause != EVALUATING:
        return None
    can_read = matching_line(facts, r"\bimport\b") is not None
    return Evaluation(
        slow.excess,
        slow.excess / max(slow.mean, 1),
        slow.count,
        waiting=0.0,
        within_steps=True,
        lacks_no_grad=can_read and matching_line(facts, r"no_grad|inference_mode") is None,
        lines=slow.lines,
    )


def _lines(facts: Facts, of_eval: Table) -> LinesByTime | None:
    outside, _ = stack_samples(facts)
    if not len(outside) or "stage" not in outside or not len(of_eval):
        return None
    during = union(of_eval["start"], of_eval["start"] + of_eval["duration"])
    # Only the first moment of a row is certain: one that began in training proves nothing here.
    time = during.within(outside["time"], outside["time"] + outside["held"])
    time = np.where(during.holds(outside["time"]), time, 0)
    # Training also calls the model's lines: only lines of evaluation alone count.
    everywhere = moments_of(outside, outside["held"])
    places = everywhere.places
    keys = list(zip(places["file"].tolist(), places["line"].tolist(), strict=True))
    whole = everywhere.by_place(everywhere.held)
    evaluating = time[outside["held"] > 0]
    within = everywhere.by_place(evaluating)
    is_shared = (everywhere.stages == FORWARD) & (whole > 2 * within)
    trained = {keys[row] for row in np.flatnonzero(is_shared).tolist()}
    own = np.array([key not in trained for key in keys], dtype=np.bool_)
    if np.count_nonzero(own[everywhere.at] & (evaluating > 0)) < FEWEST_INSIDE:
        return None
    return lines_by_time(everywhere.places, np.where(own, within, 0))
