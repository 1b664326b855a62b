"""``torch.compile`` takes longer than a short run can win back."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.script.first_compiling import first_compiling


def _unpaid(facts: Facts) -> Lost | None:
    """It is no part of a step, and how long steps are without it is not known."""
    found = first_compiling(facts)
    if found.steps >= found.paid_from:
        return None
    share = min(found.time / found.run, 0.9)
    return Lost(
        0,
        None,
        f"torch.compile took {fmt.duration(found.time)}, {fmt.percent(share)} of the run: with the "
        f"usual gain that pays off after {fmt.several(found.paid_from, 'step')}, and this run "
        f"had {found.steps:,}.",
        (
            Figure.share("compiling, of the run", share, UNPAID.limits.info),
            Figure("steps", found.steps, "count"),
            Figure("mean step", found.mean, "ns"),
            Figure("step without it at which it pays off", found.mean + found.needed, "ns"),
        ),
        share=share,
    )


UNPAID = Rule(
    id="compile-not-paid",
    when="torch.compile takes longer than it saves in so short a run",
    explanation=(
        "Compiling takes seconds to minutes at the start and makes each step shorter. It pays off "
        "in a long run. In a short one, such as a test, leave it out, or keep the compile cache "
        "between runs (TORCHINDUCTOR_CACHE_DIR). The number of steps assumes that a step takes "
        "1.43 times as long without torch.compile, PyTorch's mean over 163 models."
    ),
    lost=_unpaid,
    limits=Limits.of_hint(
        0.20, "It is not part of a step, and a longer run makes up for it.", of="of the run"
    ),
    answer="leave it out of short runs, or keep its cache",
)
