"""``repeated-forward`` and ``repeated-backward``: a step goes through the same layers again."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.cpu.model_passes import repeated_passes
from perftui.facts.cpu.operators import cpu_operators, in_step
from perftui.facts.cpu.repeated_backward import repeated_backward
from perftui.facts.cpu.shared_weights import used_again
from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.facts.source.lines import LineShare
from perftui.facts.source.model_line import second_call
from perftui.facts.source.operator_lines import at, line_of, lines_of, place_of
from perftui.facts.source.same_input import same_call
from perftui.facts.source.source_calls import call_repeated
from perftui.facts.step.judged_step import JudgedStep

TEACHER = 1.5
"""Tensors of all modules to those in optimizers, from which on another model may run as well."""


def _repeated(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = repeated_passes(facts)
    if not work.calls:
        return _same_input(facts)
    if _may_be_another_model(facts):
        return None
    time = in_step(found, judged, work.by_phase)
    line = _line_behind_backward(facts) or call_repeated(facts) or second_call(facts)
    return Lost(
        time.ns,
        judged.of,
        f"The model runs forward again without a backward pass in the same step, for "
        f"{fmt.part_of_step(time.ns, judged.of.mean)}{at(line)}.",
        (
            Figure.share("forward again", time.ns / judged.of.mean, REPEATED.limits.warning),
            *_of_step(judged),
        ),
        place=place_of(facts, line),
        parts=time.parts,
    )


def _same_input(facts: Facts) -> Lost | None:
    """A pass over what another has gone through, both with gradients: the text tells that the input
    is the same, the window that the weights are."""
    line = same_call(facts)
    if line is None:
        return None
    found, judged = cpu_operators(facts)
    work = used_again(facts)
    if not work.calls:
        return None
    time = in_step(found, judged, work.by_phase)
    return Lost(
        time.ns,
        judged.of,
        f"The same layers run twice with the same input in one step, forward and backward: the "
        f"second time takes {fmt.part_of_step(time.ns, judged.of.mean)}, at {line.short}.",
        (
            Figure.share("the second time", time.ns / judged.of.mean, REPEATED.limits.warning),
            *_of_step(judged),
        ),
        place=place_of(facts, line),
        parts=time.parts,
    )


def _backward_again(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    again = repeated_backward(facts)
    if not again.work.calls:
        return None
    time = in_step(found, judged, again.work.by_phase)
    line = line_of(facts, BACKWARD)
    return Lost(
        time.ns,
        judged.of,
        f"{again.passes:.3g} backward passes of each step go through the same layers, for "
        f"{fmt.part_of_step(time.ns, judged.of.mean)} more than one would{at(line)}.",
        (
            Figure.share("backward again", time.ns / judged.of.mean, BACKWARD_AGAIN.limits.warning),
            Figure("nodes that run again", again.work.calls, "count"),
            *_of_step(judged),
        ),
        place=place_of(facts, line),
        parts=time.parts,
    )


def _line_behind_backward(facts: Facts) -> LineShare | None:
    """A line that runs the model, below the one that runs backward in the same function."""
    back, lines = line_of(facts, BACKWARD), lines_of(facts, FORWARD)
    if back is None or lines is None:
        return None
    same = (
        line for line in lines.lines if (line.file, line.function) == (back.file, back.function)
    )
    return next((line for line in same if line.line > back.line), None)


def _may_be_another_model(facts: Facts) -> bool:
    known = settings(facts) if facts.run else None
    if known is None or known.parameters is None or known.optimizers is None:
        return True
    held = sum(one.parameters or 0 for one in known.optimizers)
    return sum(one.tensors for one in known.parameters) >= TEACHER * max(held, 1)


def _of_step(judged: JudgedStep) -> tuple[Figure, ...]:
    return (
        Figure("mean step", judged.of.mean, "ns"),
        Figure("steady steps", judged.of.count, "count"),
    )


REPEATED = Rule(
    id="repeated-forward",
    when="the model runs forward again in a step, without backward or with the same input",
    explanation=(
        "A forward pass whose outputs are only looked at, for metrics of the batch that was just "
        "trained on, costs a third of a step. Use the outputs that the loss was computed of, or "
        "measure every so many steps. Where two parts of a loss run the same layers on the same "
        "input, run them once and hand the result to both."
    ),
    lost=_repeated,
    limits=Limits(0.05, 0.20, "From 5 % on, as for what is certain to be avoidable."),
    answer="use the outputs of the first pass",
)

BACKWARD_AGAIN = Rule(
    id="repeated-backward",
    when="several backward passes of a step go through the same layers",
    explanation=(
        "Each loss is taken backward by itself, on a graph that is kept, so that the layers that "
        "they share are gone through once for each. Gradients add up either way: sum the losses "
        "and call backward once, (first + second).backward(), without retain_graph."
    ),
    lost=_backward_again,
    limits=Limits(0.05, 0.20, "From 5 % on, as for what is certain to be avoidable."),
    answer="sum the losses and call backward once",
)
