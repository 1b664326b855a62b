"""The GPU sorts: ``torch.sort``, ``topk``, ``unique`` and the like."""

from __future__ import annotations

import re
from dataclasses import replace

from perftui.analysis import kinds
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts
from perftui.facts.kernel.operator_calls import launched_under
from perftui.facts.kernel.step_kernels import StepKernels
from perftui.facts.place import Place
from perftui.facts.source.source_calls import call_of
from perftui.facts.step.steady import Mask
from perftui.trace.model import NONE

_CALLED_AS = {
    "aten::sort": "sort",
    "aten::argsort": "argsort",
    "aten::msort": "msort",
    "aten::topk": "topk",
    "aten::_unique": "unique",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
}
"""Operators that sort, and how a script calls them. ``unique_consecutive`` does not sort."""

_SORTING = re.compile(r"sort|topk", re.IGNORECASE)


def is_sorting(name: str) -> bool:
    """Whether a kernel of that name sorts. Not all that do are called by operators that sort: the
    gradients of embeddings are sorted by row as well."""
    return _SORTING.search(name) is not None


def _sorted_by_operators(kernels: StepKernels) -> Mask:
    return launched_under(kernels, *_CALLED_AS)


def _sorted_by_any(kernels: StepKernels) -> Mask:
    """Also kernels that sort by their names, if the trace shows no operator around them."""
    unknown: Mask = kernels.operator == NONE
    return _sorted_by_operators(kernels) | (kernels.named(is_sorting) & unknown)


def _sorting(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = work.kernels.kept(SORTING.id, _sorted_by_operators)
    most = work.kernels.kept(_sorted_by_any, _sorted_by_any)
    if not most.time:
        return None
    is_least = len(most) > len(found)
    if is_least and work.won(found.time) < SORTING.limits.warning * work.of.mean:
        return Lost(
            work.won(most.time),
            work.of,
            f"The GPU may sort for {work.of_step(most.time)}.",
            (*listed(most), work.steps),
            doubt="the trace does not show which operators launched the kernels that sort",
        )
    return Lost(
        cost_ns=work.won(found.time),
        of=work.of,
        sentence=f"The GPU sorts for {work.of_step(found.time)}.",
        figures=(
            Figure.share("of GPU compute", found.time / work.kernels.time),
            *listed(found),
            work.steps,
        ),
        place=_place(facts, found),
        parts=PARTS,
        is_least=is_least,
        unproven="whether each step needs what is sorted",
    )


def _place(facts: Facts, found: StepKernels) -> Place:
    """Where the longest of the kernels was launched: by the outermost operator that sorts, and at
    the only line that calls that. Samples of the host do not show the line: it only launches."""
    place, trace = found.place, found.analysis.trace
    operators = kinds.operators(trace)
    row, names = int(found.operator[found.rows == place.trace_row][0]), []
    while row != NONE:
        if operators[row]:
            names.append(trace.name_of(row))
        row = int(trace.parent[row])
    operator = [name for name in names if name in _CALLED_AS][-1]
    place = replace(place, operator=operator)
    # What another operator calls is not in the script by that name.
    is_called = place.file is None and names[-1] == operator
    line = call_of(facts, _CALLED_AS[operator]) if is_called else None
    if line is None:
        return place
    return replace(place, rank=facts.rank_number, file=line.file, line=line.line)


SORTING = Rule(
    id="sorting",
    when="operators that sort take much of the GPU's time",
    explanation=(
        "torch.sort, argsort, msort, topk and unique pass through a tensor several times. Often "
        "they serve metrics, logs or samples that are not needed in every step: compute those "
        "every N steps. If only the largest or smallest values are needed, topk takes less than "
        "a full sort. The cost is the time of all kernels that these operators launch, so it is "
        "the most that can be gained. What the backward pass of an embedding sorts is not counted."
    ),
    lost=_sorting,
    limits=Limits(
        0.10, 0.30, "The model may need part of it, hence a higher limit than for pure loss."
    ),
    claims=Claim(kernels=is_sorting),
    answer="compute it every N steps, or topk instead of a full sort",
)
