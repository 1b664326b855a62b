"""Convolutions of fixed sizes, whose kernels cuDNN chooses without trying them."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.kernels.category import Category
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import kernel_work, listed
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.kernel.operator_calls import alike_in_steps
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import forward_lines, with_line


def _untried(facts: Facts) -> Lost | None:
    """What would be won is not known before the kernels are tried, so the cost is 0."""
    known = settings(facts)
    if known is None or known.cudnn is None or known.cudnn.benchmark is not False:
        raise NotApplicableError
    if known.cudnn.enabled is False or known.cudnn.deterministic:
        return None
    work = kernel_work(facts)
    found = work.kernels.of(Category.CONVOLUTION)
    single = found.steps <= 1
    if not found.time or not (single or alike_in_steps(found)):
        return None
    share = found.time / work.kernels.time
    return Lost(
        0,
        None,
        f"Convolutions take {fmt.percent(share)} of the GPU's time with the same kernels in each "
        "step, and torch.backends.cudnn.benchmark is off.",
        (
            Figure.share("of GPU compute in convolutions", share, UNTRIED.limits.info),
            *listed(found),
            work.steps,
        ),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        share=share,
        doubt="a single step does not show whether sizes stay the same" if single else "",
    )


UNTRIED = Rule(
    id="cudnn-benchmark-off",
    when="convolutions of fixed sizes take much of the time, and cudnn.benchmark is off",
    explanation=(
        "cuDNN's heuristics mostly find a good kernel for a convolution, but not always the "
        "fastest. With torch.backends.cudnn.benchmark = True it tries them all once for each "
        "size, which pays if sizes stay the same. Results may differ in the last digits from run "
        "to run."
    ),
    lost=_untried,
    limits=Limits.of_hint(
        0.30, "The gain is between nothing and a third of that time: try it.", of="of GPU compute"
    ),
    fixes=("cudnn-benchmark",),
    answer="torch.backends.cudnn.benchmark = True, if sizes stay the same",
)
