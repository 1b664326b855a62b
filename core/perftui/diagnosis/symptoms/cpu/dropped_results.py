"""``dropped-results``: a product is computed whole, and a part of its result is used."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps.parts import OTHER
from perftui.analysis.steps.phases import FORWARD
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
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
        f"A matrix product{at(line)} is computed in full, but only part of its result is used: "
        f"{fmt.part_of_step(time.ns, mean)}, backward pass included.",
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
    when="a matrix product is computed in full, but only part of its result is used",
    explanation=(
        "Right after a large matrix product, the script takes one part of the result, such as the "
        "last position with logits[:, -1] or a few columns with gather. Index the input or the "
        "weights first and multiply only that part; the backward pass then does not fill the rest "
        "of the gradient with zeros. The cost is estimated as half of the product."
    ),
    lost=_dropped,
    limits=Limits(0.10, 0.40, "Half of the product is a safe estimate of the saving."),
    answer="index the input or the weights before the product",
)
