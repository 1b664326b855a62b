"""One run against another: what changed, by how much, and whether that means anything."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from perftui import format as fmt
from perftui.experiments.effect import effective_changes, missed
from perftui.experiments.fewest_steps import FEWEST_STEPS
from perftui.experiments.same_work import batch_size, busy, incomparable
from perftui.facts.cpu.machine import busy_host, machine_use
from perftui.facts.fact import Facts
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.steps import step_breakdown
from perftui.run.columns import PHASES

MANY_STEPS = 80
"""Steady steps from which on two runs of one program agree well."""

NOISE_MANY = 0.06
NOISE_FEW = 0.40
"""Median steps of two runs of one program differ by less than this in 95 % of cases:
exp(2 * sqrt(2) * s) - 1, where s is the standard deviation of the logarithm between runs, measured
as 0.02 from ``MANY_STEPS`` steps on and up to 0.12 on 40 or fewer. Steps of one run are not
independent, so more of them do not shrink it further. Means have no such limit: one step of 1.5 s
among 120 of 10 ms makes the mean 2.2 times as long. So the usual step, which such steps do not
move, has to have changed by more than this too; a median would miss waits that come every few
steps. On a busy machine no limit holds: where others kept 1.7 of 2 cores busy, one program's mean
step was 14 ms in one run and 38 ms in another."""


class Verdict(str, enum.Enum):
    """What the comparison concludes about the second run."""

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

    before: Facts
    after: Facts
    speedup: float | None
    """Step before over step after: of the mean step or of the usual one (``StepBreakdown.usual``),
    whichever changed less, 1.0 where they changed in opposite directions; None where a run has no
    steady steps."""
    verdict: Verdict
    reason: str
    phases: tuple[PhaseChange, ...]
    """The parts of both mean steps, in drawing order; empty where a run has no steady steps."""
    changes: tuple[str, ...]
    """Arguments of the training's loader and optimizer that are in force and differ."""
    notes: tuple[str, ...]
    """What the comparison does not show, in words."""


def compare(before: Facts, after: Facts) -> Comparison:
    """Compare the steady training steps of two runs.

    One run each gives no confidence interval: pooling their steps would call a difference
    significant in up to half of all cases where there is none. The verdict therefore asks for more
    than two runs of one program differ by.
    """
    first, second = step_breakdown(before), step_breakdown(after)
    ratios = _ratios(first, second)
    verdict, reason = _judge(before, after, ratios)
    return Comparison(
        before,
        after,
        ratios.cautious if ratios else None,
        verdict,
        reason,
        _phases(first, second),
        effective_changes(before, after),
        _notes(before, after),
    )


@dataclass(frozen=True)
class _Ratios:
    """Step before over step after, > 1 where the second run is faster."""

    mean: float
    usual: float

    @property
    def opposite(self) -> bool:
        """Whether one of ``mean`` and ``usual`` is faster and the other slower."""
        return (self.mean - 1) * (self.usual - 1) < 0

    @property
    def cautious(self) -> float:
        """The ratio closer to 1: what both the mean and the usual step vouch for."""
        if self.opposite:
            return 1.0
        return min(self.mean, self.usual, key=lambda ratio: abs(math.log(ratio)))


def _ratios(before: StepBreakdown | None, after: StepBreakdown | None) -> _Ratios | None:
    if before is None or after is None:
        return None
    if not (before.mean and after.mean and before.usual and after.usual):
        return None
    return _Ratios(before.mean / after.mean, before.usual / after.usual)


def _phases(before: StepBreakdown | None, after: StepBreakdown | None) -> tuple[PhaseChange, ...]:
    if before is None or after is None:
        return ()
    return tuple(PhaseChange(phase, before.part(phase), after.part(phase)) for phase in PHASES)


def _judge(before: Facts, after: Facts, ratios: _Ratios | None) -> tuple[Verdict, str]:
    fewest = min(_steps(before), _steps(after))
    if fewest < FEWEST_STEPS:
        return Verdict.INCONCLUSIVE, _too_few(before, after)
    if ratios is None:
        return Verdict.INCONCLUSIVE, "a run has steps that take no time"
    if unlike := incomparable(before, after) or missed(after) or busy(before, after):
        return Verdict.INCONCLUSIVE, unlike
    return _by_size(ratios, NOISE_MANY if fewest >= MANY_STEPS else NOISE_FEW)


def _steps(run: Facts) -> int:
    """Steady steps."""
    found = step_breakdown(run)
    return found.count if found else 0


def _too_few(before: Facts, after: Facts) -> str:
    counts = (("first", _steps(before)), ("second", _steps(after)))
    which, steps = min(counts, key=lambda run: run[1])
    return f"the {which} run has {fmt.several(steps, 'steady step')} of {FEWEST_STEPS}"


def _by_size(ratios: _Ratios, noise: float) -> tuple[Verdict, str]:
    """The usual step has to have changed by more than noise, and so has the time of all steps."""
    usual = f"two runs of one program differ by up to {fmt.percent(noise)}"
    beyond = math.log1p(noise)
    if abs(math.log(ratios.cautious)) > beyond:
        return (Verdict.FASTER if ratios.cautious > 1 else Verdict.SLOWER), f"beyond noise: {usual}"
    if max(abs(math.log(ratios.mean)), abs(math.log(ratios.usual))) <= beyond:
        return Verdict.NO_CLEAR_DIFFERENCE, usual
    if ratios.opposite:
        unlike = "the mean step and the usual step changed in opposite directions"
    else:
        unlike = (
            f"the mean step is {ratios.mean:.2f}x as fast, but {ratios.usual:.2f}x without "
            "the slowest and the fastest tenth of the steps"
        )
    return Verdict.NO_CLEAR_DIFFERENCE, unlike


def _notes(before: Facts, after: Facts) -> tuple[str, ...]:
    notes = ["one run each: no confidence interval", "losses were not compared"]
    if None in (batch_size(before), batch_size(after)):
        notes.append("whether a step takes as many samples in both runs is not known")
    first, second = before.manifest, after.manifest
    if first and second and first.host != second.host:
        notes.append("the runs were made on different hosts")
    if first and second and first.command != second.command:
        notes.append("the commands differ")
    for name, run in (("first", before), ("second", after)):
        use = machine_use(run)
        if why := busy_host(run):
            notes.append(f"the host was busy during the {name} run: {why}")
        elif use.tree_cores is None and use.pressure is None:
            notes.append(f"how busy the host was during the {name} run is not known")
    return tuple(notes)
