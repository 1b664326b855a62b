"""What the pairs of a trial come to, in a word and a sentence that a hurried reader gets right."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from perftui import format as fmt
from perftui.experiments.trial.paired import Estimate, estimate, next_look

LEAST_GAIN = 0.01
"""The smallest difference that is worth a change."""

SAME = 0.02
"""An interval within this much of 1 on both sides is no difference."""

NEARLY_SAME = 0.05
"""An interval within this much of 1 after the last pair is no difference; the verdict then reports
the difference that may remain."""

WIDE = 2.0
"""Upper over lower end of an interval from which on its lower end is said first: that much is
certain, and the middle may be far off."""


class Outcome(str, enum.Enum):
    """The verdict of a trial."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"
    NO_EFFECT = "no effect"
    """It did not reach the training."""
    NOT_COMPARABLE = "not comparable"
    """The runs did not do the same work."""


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
        return ("the interval is wide, as the runs differed much; a quieter machine narrows it",)

    @property
    def while_running(self) -> str:
        """The headline, with what is still needed."""
        more = self.more_pairs
        return (
            f"{self.headline}: {fmt.several(more, 'more pair')} needed" if more else self.headline
        )


def judge(ratios: Sequence[float], floor: float = 0.0, *, disturbed: bool = False) -> TrialVerdict:
    """The verdict by the pairs so far. ``floor`` is by how much two runs of the unchanged training
    differed on this machine, as a share: a gain has to be beyond what that comes to in the mean of
    so many pairs. ``disturbed``: other programs or heat slowed some of the runs, which is said
    where the result is not clear."""
    found = estimate(ratios)
    if found is None:
        more = (next_look(0) or 0) - len(ratios)
        return TrialVerdict(Outcome.INCONCLUSIVE, "not yet known", more_pairs=more)
    least = 1 + max(LEAST_GAIN, floor / math.sqrt(found.pairs))
    interval = f"({found.low:.2f} to {found.high:.2f})"
    if found.low > least:
        return TrialVerdict(Outcome.FASTER, _decided("faster", found), found)
    if found.high < 1 / least:
        turned = Estimate(1 / found.ratio, 1 / found.high, 1 / found.low, found.pairs)
        return TrialVerdict(Outcome.SLOWER, _decided("slower", turned), found)
    if found.low >= 1 / (1 + SAME) and found.high <= 1 + SAME:
        return TrialVerdict(Outcome.NO_DIFFERENCE, f"no difference {interval}", found)
    most = max(found.high, 1 / found.low) - 1
    if next_look(len(ratios)) is None and found.low <= 1 <= found.high and most <= NEARLY_SAME:
        said = f"no difference beyond {fmt.percent(most)} {interval}"
        return TrialVerdict(Outcome.NO_DIFFERENCE, said, found)
    more = (next_look(len(ratios)) or len(ratios)) - len(ratios)
    unclear = _unclear(found, interval, disturbed)
    return TrialVerdict(Outcome.INCONCLUSIVE, unclear, found, more)


def is_decided(verdict: TrialVerdict) -> bool:
    """Whether more pairs are not worth their time."""
    return verdict.outcome is not Outcome.INCONCLUSIVE


def _decided(word: str, found: Estimate) -> str:
    """``2.10x faster (2.00 to 2.20)``."""
    low, ratio, high = found.low, found.ratio, found.high
    if _is_wide(found):
        return f"at least {low:.2f}x {word}, likely {ratio:.2f}x (up to {high:.2f}x)"
    return f"{ratio:.2f}x {word} ({low:.2f} to {high:.2f})"


def _is_wide(found: Estimate | None) -> bool:
    return found is not None and found.high >= WIDE * found.low


def _unclear(found: Estimate, interval: str, disturbed: bool) -> str:
    ratio = found.ratio
    guess = f"likely {ratio:.2f}x faster" if ratio > 1 else f"likely {1 / ratio:.2f}x slower"
    if found.low <= 1 <= found.high:
        guess = f"not clear: {ratio:.2f}x"
    why = ", the runs were disturbed" if disturbed else ""
    return f"{guess} {interval}{why}"
