"""Kernels that move tensors through memory more often than they need to."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts
from perftui.facts.kernel.kernel_chains import kernel_chains
from perftui.facts.kernel.operator_calls import explicit_casts
from perftui.facts.source.operator_lines import operator_lines, with_line

_MEMORY_BOUND_SHARE = 0.30
"""Share of the device's busy time from which on fusing is worth a thought; slowai calls a GPU
memory-bound from half of it on."""


def _elementwise(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    chains, busy = kernel_chains(work.kernels.analysis), work.kernels.time
    found = chains.kernels
    time = found.time
    if not time or time < _MEMORY_BOUND_SHARE * busy:
        return None
    kernels = fmt.several(found.count, "kernel")
    return Lost(
        work.won(chains.saved),
        work.of,
        f"The GPU spends {work.of_step(time)} in {kernels} for elementwise work, normalisation and "
        "reductions, each of which moves whole tensors through memory.",
        (
            Figure.share("of GPU compute", time / busy, _MEMORY_BOUND_SHARE),
            Figure("fused they would save", chains.saved, "ns"),
            *listed(found),
            work.steps,
        ),
        with_line(facts, found.place, operator_lines.or_none(facts)),
        PARTS,
    )


ELEMENTWISE = Rule(
    id="memory-bound-elementwise",
    when="long chains of elementwise kernels, normalisations and reductions that could be fused",
    explanation=(
        "Each such kernel reads its tensors from memory and writes its result back: ten in a row "
        "take about ten times as long as one. torch.compile fuses a chain into one kernel; "
        "torch's own functions are one kernel each: gelu, layer_norm, rms_norm, softmax, "
        "cross_entropy, scaled_dot_product_attention. The cost assumes that a fused chain takes "
        "three passes of its longest kernel."
    ),
    lost=_elementwise,
    limits=Limits(
        0.10,
        0.20,
        "The share that fusing saves: for a GPT and a ResNet that are already fused it is 6 % and "
        "2 %.",
    ),
    fixes=("elementwise-fused", "compile"),
    answer="torch.compile, or the fused functions of torch",
)


def _churn(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = work.kernels.kept(explicit_casts, explicit_casts)
    time, busy = found.time, work.kernels.time
    if not time:
        return None
    return Lost(
        # Of each pair of conversions, there and back, the one is as needless as the other; but the
        # data may come in another type than it is wanted in.
        work.won(time / 2),
        work.of,
        f"The GPU converts tensors from one data type to another for {work.of_step(time)}, "
        f"{fmt.several(found.count, 'time')} a step.",
        (Figure.share("of GPU compute", time / busy, DTYPE_CHURN.limits.warning), work.steps),
        with_line(facts, found.place, operator_lines.or_none(facts)),
        PARTS,
        share=work.won(time) / busy,
    )


DTYPE_CHURN = Rule(
    id="dtype-churn",
    when="the script converts tensors between data types again and again",
    explanation=(
        "Calls such as .float(), .half() and .to(dtype) copy the whole tensor, and the backward "
        "pass copies its gradient back. Convert once where the data enters, and leave the types "
        "inside the model to autocast. Autocast's own conversions are not counted. The cost is "
        "half of their time."
    ),
    lost=_churn,
    limits=Limits(0.05, 0.20, "The same limit as for other copies.", of="of GPU compute"),
    answer="convert once, where the data enters",
)
