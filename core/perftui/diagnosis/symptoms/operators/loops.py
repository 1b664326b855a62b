"""Python loops that call a few small operators again and again, where one call would do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perftui import format as fmt
from perftui.analysis.steps import BACKWARD, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.diagnosis.symptoms.operators.work import OperatorWork, operator_work
from perftui.facts.cpu.operator_loops import Loop, loops, loops_over_rows, time_in
from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import at, line_place
from perftui.facts.source.source_calls import loop_of

MANY_TURNS = 50
"""Turns from which a loop in the script goes over the parameters: as many tensors as make an
optimizer slow."""

_HANDED = re.compile(
    r"aten::(empty\w*|set_\w*|resize_|detach_?|alias|view|as_strided|lift_fresh|to|_to_copy)$"
)
"""What makes tensors and views of memory that is there, as where a batch is unpickled."""

NAMED = 3
"""Operators of a turn named in the sentence."""

_INDEXING_TEXT = r"\w\[[^\]]+\]|\bfor\b.*\bin\b|\.(select|narrow|index_select|unbind|split)\("


def _per_parameter(facts: Facts) -> Lost | None:
    work, all_loops = operator_work(facts), loops(facts)
    outside = [
        loop
        for loop in all_loops
        if loop.phase == OTHER
        and loop.turns >= MANY_TURNS
        and not loop.indexing
        # Other libraries, such as the reducer of gradients, loop by themselves.
        and all(name.startswith("aten::") for name in loop.names)
        and not all(map(_HANDED.match, loop.names))
    ]
    return _lost(work, PER_PARAMETER, outside)


def _indexing(facts: Facts) -> Lost | None:
    work, all_loops = operator_work(facts), loops_over_rows(facts)
    return _lost(work, INDEXING, [loop for loop in all_loops if loop.phase != OPTIMIZER])


def _lost(work: OperatorWork, rule: Rule, chosen: Sequence[Loop]) -> Lost | None:
    facts, ops, step = work.facts, work.operators, work.of
    called = [loop for loop in chosen if loop.phase != BACKWARD]
    if not called:
        return None
    time = time_in(ops, work.judged, chosen)
    longest = max(called, key=lambda loop: int(loop.taken.sum()))
    pieces = rule is INDEXING
    line = work.stack_line(int(ops.rows[longest.positions[0]])) or work.line_of(
        longest.phase, _INDEXING_TEXT if pieces else "", only=pieces
    )
    line = line or loop_of(facts, longest.names, pieces=pieces) or work.line_of(longest.phase)
    calls, part = _what(facts, longest, rule), step.part_of(time.ns)
    turns = "iterations of the longest loop" if longest.is_even else "pieces"
    return Lost(
        time.ns,
        step,
        f"A loop{at(line)} calls {calls}: "
        f"{'the GPU idles' if work.on_device else 'this takes'} {part}"
        f"{' meanwhile' if work.on_device else ''}.",
        (
            Figure(turns, longest.turns, "count"),
            Figure("operators of a step", len(ops.rows) // ops.steps.steps, "count"),
        ),
        label="in the loop",
        place=line_place(facts, line, longest.names[0]),
        parts=time.parts,
    )


def _what(facts: Facts, loop: Loop, rule: Rule) -> str:
    distinct = list(dict.fromkeys(loop.names))
    names = ", ".join(distinct[:NAMED]) + (", ..." if len(distinct) > NAMED else "")
    if not loop.is_even:
        return f"small operators ({names}) for {loop.turns} slices of tensors, one by one"
    count = fmt.several(len(loop.names), "small operator")
    setup = settings(facts) if facts.run else None
    tensors = sum(group.tensors for group in setup.parameters or ()) if setup else 0
    of = " for a slice of a tensor each" if rule is INDEXING else ""
    if rule is PER_PARAMETER and loop.turns == tensors:
        return f"{count} ({names}) for each of {tensors} parameters"
    return f"{count} ({names}) {loop.turns} times{of}"


_SOURCE = "Certainly avoidable, hence a low limit; a fifth of the step is critical."

PER_PARAMETER = Rule(
    id="per-parameter-loop",
    when="a loop calls a few operators for one tensor at a time, outside the optimizer",
    explanation=(
        "Weight averaging (EMA), clipping and norms written as a loop over the parameters call "
        "a few tiny operators for each. torch._foreach_ functions do it for all tensors at once, "
        "as do torch.nn.utils.clip_grad_norm_ and torch.optim.swa_utils.AveragedModel with "
        "get_ema_multi_avg_fn. On a GPU the cost is its idle time during the loop."
    ),
    lost=_per_parameter,
    limits=Limits(_SOURCE),
    fixes=("foreach-average", "clip-grad-norm"),
    answer="torch._foreach_ functions, or those in torch.nn.utils",
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
    limits=Limits(_SOURCE),
    answer="operators on the whole tensor, torch.vmap, nn.LSTM",
)
