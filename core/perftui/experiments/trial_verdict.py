"""What the pairs of a trial come to: noise, estimate, losses, and a sentence about them."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perftui import format as fmt
from perftui.fixes.option import MAY_ROUND, Risk

# The unit is a run of its own process: steps of one run are not independent. The ratio of both mean
# steps of a pair counts, so that what slows both runs alike cancels out.

LOOKS = ((6, 1), (9, 4), (14, 15))
"""Numbers of pairs after which a result is looked at, and by how many of the outermost Walsh
averages the interval is cut there. All three looks together call a difference where there is none
in at most 5 % of cases: 4.8 % of 40,000 simulated trials of normal ratios, 4.9 % of Student's t
with 3 degrees of freedom."""

CONFIDENCE = 0.95
"""Confidence of the interval, over all looks together."""


@dataclass(frozen=True)
class Estimate:
    """A ratio, above 1 where the change makes it faster."""

    ratio: float
    """Hodges-Lehmann: the median of the means of any two pairs, of logarithms."""
    low: float
    high: float
    """Ends of the interval, which is exact for ratios that are spread alike to both sides."""
    pairs: int


def estimate(ratios: Sequence[float]) -> Estimate | None:
    """The estimate of the pairs so far, at the last look that they suffice for; None before it.

    The interval is Tukey's: Walsh averages, cut by the distribution of Wilcoxon's signed ranks."""
    cut = max((look for look in LOOKS if look[0] <= len(ratios)), default=None)
    if cut is None:
        return _plain(ratios)
    pairs, outermost = cut
    logs = [math.log(ratio) for ratio in ratios[:pairs]]
    # Walsh averages: means of any two, each with itself too, in order.
    walsh = sorted((first + second) / 2 for at, first in enumerate(logs) for second in logs[at:])
    return Estimate(
        math.exp(median(walsh)), math.exp(walsh[outermost - 1]), math.exp(walsh[-outermost]), pairs
    )


PLAIN_PAIRS, PLAIN_RATIO = 3, 3.0
"""A ratio beyond this in each of the first pairs is plain: on a host that others kept busy, two
runs of one program were 2.7 apart once, and never three times in turn to the same side."""


def _plain(ratios: Sequence[float]) -> Estimate | None:
    """Where the few pairs so far make it plain, their median, within the smallest and the largest
    widened by what two short runs of one program differ by."""
    fewest, most = min(ratios, default=1.0), max(ratios, default=1.0)
    if len(ratios) < PLAIN_PAIRS or (most > 1 / PLAIN_RATIO and fewest < PLAIN_RATIO):
        return None
    beyond = 1 + NOISE_FEW
    return Estimate(median(ratios), fewest / beyond, most * beyond, len(ratios))


def next_look(pairs: int) -> int | None:
    """The number of pairs to go on to; None where the last look is past."""
    return next((count for count, _ in LOOKS if count > pairs), None)


LEAST_GAIN = 0.01
"""The smallest gain that is worth a change."""

SAME = 0.02
"""An interval within this much of 1 on both sides is no difference."""

NEARLY_SAME = 0.05
"""An interval within this much of 1 after the last pair is no difference; the verdict then reports
the difference that may remain."""

WIDE = 2.0
"""Upper over lower end of an interval from which on its lower end is said first: that much is
certain, and the middle may be far off."""


def is_tested(pairs: int) -> bool:
    """Whether so many pairs have an interval of ``CONFIDENCE``: fewer only make a ratio plain."""
    return pairs >= LOOKS[0][0]


class Stage(str, enum.Enum):
    """How far an experiment has come."""

    WAITING = "waiting"
    """Waiting for the end of a training that was running."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It was asked to stop, and its training has not ended yet."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self in (Stage.DONE, Stage.STOPPED, Stage.FAILED)


class Outcome(str, enum.Enum):
    """The verdict of a trial."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"
    NO_EFFECT = "no effect"
    """The change did not reach the training."""
    NOT_COMPARABLE = "not comparable"
    """The runs did not do the same work."""

    @property
    def is_decided(self) -> bool:
        """Whether more pairs are not worth their time."""
        return self is not Outcome.INCONCLUSIVE


@dataclass(frozen=True)
class TrialVerdict:
    """The outcome, the estimate where there are pairs enough, and the headline."""

    outcome: Outcome
    headline: str
    estimate: Estimate | None = None
    more_pairs: int = 0
    """Pairs until the result is looked at again; 0 where nothing more will come of it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the estimate, for a person."""
        if self.outcome not in (Outcome.FASTER, Outcome.SLOWER) or not _is_wide(self.estimate):
            return ()
        if not is_tested(self.estimate.pairs if self.estimate else 0):
            return ("few pairs make it plain, and leave the interval wide",)
        return ("the interval is wide, as the runs differed much; a quieter machine narrows it",)

    @property
    def while_running(self) -> str:
        """The headline, with what is still needed."""
        more = f": {fmt.several(self.more_pairs, 'more pair')} needed" if self.more_pairs else ""
        return f"{self.headline}{more}"


def judge(ratios: Sequence[float], floor: float = 0.0, *, disturbed: bool = False) -> TrialVerdict:
    """The verdict by the pairs so far. ``floor`` is by how much two runs of the unchanged training
    differed on this machine, as a share: a gain has to be beyond what that comes to in the mean of
    so many pairs. ``disturbed``: other programs or heat slowed some of the runs, which is said
    where the result is not clear."""
    result = estimate(ratios)
    if result is None:
        more = (next_look(0) or 0) - len(ratios)
        return TrialVerdict(Outcome.INCONCLUSIVE, _early_text(ratios), more_pairs=more)
    least = 1 + max(LEAST_GAIN, floor / math.sqrt(result.pairs))
    interval = f"({result.low:.2f} to {result.high:.2f})"
    if result.low > least:
        return TrialVerdict(Outcome.FASTER, _gain_text("faster", result), result)
    if result.high < 1 / least:
        turned = Estimate(1 / result.ratio, 1 / result.high, 1 / result.low, result.pairs)
        return TrialVerdict(Outcome.SLOWER, _gain_text("slower", turned), result)
    if result.low >= 1 / (1 + SAME) and result.high <= 1 + SAME:
        return TrialVerdict(Outcome.NO_DIFFERENCE, f"no difference {interval}", result)
    most = max(result.high, 1 / result.low) - 1
    if next_look(len(ratios)) is None and result.low <= 1 <= result.high and most <= NEARLY_SAME:
        headline = f"no difference beyond {fmt.percent(most)} {interval}"
        return TrialVerdict(Outcome.NO_DIFFERENCE, headline, result)
    more = (next_look(len(ratios)) or len(ratios)) - len(ratios)
    speed, is_open = speed_text(result.ratio), result.low <= 1 <= result.high
    so_far = f"{result.ratio:.2f}x so far, unclear" if is_open else f"{speed} so far"
    text = f"{so_far} {interval}" if more else f"{speed} {interval}, not certain"
    text += ", the runs were disturbed" if disturbed else ""
    return TrialVerdict(Outcome.INCONCLUSIVE, text, result, more)


def _early_text(ratios: Sequence[float]) -> str:
    """``2.05x faster so far``, or ``1.13x so far, unclear (pairs 0.67 to 1.49)`` where the next
    pair may turn it round."""
    if not ratios:
        return "not yet known"
    ratio, low, high = median(ratios), min(ratios), max(ratios)
    if len(ratios) > 1 and not low <= 1 <= high:
        return f"{speed_text(ratio)} so far"
    return f"{ratio:.2f}x so far, unclear" + f" (pairs {low:.2f} to {high:.2f})" * (low < high)


def _gain_text(word: str, result: Estimate) -> str:
    """``2.10x faster (2.00 to 2.20)``."""
    low, ratio, high = result.low, result.ratio, result.high
    if _is_wide(result):
        return f"at least {low:.2f}x {word}, likely {ratio:.2f}x (up to {high:.2f}x)"
    return f"{ratio:.2f}x {word} ({low:.2f} to {high:.2f})"


def _is_wide(result: Estimate | None) -> bool:
    return result is not None and result.high >= WIDE * result.low


def speed_text(ratio: float) -> str:
    """``1.98x faster``, ``1.20x slower``, or ``as fast`` where two digits show no difference."""
    times = f"{max(ratio, 1 / ratio):.2f}x"
    return "as fast" if times == "1.00x" else f"{times} {'faster' if ratio > 1 else 'slower'}"


ROUNDING = 1e-6
"""Share by which losses of float32 may differ where the same is added in another order."""

CLOSE = 0.02
"""Share by which losses may differ where a fix may round otherwise."""

EARLY = 5
EARLY_CLOSE = 1e-3
GROWN = 0.1
"""Differences of rounding grow with each step: of a deep network without a warm-up from 2e-8 at the
first loss to 7e-6 at the fifth and 0.029 at the nineteenth. Where the first ``EARLY`` losses are
within ``EARLY_CLOSE``, later ones may be apart by so much; another computation shows before."""

FEWEST = 2
"""Runs without the change from which on losses are known to repeat, or not to."""

MAY_DIFFER = frozenset(
    {Risk.RANDOMNESS, Risk.ORDER, Risk.DROPOUT, Risk.NORMS, Risk.DRAWS, Risk.EDIT}
)


class Agreement(str, enum.Enum):
    """How the losses of both arms compare."""

    SAME = "same"
    ROUNDED = "rounded"
    """Within what the fix may change."""
    NOT_CHECKED = "not checked"
    DIFFER = "differ"
    """They differ by more than the fix may change, or one is no number."""


@dataclass(frozen=True)
class LossCheck:
    """The agreement of the losses, and a sentence about it."""

    agreement: Agreement
    sentence: str


def check_losses(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], risks: Sequence[Risk] = ()
) -> LossCheck:
    """Compare runs before a change with runs after it, each by its first losses."""
    if not before or not after or not all(before) or not all(after):
        return LossCheck(Agreement.NOT_CHECKED, "losses not checked: none were recorded")
    if any(not math.isfinite(loss) for run in after for loss in run) and all(
        math.isfinite(loss) for run in before for loss in run
    ):
        return LossCheck(Agreement.DIFFER, "a loss is not finite with the change")
    first = before[0]
    usual = max((_difference(first, run)[0] for run in before[1:]), default=0.0)
    if usual > CLOSE:
        return LossCheck(
            Agreement.NOT_CHECKED,
            "losses not checked: they also differ between runs without the fix",
        )
    apart, step = max(_difference(first, run) for run in after)
    if apart > ROUNDING and len(before) < FEWEST:
        return LossCheck(
            Agreement.NOT_CHECKED, "losses not checked: one run does not show whether they repeat"
        )
    count = min(map(len, (*before, *after)))
    if apart <= max(usual, ROUNDING):
        return LossCheck(Agreement.SAME, f"the first {count} losses are the same")
    which = f"loss {step + 1} is {first[step]:.6g} before and {after[0][step]:.6g} after"
    if not MAY_DIFFER.isdisjoint(risks):
        return LossCheck(
            Agreement.NOT_CHECKED, f"losses not checked, since the fix may change them: {which}"
        )
    early = max(_difference(first[:EARLY], run[:EARLY])[0] for run in after)
    is_rounding = apart <= CLOSE or (early <= EARLY_CLOSE and apart <= GROWN)
    if is_rounding and not MAY_ROUND.isdisjoint(risks):
        return LossCheck(Agreement.ROUNDED, f"losses differ by rounding: {which}")
    return LossCheck(Agreement.DIFFER, f"losses differ: {which}")


def _difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, int]:
    """The largest difference of two runs' losses as a share, and which loss that is."""
    shares = [
        (abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0, at)
        for at, (a, b) in enumerate(zip(one, other, strict=False))
    ]
    return max(shares, default=(0.0, 0))


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


def noise_of(steps: int) -> float:
    """The share that two runs of so many steady steps may differ by."""
    return NOISE_MANY if steps >= MANY_STEPS else NOISE_FEW


@dataclass(frozen=True)
class Ratios:
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


FEWEST_STEPS = 20
"""Steady steps of each run below which there is no verdict."""
