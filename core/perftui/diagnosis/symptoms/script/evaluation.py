"""``evaluation``: work other than training takes much of the run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perftui import format as fmt
from perftui.analysis.intervals import union
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.facts.cpu.operators import PHASES, WEIGHTED, WEIGHTED_NODE, Work, in_step, operators
from perftui.facts.fact import Facts, NotApplicableError, fact, notes_of, trace_fact
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, LineShare, lines_by_time, stack_samples
from perftui.facts.source.operator_lines import at, line_place
from perftui.facts.source.source_calls import (
    line_of_scoring,
    line_without_gradients,
    matching_line,
    own_program,
    uses_of,
)
from perftui.facts.source.stack_profile import moments_of
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import (
    EVAL,
    TRAIN,
    StepBreakdown,
    count_of,
    steady_step,
    step_kind,
    whole_sum,
)
from perftui.facts.step.uneven_steps import EVALUATING, slow_steps
from perftui.run.table import Group, Table
from perftui.script.evaluation import makes_training_data
from perftui.script.unchanged import repeated_at

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
    summed, sums = facts.steps.sums.of(TRAIN), facts.steps.sums.of(EVAL)
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


MANY = 8
"""Forward passes per backward pass from which a step plays or generates: learning from another
network, such as double Q-learning, takes four."""

_AVERAGED = r"\bupdate_bn\("

FEW = 1.5
"""The same if the script switches the model to evaluation for them and back again."""


@trace_fact
def passes_alone(analysis: TraceAnalysis) -> tuple[Work, float] | None:
    """Forward passes without a backward pass, and their number in a mean step, if there are some
    for each one with a backward pass; else None. The last before each backward pass counts as
    trained."""
    ops = operators(analysis)
    weighted = np.count_nonzero(ops.named(WEIGHTED.match) & ops.in_phase(FORWARD))
    nodes = np.count_nonzero(ops.named(WEIGHTED_NODE.match))
    passes, backward = ops.marks(FORWARD), ops.marks(BACKWARD)
    if not nodes or weighted < FEW * nodes or len(passes) < FEW * len(backward):
        return None
    trace = ops.trace
    before = np.searchsorted(trace.start[passes], trace.start[backward]) - 1
    alone = np.delete(passes, np.unique(before[before >= 0]))
    taken = np.zeros(len(PHASES), dtype=np.int64)
    taken[PHASES.index(FORWARD)] = int((trace.ends_of(alone) - trace.start[alone]).sum())
    return Work(taken, 0), len(alone) / ops.steps.steps


MOSTLY_WAITS = 0.5
"""Share of evaluation that waits for data from which its loader is the cause."""


@rule(
    when="evaluation takes much of the run",
    limits=Limits("From half on, it takes longer than training.", 0.20, 0.50, of="of the run"),
    fixes=("no-grad", "evaluate-less-often"),
    answer=(
        "evaluate less often or on part of the data, with larger batches, workers and "
        "torch.no_grad()"
    ),
)
def evaluation_rule(facts: Facts) -> Lost | None:
    """Evaluation keeps nothing for a backward pass, so its batches can be larger."""
    between = evaluation(facts)
    losses = [_in_each_step(facts), _now_and_then(facts, between) if between else None]
    lost = max((lost for lost in losses if lost), key=lambda lost: lost.cost_ns, default=None)
    if lost is None or not _is_trained_on(facts, lost.place):
        again = lost and (_repeated(facts, lost.place) or _one_by_one(facts))
        return replace(lost, advice=again) if lost and again else lost
    sentence = f"{lost.sentence.removesuffix('.')}; the training uses its results."
    lost = replace(lost, sentence=sentence, fixes=())
    advice = _TOGETHER if _is_each(facts, lost.place) else ""
    if _is_own(facts, lost.place):
        return replace(lost, worst=Severity.WARNING, advice=advice)
    return replace(lost, worst=Severity.INFO, advice=advice or _MORE)


_MORE = "put more environments or sequences into each call of the model"
_TOGETHER = "the model is called for one of them after another: call it once for all, as one batch"


def _is_each(facts: Facts, place: Place | None) -> bool:
    """Whether the line at ``place`` is for one environment or sequence, and none needs another."""
    uses = uses_of(facts, place.file, place.line) if place else ()
    return any(use.turns and re.match(r"(samples|items) free", use.turns.kind) for use in uses)


def _is_own(facts: Facts, place: Place | None) -> bool:
    """Whether most samples at ``place`` are in the script's own code, and not in the model."""
    outside, _ = stack_samples(facts)
    if place is None or "stage" not in outside:
        return False
    here = (outside["file"] == place.file) & (outside["line"] == place.line)
    own = here & (outside["stage"] == "")
    return bool(2 * outside["held"][own].sum() > outside["held"][here].sum())


def _is_trained_on(facts: Facts, place: Place | None) -> bool:
    """Whether the loop at ``place`` acts, or generates what is trained on, by the script's text."""
    program = own_program(facts, place.file if place else None)
    return program is not None and makes_training_data(program, (place and place.line) or 0)


def _repeated(facts: Facts, place: Place | None) -> str:
    """What to do about work at ``place`` that is the same in each turn of a loop; empty without."""
    program = own_program(facts, place.file if place else None)
    found = repeated_at(program, place.line or 0) if program and place else None
    if found is None or not isinstance(found.outer, ast.For):
        return ""
    return (
        f"compute {ast.unparse(found.work)} once, before the loop at line {found.outer.lineno}, "
        "each of whose turns gives the same, and index what is kept"
    )


def _one_by_one(facts: Facts) -> str:
    """What to do about a loader of evaluation with batches of one sample; empty without."""
    loaders = notes_of(facts.events, "loader")
    evaluates = {data.get("id") for data in loaders if data.get("role") == EVAL}
    single = (data for data in loaders if data.get("id") in evaluates)
    line = next((data for data in single if data.get("batch_size") == 1 and data.get("file")), None)
    at = line and f"{Path(line['file']).name}:{line.get('line')}"
    return f"the DataLoader at {at} has batch_size=1: pass a larger one, such as 256" if at else ""


def _now_and_then(facts: Facts, stats: Evaluation) -> Lost:
    step = steady_step(facts)
    line, whole = _line(facts, stats), step
    if not stats.within_steps:
        parts = (*step.parts, ("evaluation", stats.per_step))
        whole = replace(step, mean=step.mean + stats.per_step, parts=parts)
    return Lost(
        stats.per_step,
        whole,
        _sentence(stats, whole, f" ({line.short})" if line else ""),
        (
            Figure("evaluation for each training step", stats.per_step, "ns"),
            Figure("steps of evaluation", stats.count, "count"),
            Figure.share("of it waiting for data", stats.waiting),
            Figure("mean training step", step.mean, "ns"),
        ),
        label="evaluation",
        place=facts.at(line) if line else None,
        parts=("forward", "python in forward", "other") if stats.within_steps else ("evaluation",),
        share=stats.share,
    )


def _in_each_step(facts: Facts) -> Lost | None:
    """For steps that all generate, evaluate or act: no step is slower than others."""
    alone, judged = passes_alone.or_none(facts), judged_step.or_none(facts)
    if alone is None or judged is None or judged.on_device:
        return None
    work, per_step = alone
    time = in_step(operators(facts), judged, work)
    is_many = per_step >= MANY - 1
    line = line_without_gradients(facts) if is_many else line_of_scoring(facts)
    line = (is_many and matching_line(facts, _AVERAGED)) or line
    if not is_many and line is None:
        return None
    return Lost(
        time.ns,
        judged.of,
        f"Each step calls the model {fmt.several(round(per_step), 'time')} more than it trains it: "
        f"those forward passes take {judged.of.part_of(time.ns)}{at(line)}.",
        (
            Figure("forward passes without backward in a step", round(per_step), "count"),
            Figure("mean training step", judged.of.mean, "ns"),
        ),
        label="evaluation",
        place=line_place(facts, line),
        parts=time.parts,
    )


def _line(facts: Facts, stats: Evaluation) -> LineShare | None:
    """The line with most samples; within steps, as training runs the same lines, that which renews
    the statistics of an averaged model, the loop without gradients that calls the model, or the
    only line that switches them off; else the only one that switches to evaluation, or them off."""
    off = matching_line(facts, r"\b(no_grad|inference_mode)\b", only=True)
    if stats.within_steps:
        line = matching_line(facts, _AVERAGED) or line_without_gradients(facts) or off
        if line is not None:
            return line
    if stats.lines is not None and stats.lines.first_own is not None:
        return stats.lines.first_own
    return matching_line(facts, r"\.eval\(\)", only=True) or off


def _sentence(stats: Evaluation, step: StepBreakdown, where: str) -> str:
    if stats.within_steps:
        missing = ", with gradients recorded: torch.no_grad() is missing"
        missing = missing if stats.lacks_no_grad else ""
        return (
            f"Evaluation takes {step.part_of(stats.per_step)}: "
            f"{fmt.several(stats.count, 'step')} take longer in forward passes alone"
            f"{missing}{where}."
        )
    waits = f", {fmt.percent(stats.waiting)} of it waiting for data"
    return (
        f"Evaluation takes {fmt.percent(stats.share)} of the run: "
        f"{fmt.several(stats.count, 'step')} without training{where}, "
        f"{fmt.duration(stats.per_step)} for each training step"
        f"{waits if stats.waiting >= MOSTLY_WAITS else ''}."
    )
