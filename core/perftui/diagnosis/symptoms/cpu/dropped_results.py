"""``dropped-results``: a product is computed whole, and a part of its result is used."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps.parts import OTHER
from perftui.analysis.steps.phases import FORWARD
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.cpu.dropped_results import dropped_results
from perftui.facts.cpu.operators import PHASES, cpu_operators, in_step
from perftui.facts.fact import Facts
from perftui.facts.source.operator_lines import at, line_of, place_of

_PRODUCT_TEXT = r"linear|matmul|einsum|\bmm\(|bmm\(| @ |head|proj|logits|score|output|decode"


def _dropped(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = dropped_results(facts)
    if not work.calls:
        return None
    time, mean = in_step(found, judged, work.by_phase), judged.of.mean
    called = {phase: int(work.by_phase[PHASES.index(phase)]) for phase in (FORWARD, OTHER)}
    line = line_of(facts, max(called, key=lambda phase: called[phase]), _PRODUCT_TEXT)
    return Lost(
        # How large the piece is does not show.
        time.ns // 2,
        judged.of,
        f"A product{at(line)} is computed whole, and only a piece of its result is used: "
        f"{fmt.part_of_step(time.ns, mean)}, with its backward pass.",
        (
            Figure.share("the product", time.ns / mean, DROPPED.limits.warning),
            Figure("such products in a step", work.calls, "count"),
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line, "aten::linear"),
        parts=time.parts,
        share=time.ns / mean,
        unproven="how large a part of the result is used",
    )


DROPPED = Rule(
    id="dropped-results",
    when="a product is computed whole, and only a piece of its result is used",
    explanation=(
        "Right behind a large product one piece of its result is taken, such as the last position "
        "of logits[:, -1], or a few columns by gather. Take the piece first, of the input or of "
        "the weights, and multiply only that; the backward pass then fills no gradient of the rest "
        "with zeros. The cost is taken to be half of the product."
    ),
    lost=_dropped,
    limits=Limits(0.10, 0.40, "Half of it is what is surely saved: from 5 % of the step on."),
    answer="index the input or the weights before the product",
)
