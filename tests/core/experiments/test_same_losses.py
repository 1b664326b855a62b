"""Whether the losses of a trial's runs are the same."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import pytest

from perftui.experiments.verdict import Agreement, check_losses
from perftui.fixes.model import Risk

LOSSES = (2.0, 1.5, 1.25)


def apart(*shares: float) -> tuple[float, ...]:
    """Losses so far from 2."""
    return tuple(2.0 * (1 + share) for share in shares)


LEVEL = apart(*[0.0] * 7)


def off(share: float) -> tuple[float, ...]:
    return (*LOSSES[:2], LOSSES[2] * (1 + share))


@pytest.mark.parametrize(
    ("before", "after", "risks", "agreement", "sentence"),
    [
        ([LOSSES] * 2, [LOSSES] * 2, (), "same", "the first 3 losses are the same"),
        ([LOSSES], [off(5e-7)], (), "same", "the first 3 losses are the same"),
        (
            [LOSSES] * 2,
            [off(0.01)],
            (),
            "differ",
            "losses differ: loss 3 is 1.25 before and 1.2625 after",
        ),
        (
            [LOSSES] * 2,
            [off(0.01)],
            [Risk.NUMERICS],
            "rounded",
            "losses differ by rounding: loss 3 is 1.25 before and 1.2625 after",
        ),
        ([LOSSES] * 2, [off(0.1)], [Risk.NUMERICS], "differ", "losses differ: "),
        # Rounding grows with each step; what another computation changes shows at once.
        (
            [LEVEL] * 2,
            [apart(0, 1e-6, 1e-5, 1e-4, 5e-4, 0.02, 0.08)],
            [Risk.NUMERICS],
            "rounded",
            "losses differ by rounding: loss 7 is 2 before and 2.16 after",
        ),
        ([LEVEL] * 2, [apart(0, 0.01, 0, 0, 0, 0, 0.08)], [Risk.NUMERICS], "differ", "losses"),
        ([LEVEL] * 2, [apart(0, 0, 0, 0, 0, 0.02, 0.2)], [Risk.NUMERICS], "differ", "losses"),
        ([LEVEL] * 2, [apart(0, 1e-6, 1e-5, 1e-4, 5e-4, 0.01, 0.08)], (), "differ", "losses"),
        (
            [LOSSES] * 2,
            [off(0.1)],
            [Risk.RANDOMNESS],
            "not checked",
            "losses not checked, since the fix may",
        ),
        ([LOSSES, off(0.1)], [off(0.1)], (), "not checked", "losses not checked: they also differ"),
        # As far apart as two runs of the same are.
        ([LOSSES, off(0.01)], [off(0.01)], (), "same", "the first 3"),
        ([LOSSES], [(2.0, nan, nan)], [Risk.RANDOMNESS], "differ", "a loss is not finite"),
        ([LOSSES], [(2.0, inf, 1.0)], (), "differ", "a loss is not finite"),
        ([(0.0, 0.0)], [(0.0, 0.0)], (), "same", "the first 2"),
        ([LOSSES], [off(0.1)], (), "not checked", "losses not checked: one run does not"),
        ([()], [LOSSES], (), "not checked", "losses not checked: none were recorded"),
        ([], [], (), "not checked", "losses not checked: none were recorded"),
        ([LOSSES], [LOSSES[:2]], (), "same", "the first 2 losses"),
    ],
)
def test_what_is_said_of_losses(
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
    risks: Sequence[Risk],
    agreement: str,
    sentence: str,
) -> None:
    said = check_losses(before, after, risks)
    assert said.agreement is Agreement(agreement)
    assert said.sentence.startswith(sentence)
