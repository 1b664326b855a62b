"""What disturbed the runs of a trial, as far as it was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from perftui import format as fmt
from perftui.experiments.trial.runs import Arm, TrialRun
from perftui.facts.cpu.machine import busy_host
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import Card, cards

HOT = 0.05
"""Share of the samples in which heat has to hold clocks down to be told."""

CLOCKS_APART = 0.03
"""Share by which the clocks of both arms have to differ to be told: as much as a gain worth it."""

OTHERS = 1 << 30
"""Bytes of a card that other processes hold: a context alone takes half of that."""


def disturbance(run: Facts) -> str:
    """What disturbed one run; empty where nothing is known to."""
    if busy := busy_host(run):
        return f"the host was busy: {busy}"
    return next(filter(None, map(_of_card, cards(run))), "")


def clock(run: Facts) -> float | None:
    """Mean clock of the slowest card of a run over its highest, while it computed; None where that
    was not sampled."""
    return min((one.clock for one in cards(run) if one.clock is not None), default=None)


def disturbance_notes(runs: Sequence[TrialRun]) -> tuple[str, ...]:
    """What to know of the ``runs`` of a trial, for a person."""
    disturbed = [run.disturbed for run in runs if run.disturbed]
    found = []
    if disturbed:
        of = f"in {len(disturbed)} of {fmt.several(len(runs), 'run')}"
        found.append(f"{disturbed[-1]} ({of})")
    return (*found, *_clocks(runs))


def _of_card(card: Card) -> str:
    if card.thermal is not None and card.thermal >= HOT:
        return f"heat throttled the clocks of {card.name}"
    if card.memory_others is not None and card.memory_others >= OTHERS:
        return f"other processes hold {fmt.size(card.memory_others)} of {card.name}"
    return ""


def _clocks(runs: Sequence[TrialRun]) -> tuple[str, ...]:
    """Where both arms did not run at the same clock."""
    before, after = (
        [run.clock for run in runs if run.arm is arm and run.clock is not None] for arm in Arm
    )
    if not before or not after:
        return ()
    old, new = median(before), median(after)
    if abs(new / old - 1) < CLOCKS_APART:
        return ()
    told_clocks = f"{fmt.percent(old)} of its maximum before and {fmt.percent(new)} after"
    return (f"the GPU's clock was {told_clocks} the change",)
