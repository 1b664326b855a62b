"""``repeated-forward`` and ``repeated-backward``: a step goes through the same layers again."""

from __future__ import annotations

from collections.abc import Callable

from perftui import format as fmt
from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.model_passes import repeated_passes
from perftui.facts.cpu.operators import Operators, Work, cpu_operators, in_step
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


_LIMITS = Limits(0.05, 0.20, "Certainly avoidable, hence a low limit.")


def _repeated(facts: Facts) -> Lost | None:
    trained = cpu_operators(facts)
    work = repeated_passes(facts)
    if not work.calls:
        return _same_input(facts, trained)
    if _may_be_another_model(facts):
        return None
    line = _line_behind_backward(facts) or call_repeated(facts) or second_call(facts)
    return _lost(
        facts,
        trained,
        work,
        line,
        "forward again",
        lambda part: (
            "The model runs another forward pass without a backward pass in the same step, for "
            f"{part}{at(line)}."
        ),
    )


def _same_input(facts: Facts, trained: tuple[Operators, JudgedStep]) -> Lost | None:
    """A pass over what another has gone through, both with gradients: the source shows that
    the input is the same, the window that the weights are."""
    line = same_call(facts)
    if line is None:
        return None
    return _lost(
        facts,
        trained,
        used_again(facts),
        line,
        "the second time",
        lambda part: (
            "The same layers run twice on the same input in one step, forward and backward: the "
            f"second run takes {part}, at {line.short}."
        ),
    )


def _backward_again(facts: Facts) -> Lost | None:
    trained = cpu_operators(facts)
    again, line = repeated_backward(facts), line_of(facts, BACKWARD)
    return _lost(
        facts,
        trained,
        again.work,
        line,
        "backward again",
        lambda part: (
            f"{again.passes:.3g} backward passes of each step run through the same layers, for "
            f"{part} more than one would{at(line)}."
        ),
        (Figure("nodes that run again", again.work.calls, "count"),),
    )


def _lost(
    facts: Facts,
    trained: tuple[Operators, JudgedStep],
    work: Work,
    line: LineShare | None,
    label: str,
    say: Callable[[str], str],
    more: tuple[Figure, ...] = (),
) -> Lost | None:
    """``work`` of the training as lost; ``say`` makes a sentence with its part of the step."""
    if not work.calls:
        return None
    found, judged = trained
    time, mean = in_step(found, judged, work.by_phase), judged.of.mean
    return Lost(
        time.ns,
        judged.of,
        say(fmt.part_of_step(time.ns, mean)),
        (
            Figure.share(label, time.ns / mean, _LIMITS.warning),
            *more,
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
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


REPEATED = Rule(
    id="repeated-forward",
    when="the model runs an extra forward pass in a step, without backward or on the same input",
    explanation=(
        "A forward pass only for metrics of the batch that was just trained on costs a third of a "
        "step. Use the outputs that the loss was computed from, or compute metrics every N steps. "
        "If two parts of a loss run the same layers on the same input, run them once and pass the "
        "result to both."
    ),
    lost=_repeated,
    limits=_LIMITS,
    answer="use the outputs of the first pass",
)

BACKWARD_AGAIN = Rule(
    id="repeated-backward",
    when="several backward passes of a step run through the same layers",
    explanation=(
        "Each loss has its own backward pass on a retained graph, so backward runs through the "
        "shared layers once per loss. Gradients add up either way: sum the losses and call "
        "backward once, (first + second).backward(), without retain_graph."
    ),
    lost=_backward_again,
    limits=_LIMITS,
    fixes=("backward-once",),
    answer="sum the losses and call backward once",
)
