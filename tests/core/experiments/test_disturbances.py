"""What disturbed the runs of a trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.experiments.trial_runs import Arm, TrialRun, clock, disturbance, disturbance_notes
from perftui.facts.cpu.machine import Card, busy_host, cards
from perftui.facts.fact import Facts
from tests.facts_given import facts_with

GIB = 1 << 30


def facts(*sampled: Card, busy: str = "") -> Facts:
    return facts_with(Facts(None), {busy_host: busy, cards: sampled})


def runs(*made: tuple[Arm, str, float | None]) -> list[TrialRun]:
    return [TrialRun(arm, Path(), 1, disturbed=why, clock=at) for arm, why, at in made]


@pytest.mark.parametrize(
    ("sampled", "busy", "said"),
    [
        ((), "", ""),
        ((), "other programs used 1.0 of 2 cores", "the host was busy: other programs used 1.0"),
        ((Card("gpu1", thermal=0.3),), "", "heat throttled the clocks of GPU 1"),
        ((Card("gpu0", thermal=0.01, memory_others=GIB // 2),), "", ""),
        (
            (Card("gpu0"), Card("gpu2", memory_others=3.0 * GIB)),
            "",
            "other processes hold 3.0 GiB of GPU 2",
        ),
    ],
)
def test_a_run_is_disturbed_by_others_and_by_heat(
    sampled: tuple[Card, ...], busy: str, said: str
) -> None:
    found = disturbance(facts(*sampled, busy=busy))
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_the_clock_is_that_of_the_slowest_card() -> None:
    assert clock(facts(Card("gpu0", clock=0.9), Card("gpu1", clock=0.7), Card("gpu2"))) == 0.7
    assert clock(facts(Card("gpu0"))) is None


def test_it_is_reported_for_how_many_runs() -> None:
    made = runs((Arm.BEFORE, "", None), (Arm.AFTER, "a", None), (Arm.AFTER, "b", None))
    assert disturbance_notes(made) == ("b (in 2 of 3 runs)",)
    assert disturbance_notes(runs((Arm.BEFORE, "", None))) == ()


def test_clocks_that_differ_between_the_arms_are_reported() -> None:
    apart = runs((Arm.BEFORE, "", 0.9), (Arm.AFTER, "", 0.6), (Arm.BEFORE, "", 0.9))
    assert disturbance_notes(apart) == (
        "the GPU's clock was 90 % of its maximum before and 60 % after the change",
    )
    assert disturbance_notes(runs((Arm.BEFORE, "", 0.9), (Arm.AFTER, "", 0.89))) == ()
