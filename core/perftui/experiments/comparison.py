"""One run against another: what changed, by how much, and whether that says anything."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from perftui import format as fmt
from perftui.experiments.effect import effective_changes, missed
from perftui.experiments.fewest_steps import FEWEST_STEPS
from perftui.experiments.figures import RunFigures, run_figures
from perftui.facts.step_breakdown import StepBreakdown
from perftui.run.columns import PHASES
from perftui.run.reader import RunSnapshot

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
    """Step before over step after: of the mean step or of the usual one (``StepBreakdown.usual``),
    whichever changed less, 1.0 where they changed in opposite directions; None where a run has no
    steady steps."""
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
    return compare_figures(run_figures(before), run_figures(after))


def compare_figures(first: RunFigures, second: RunFigures) -> Comparison:
    """The same from figures that have been worked out already."""
    ratios = _ratios(first.share, second.share)
    verdict, reason = _judge(first, second, ratios)
    return Comparison(
        first,
        second,
        ratios.cautious if ratios else None,
        verdict,
        reason,
        _phases(first.share, second.share),
        effective_changes(first, second),
        _notes(first, second),
    )


@dataclass(frozen=True)
class _Ratios:
    """Step before over step after, > 1 where the second run is faster."""

    mean: float
    usual: float

    @property
    def opposite(self) -> bool:
        """One says faster, the other slower."""
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


def _judge(before: RunFigures, after: RunFigures, ratios: _Ratios | None) -> tuple[Verdict, str]:
    fewest = min(before.steps, after.steps)
    if fewest < FEWEST_STEPS:
        return Verdict.INCONCLUSIVE, _too_few(before, after)
    if ratios is None:
        return Verdict.INCONCLUSIVE, "a run has steps that take no time"
    if unlike := _other_samples(before, after):
        return Verdict.INCONCLUSIVE, unlike
    if lost := missed(after):
        return Verdict.INCONCLUSIVE, lost
    if busy := _busy(before, after):
        return Verdict.INCONCLUSIVE, busy
    return _by_size(ratios, NOISE_MANY if fewest >= MANY_STEPS else NOISE_FEW)


def _busy(before: RunFigures, after: RunFigures) -> str:
    """What kept the host busy and what to do about it, empty where it was not.

    How large the difference is does not matter: a busy host alone makes such differences.
    """
    busy = [(name, run.busy_host) for name, run in (("first", before), ("second", after))]
    busy = [(name, why) for name, why in busy if why]
    if not busy:
        return ""
    runs = "both runs" if len(busy) == 2 else f"the {busy[0][0]} run"
    return f"the host was busy: {busy[0][1]}; repeat {runs} while it has nothing else to do"


def _other_samples(before: RunFigures, after: RunFigures) -> str:
    """Why a step of one run is not the work of a step of the other, empty where nothing says so."""
    sizes = (_batch_size(before), _batch_size(after))
    for name, (old, new) in (
        ("batch size", sizes),
        ("micro-batches a step", (before.micro_batches, after.micro_batches)),
        ("training processes", (before.ranks, after.ranks)),
    ):
        if old is not None and new is not None and old != new:
            return f"{name} {old} -> {new}: a step is not the same work in both runs"
    return ""


def _batch_size(figures: RunFigures) -> int | None:
    return figures.loader.batch_size if figures.loader else None


def _too_few(before: RunFigures, after: RunFigures) -> str:
    which, steps = min((("first", before.steps), ("second", after.steps)), key=lambda run: run[1])
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


def _notes(before: RunFigures, after: RunFigures) -> tuple[str, ...]:
    notes = ["one run each: no confidence interval", "losses were not compared"]
    if None in (_batch_size(before), _batch_size(after)):
        notes.append("whether a step takes as many samples in both runs is not known")
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
