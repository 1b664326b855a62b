"""Terms of the loss that are computed and then multiplied by 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.diagnosis.symptoms.operators.work import operator_work
from perftui.facts.cpu.operators import NODE, Work, operators, work_of
from perftui.facts.fact import Facts, UnknownError, cached, notes_of
from perftui.facts.source.source_calls import matching_line
from perftui.trace.model import NONE

MOST_READ = 12_000
"""Operators whose numbers are read, 5 us each: those of the first backward passes."""

MOSTLY = 0.9
"""Share of the nodes that a pass must have for the graph that was looked at to be its own."""

_TERMS = r"(\bloss\w*\s*\+?=|\breturn\b)[^#]*(\*[^#]*\+|\+[^#]*\*)|\bloss\w*\s*\+=[^#]*\*"


def _work(analysis: TraceAnalysis, nodes: int, ranges: tuple[tuple[int, int], ...]) -> Work:
    """Nodes of such terms in the steps, the operators that made them, and all they call.

    Raises:
        UnknownError: the trace does not number them, or its graphs are others.
    """
    ops = operators(analysis)
    mine, counted = (np.zeros(len(ops.rows), dtype=bool) for _ in range(2))
    marks, trace = ops.marks(BACKWARD), ops.trace
    is_node = ops.named(lambda name: name.startswith(NODE))
    looked_at, read, last = 0, 0, 0
    for mark in marks.tolist():
        begin, end = int(trace.start[mark]), int(trace.start[mark] + trace.duration[mark])
        back = ops.begun(begin, end)
        back, forward = back[is_node[back]], ops.begun(last, begin)
        last, read = end, read + len(back) + len(forward)
        if looked_at and read > MOST_READ:
            break
        numbers = ops.numbers(np.concatenate([back, forward]))
        first = max((numbers[at] for at in back.tolist() if at in numbers), default=NONE)
        wanted = {
            first - offset for lowest, highest in ranges for offset in range(lowest, highest + 1)
        }
        found = [at for at in back.tolist() if numbers.get(at) in wanted]
        if abs(len(numbers.keys() & set(back.tolist())) - nodes) > (1 - MOSTLY) * nodes:
            continue
        # Of operators with one number the last has made the node; those before call it.
        makers = {numbers[at]: at for at in forward.tolist() if numbers.get(at) in wanted}
        counted[found] = True
        mine[[*found, *makers.values()]] = True
        looked_at += 1
    if not looked_at:
        raise UnknownError("the trace shows other graphs than those that were looked at")
    return work_of(ops, ops.within(mine), counted).times(len(marks) / looked_at)


def _zero(facts: Facts) -> Lost | None:
    notes = notes_of(facts.events, "zero_terms") if facts.run else []
    if not notes or not isinstance(ranges := notes[-1].get("ranges"), list) or not ranges:
        return None
    judged, nodes = operator_work(facts), int(notes[-1]["nodes"])
    analysis, terms = judged.operators.steps.analysis, tuple((a, b) for a, b in ranges)
    # Numbers are read from the file, and a live run is judged every second.
    key = (_work, nodes, terms)
    work = cached(key, analysis.worked_out, lambda: _work(analysis, nodes, terms))
    lost = judged.lost(
        work,
        matching_line(facts, _TERMS, only=True),
        "A term of the loss is multiplied by 0{at}: {part} go to computing it, and to its backward "
        "pass, whose gradients are all 0.",
        "computed for nothing",
        Figure("nodes of the term in a step", work.calls, "count"),
        Figure("nodes of the graph", nodes, "count"),
    )
    return replace(lost, is_least=True)


ZERO_TERM = Rule(
    id="zero-term",
    when="a term of the loss is computed and multiplied by 0",
    explanation=(
        "A weight of 0 does not skip anything: the term is computed, and the backward pass goes "
        "through all of it with gradients of 0. Leave the term out while its weight is 0: if "
        "weight: loss = loss + weight * term(...). The graph of a few backward passes is looked "
        "at for numbers that are 0. The cost is the time of what only such terms need; what they "
        "compute without gradients is not counted."
    ),
    lost=_zero,
    limits=Limits("Certainly avoidable, hence a low limit."),
    answer="leave the term out while its weight is 0",
)
