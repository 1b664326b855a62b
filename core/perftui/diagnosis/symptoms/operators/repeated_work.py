"""``repeated-forward`` and ``repeated-backward``: a step goes through the same layers again."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.operators.kernel_work import step_figures
from perftui.facts.cpu.model_passes import (
    KEEPS_GRADIENT,
    NODE,
    WEIGHTED,
    WEIGHTED_NODE,
    repeated_passes,
)
from perftui.facts.cpu.operators import Operators, Work, cpu_operators, in_step, operators, work_of
from perftui.facts.cpu.repeated_backward import repeated_backward
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.settings import settings
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import at, line_of, lines_of, place_of, second_call
from perftui.facts.source.source_calls import call_repeated, same_call
from perftui.facts.step.judged_step import JudgedStep
from perftui.facts.step.steady import Mask
from perftui.trace.model import NONE, Int64

MOST_OPERATORS = 3000
"""Outermost operators of a step's forward pass that are compared, each with each: 50 ms."""

FEWEST_LAYERS = 2
"""Operators with weights in a repeated part: gradients are kept between their nodes, or are not."""

_RANDOM = re.compile(
    r"aten::\w*(native_dropout|bernoulli|rand|normal_$|uniform_$|rrelu|multinomial)"
)
"""What makes two passes of one input differ: dropout that drops nothing calls none of it."""


@trace_fact
def used_again(analysis: TraceAnalysis) -> Work:
    """The second of two equal sequences of operators before backward, with its own backward pass,
    where both use the same weights: the gradient of a weight that is used twice is kept once, when
    the pass has come back to its first use, so that none is kept on the way through the second.
    Nothing if the sequence draws random numbers, since two dropout masks are not a repetition."""
    found = operators(analysis)
    mine = np.zeros(len(found.rows), dtype=bool)
    random = found.named(_RANDOM.match)
    weighted = found.named(WEIGHTED.match)
    nodes, sums = found.named(WEIGHTED_NODE.match), found.named((NODE + KEEPS_GRADIENT).__eq__)
    start = found.trace.start[found.rows]
    back, update = found.in_phase(BACKWARD), found.in_phase(OPTIMIZER)
    for one in found.steps.each:
        inside = (start >= one.step.start) & (start < one.step.end)
        gone = _by_start(inside & back & nodes, start)
        if not len(gone):
            continue
        forward = inside & ~back & ~update & (start < start[gone[0]])
        layers = _by_start(forward & weighted, start)
        top = _by_start(forward & (found.caller == NONE), start)
        if len(layers) > len(gone):
            # What ran before has no backward pass, as where accuracy is measured without gradients.
            layers = layers[-len(gone) :]
            top = top[np.searchsorted(start[top], start[layers[0]], side="right") - 1 :]
        if len(gone) != len(layers) or len(top) > MOST_OPERATORS:
            continue
        ends = found.trace.ends_of(found.rows)
        twice = _twice(found.name[top])
        if twice is None:
            continue
        first, second, length = twice
        spans = [(int(start[top[at]]), int(ends[top[at + length - 1]])) for at in (first, second)]
        # Backward comes to the nodes in the opposite order.
        used = [_nodes(layers, gone, start, span) for span in spans]
        if len(used[1]) < FEWEST_LAYERS or len(used[0]) != len(used[1]):
            continue
        kept = [
            np.count_nonzero(sums & (start >= start[each[0]]) & (start < ends[each[-1]]))
            for each in used
        ]
        chosen = forward & (start >= spans[1][0]) & (start < spans[1][1])
        if (random & chosen).any() or kept[1] or kept[0] < len(used[0]) - 1:
            continue
        returned = inside & back & (start >= start[used[1][0]]) & (start < ends[used[1][-1]])
        mine |= chosen | returned
    return work_of(found, mine, weighted)


def _by_start(chosen: Mask, start: Int64) -> Int64:
    at = np.flatnonzero(chosen)
    return at[np.argsort(start[at], kind="stable")]


def _nodes(layers: Int64, gone: Int64, start: Int64, span: tuple[int, int]) -> Int64:
    """Nodes of the layers that begin in ``span``, in the order in which backward runs them."""
    first, last = np.searchsorted(start[layers], span)
    return gone[len(gone) - int(last) : len(gone) - int(first)]


def _twice(names: npt.NDArray[np.int32]) -> tuple[int, int, int] | None:
    """The longest sequence that occurs twice without overlap: where it begins first, where
    again, and how long it is."""
    best: tuple[int, int, int] | None = None
    for lag in range(1, len(names)):
        if best is not None and min(lag, len(names) - lag) <= best[2]:
            continue
        unlike = np.flatnonzero(names[:-lag] != names[lag:])
        edges = np.concatenate([[-1], unlike, [len(names) - lag]])
        runs = np.diff(edges) - 1
        at = int(np.argmax(runs))
        length = min(int(runs[at]), lag)
        if length and (best is None or length > best[2]):
            begin = int(edges[at]) + 1
            best = (begin, begin + lag, length)
    return best


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
            *step_figures(judged.of),
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
