"""Whether a change leaves the losses of a training as they are."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from perftui.fixes.model import Risk

ROUNDING = 1e-6
"""By so much, as a share, losses of float32 may differ where the same is added in another order."""

CLOSE = 0.02
"""By so much where a fix may round otherwise."""

EARLY = 5
EARLY_CLOSE = 1e-3
GROWN = 0.1
"""Differences of rounding grow with each step: of a deep network without a warm-up from 2e-8 at the
first loss to 7e-6 at the fifth and 0.029 at the nineteenth. Where the first ``EARLY`` losses are
within ``EARLY_CLOSE``, later ones may be apart by so much; another computation shows before."""

FEWEST = 2
"""Runs without the change from which on losses are known to repeat, or not to."""

MAY_ROUND = frozenset({Risk.NUMERICS, Risk.REPEATABLE, Risk.PRECISION, Risk.HALF})
MAY_DIFFER = frozenset({Risk.RANDOMNESS, Risk.ORDER, Risk.DROPOUT, Risk.NORMS, Risk.DRAWS})


class Agreement(str, enum.Enum):
    """How the losses of both arms compare."""

    SAME = "same"
    ROUNDED = "rounded"
    """Within what the fix may change."""
    NOT_CHECKED = "not checked"
    DIFFER = "differ"
    """By more than the fix may change, or one is no number."""


@dataclass(frozen=True)
class LossCheck:
    """The agreement of the losses, and a sentence about it."""

    agreement: Agreement
    sentence: str


def check_losses(
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
    risks: Sequence[Risk] = (),
) -> LossCheck:
    """Compare runs before a change with runs after it, each by its first losses."""
    if not before or not after or not all(before) or not all(after):
        return LossCheck(Agreement.NOT_CHECKED, "losses not checked: none were recorded")
    if any(not math.isfinite(loss) for run in after for loss in run) and all(
        math.isfinite(loss) for run in before for loss in run
    ):
        return LossCheck(Agreement.DIFFER, "a loss is not finite with the change")
    first = before[0]
    own = max((_difference(first, run)[0] for run in before[1:]), default=0.0)
    if own > CLOSE:
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
    if apart <= max(own, ROUNDING):
        return LossCheck(Agreement.SAME, f"the first {count} losses are the same")
    which = f"loss {step + 1} is {first[step]:.6g} before and {after[0][step]:.6g} after"
    if not MAY_DIFFER.isdisjoint(risks):
        return LossCheck(
            Agreement.NOT_CHECKED, f"losses not checked, since the fix may change them: {which}"
        )
    if not MAY_ROUND.isdisjoint(risks) and (apart <= CLOSE or _grows(first, after, apart)):
        return LossCheck(Agreement.ROUNDED, f"losses differ by rounding: {which}")
    return LossCheck(Agreement.DIFFER, f"losses differ: {which}")


def _grows(before: Sequence[float], after: Sequence[Sequence[float]], apart: float) -> bool:
    """Whether losses that are ``apart`` by so much began as good as the same."""
    early = max(_difference(before[:EARLY], run[:EARLY])[0] for run in after)
    return early <= EARLY_CLOSE and apart <= GROWN


def _difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, int]:
    """The largest difference of two runs' losses as a share, and which loss that is."""
    shares = [
        (abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0, at)
        for at, (a, b) in enumerate(zip(one, other, strict=False))
    ]
    return max(shares, default=(0.0, 0))
