"""``torch.compile`` takes longer than a short run can win back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis.intervals import union
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.events import events_of
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.step.steps import run_is_over, steady_rows, steady_step, step_count
from perftui.trace.model import Int64

USUAL_GAIN = 0.43
"""How much longer a step mostly takes without it; PyTorch's mean of 163 models on an A100."""


@dataclass(frozen=True)
class FirstCompiling:
    """Compiling in the warm-up; times in ns."""

    time: int
    run: int
    """From the start of the command to the last step."""
    steps: int
    """All steps of the run."""
    mean: int
    """The mean steady step."""

    @property
    def paid_from(self) -> int:
        """Steps from which on it pays, where it gains as much as usual."""
        return round(self.time / (USUAL_GAIN * self.mean))

    @property
    def needed(self) -> int:
        """How much longer each step would have to be without it to have paid."""
        return self.time // max(self.steps, 1)


@fact
def first_compiling(facts: Facts) -> FirstCompiling:
    """Compiling before the first steady step, as torch itself reports.

    Raises:
        NotApplicableError: the run is not over, or compiled nothing then.
        UnknownError: too few steps are steady.
    """
    manifest, found = facts.manifest, events_of(facts.events, "compile")
    if manifest is None or not run_is_over(facts) or not len(found):
        raise NotApplicableError
    step, rows = steady_step(facts), steady_rows(facts)
    if not len(rows):
        raise NotApplicableError
    begins: Int64 = np.array(
        [data.get("start") or -1 if isinstance(data, dict) else -1 for data in found["data"]],
        dtype=np.int64,
    )
    first = int(rows["start"][0])
    early = (begins >= 0) & (begins < first)
    if not early.any():
        raise NotApplicableError
    start = begins[early]
    # One within another, such as backward's within a step's, takes no time of its own.
    time = union(start, np.minimum(start + found["duration"][early], first)).total
    last = int((facts.steps["start"] + facts.steps["duration"]).max())
    return FirstCompiling(time, max(last - manifest.started_ns, 1), step_count(facts), step.mean)


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
