"""Python loops that call the same few small operators again and again, where one call would do."""

from __future__ import annotations

from collections.abc import Sequence

from perftui import format as fmt
from perftui.analysis.steps import BACKWARD, OPTIMIZER, OTHER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.operator_loops import Loop, loops, loops_over_rows, time_in
from perftui.facts.cpu.operators import cpu_operators
from perftui.facts.fact import Fact, Facts
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import at, line_of, place_of
from perftui.facts.source.source_calls import loop_of

MANY_TURNS = 50
"""Turns from which on a loop in the script goes over the parameters: as many tensors as make an
optimizer slow."""

NAMED = 3
"""Operators of a turn that the sentence names."""

_INDEXING_TEXT = r"\w\[[^\]]+\]|\bfor\b.*\bin\b|\.(select|narrow|index_select|unbind|split)\("


def _per_parameter(facts: Facts) -> Lost | None:
    chosen = [
        loop
        for loop in _known(facts, loops)
        if loop.phase == OTHER and loop.turns >= MANY_TURNS and not loop.indexing
    ]
    return _lost(facts, PER_PARAMETER, chosen)


def _indexing(facts: Facts) -> Lost | None:
    chosen = [loop for loop in _known(facts, loops_over_rows) if loop.phase != OPTIMIZER]
    return _lost(facts, INDEXING, chosen)


def _known(facts: Facts, which: Fact[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    cpu_operators(facts)
    return which(facts)


def _lost(facts: Facts, rule: Rule, chosen: Sequence[Loop]) -> Lost | None:
    found, judged = cpu_operators(facts)
    called = [loop for loop in chosen if loop.phase != BACKWARD]
    if not called:
        return None
    time = time_in(found, judged, chosen)
    longest = max(called, key=lambda loop: int(loop.taken.sum()))
    pieces = rule is INDEXING
    text = _INDEXING_TEXT if pieces else ""
    line = line_of(facts, longest.phase, text, only=pieces)
    line = line or loop_of(facts, longest.names, pieces=pieces) or line_of(facts, longest.phase)
    of = fmt.part_of_step(time.ns, judged.of.mean)
    return Lost(
        time.ns,
        judged.of,
        f"A loop{at(line)} calls {_what(facts, longest, rule)}: this takes {of}.",
        (
            Figure.share("in the loop", time.ns / judged.of.mean, rule.limits.warning),
            Figure(
                "iterations of the longest loop" if longest.is_even else "pieces",
                longest.turns,
                "count",
            ),
            Figure("operators of a step", len(found.rows) // found.steps.steps, "count"),
            Figure("mean step", judged.of.mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line, longest.names[0]),
        parts=time.parts,
    )


def _what(facts: Facts, loop: Loop, rule: Rule) -> str:
    distinct = list(dict.fromkeys(loop.names))
    names = ", ".join(distinct[:NAMED]) + (", ..." if len(distinct) > NAMED else "")
    if not loop.is_even:
        return f"small operators ({names}) for {loop.turns} slices of tensors, one by one"
    count = fmt.several(len(loop.names), "small operator")
    known = settings(facts) if facts.run else None
    tensors = sum(one.tensors for one in known.parameters or ()) if known else 0
    of = " for a slice of a tensor each" if rule is INDEXING else ""
    if rule is PER_PARAMETER and loop.turns == tensors:
        return f"{count} ({names}) for each of {tensors} parameters"
    return f"{count} ({names}) {loop.turns} times{of}"


_SOURCE = "Certainly avoidable, hence a low limit; a fifth of the step is critical."

PER_PARAMETER = Rule(
    id="per-parameter-loop",
    when="the script loops over the parameters one at a time, outside the optimizer",
    explanation=(
        "Weight averaging, gradient norms and clipping, weight decay or NaN checks are written as "
        "a loop over the parameters: a few small operators for each, whose calls cost more than "
        "their arithmetic. torch._foreach_... operators, torch.nn.utils.clip_grad_norm_ and "
        "torch.optim.swa_utils.AveragedModel take all tensors in one call. Calls longer than 0.1 "
        "ms count as arithmetic, not as lost time."
    ),
    lost=_per_parameter,
    limits=Limits(0.05, 0.20, _SOURCE),
    fixes=("foreach-average", "clip-grad-norm"),
    answer="torch._foreach_ operators, clip_grad_norm_, AveragedModel",
)

INDEXING = Rule(
    id="loop-of-indexing",
    when="a loop slices tensors and computes piece by piece",
    explanation=(
        "A Python loop over the rows of a batch, time steps or boxes indexes a tensor and calls "
        "small operators on each slice, and the backward pass runs through all of them again. The "
        "calls cost more than their arithmetic: compute on the whole tensor, with masks for what "
        "differs between rows, or use a layer that loops internally (nn.LSTM). Calls longer than "
        "0.1 ms count as arithmetic, not as lost time."
    ),
    lost=_indexing,
    limits=Limits(0.05, 0.20, _SOURCE),
    answer="operators on the whole tensor, torch.vmap, nn.LSTM",
)
