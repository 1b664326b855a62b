"""One run against another: what changed, by how much, and whether that says anything."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from perftui.diagnosis import words
from perftui.experiments.effect import effective_changes, missed
from perftui.experiments.figures import RunFigures, run_figures
from perftui.run.columns import PHASES
from perftui.run.reader import RunSnapshot
from perftui.run.step_budget import StepShare

FEWEST_STEPS = 20
"""Steady steps of each run without which nothing is said."""

MANY_STEPS = 80
"""Steady steps from which on two runs of one program agree well."""

NOISE_MANY = 0.06
NOISE_FEW = 0.40
"""Two runs of one program differ by less than this in 95 % of cases: exp(2 * sqrt(2) * s) - 1,
where s is the standard deviation of the logarithm between runs, measured as 0.02 from
``MANY_STEPS`` steps on and up to 0.12 on 40 or fewer. Steps of one run are not independent, so more
of them do not shrink it further. On a busy machine no limit holds: where others kept 1.7 of 2 cores
busy, one program's mean step was 14 ms in one run and 38 ms in another."""


class Verdict(str, enum.Enum):
    """What the comparison says of the second run."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_CLEAR_DIFFERENCE = "no clear difference"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class PhaseChange:
    """Mean time in one phase of the step, ns, before and after."""

    phase: str
    before: int
    after: int


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side."""

    before: RunFigures
    after: RunFigures
    speedup: float | None
    """Mean step before over mean step after; None where a run has no steady steps."""
    verdict: Verdict
    reason: str
    phases: tuple[PhaseChange, ...]
    """The parts of both budgets, in drawing order; empty where a run has no steady steps."""
    changes: tuple[str, ...]
    """What is different at the training's loader."""
    notes: tuple[str, ...]
    """What the comparison does not say."""


def compare(before: RunSnapshot, after: RunSnapshot) -> Comparison:
    """Compare the steady training steps of two runs.

    One run each gives no confidence interval: pooling their steps would call a difference
    significant in up to half of all cases where there is none. The verdict therefore asks for more
    than two runs of one program differ by.
    """
    first, second = run_figures(before), run_figures(after)
    verdict, reason = _judge(first, second)
    return Comparison(
        first,
        second,
        _ratio(first.share, second.share),
        verdict,
        reason,
        _phases(first.share, second.share),
        effective_changes(first, second),
        _notes(first, second),
    )


def _ratio(before: StepShare | None, after: StepShare | None) -> float | None:
    if before is None or after is None or not before.mean or not after.mean:
        return None
    return before.mean / after.mean


def _phases(before: StepShare | None, after: StepShare | None) -> tuple[PhaseChange, ...]:
    if before is None or after is None:
        return ()
    return tuple(PhaseChange(phase, before.part(phase), after.part(phase)) for phase in PHASES)


def _judge(before: RunFigures, after: RunFigures) -> tuple[Verdict, str]:
    fewest = min(before.steps, after.steps)
    ratio = _ratio(before.share, after.share)
    if fewest < FEWEST_STEPS or ratio is None:
        return Verdict.INCONCLUSIVE, _too_few(before, after)
    if lost := missed(after):
        return Verdict.INCONCLUSIVE, lost
    if busy := before.busy_host or after.busy_host:
        return Verdict.INCONCLUSIVE, f"the host was busy: {busy}"
    return _by_size(before, after, ratio, NOISE_MANY if fewest >= MANY_STEPS else NOISE_FEW)


def _too_few(before: RunFigures, after: RunFigures) -> str:
    which, steps = min((("first", before.steps), ("second", after.steps)), key=lambda run: run[1])
    return f"the {which} run has {words.several(steps, 'steady step')} of {FEWEST_STEPS}"


def _by_size(
    before: RunFigures, after: RunFigures, ratio: float, noise: float
) -> tuple[Verdict, str]:
    usual = f"two runs of one program differ by up to {words.percent(noise)}"
    if abs(math.log(ratio)) <= math.log1p(noise):
        return Verdict.NO_CLEAR_DIFFERENCE, usual
    if _medians_disagree(before.share, after.share, ratio):
        return (
            Verdict.NO_CLEAR_DIFFERENCE,
            "the mean step and the median step changed in opposite directions",
        )
    return (Verdict.FASTER if ratio > 1 else Verdict.SLOWER), f"beyond noise: {usual}"


def _medians_disagree(before: StepShare | None, after: StepShare | None, ratio: float) -> bool:
    """A few extreme steps moved the mean while the usual step went the other way."""
    if before is None or after is None:
        return False
    return (before.p50 - after.p50) * (ratio - 1) < 0


def _notes(before: RunFigures, after: RunFigures) -> tuple[str, ...]:
    notes = ["one run each: no confidence interval", "losses were not compared"]
    if before.manifest.host != after.manifest.host:
        notes.append("the runs were made on different hosts")
    if before.manifest.command != after.manifest.command:
        notes.append("the commands differ")
    for name, run in (("first", before), ("second", after)):
        if run.busy_host:
            notes.append(f"the host was busy during the {name} run: {run.busy_host}")
        elif run.machine.tree_cores is None and run.machine.pressure is None:
            notes.append(f"how busy the host was during the {name} run is not known")
    return tuple(notes)
