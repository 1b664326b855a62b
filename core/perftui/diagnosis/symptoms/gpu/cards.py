"""The card cannot do what it could: heat, power, other users, or a slow link."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import Card, cards
from perftui.facts.gpu.gpu import has_gpu
from perftui.facts.gpu.gpu_processes import gpu_processes
from perftui.facts.step.judged_step import judged_step

HELD_DOWN = 0.10
"""Share of the samples with a limit in force from which on it is the usual state."""

FULL_CLOCK = 0.90
"""Share of the highest clock below which a limit costs time worth a word."""

MOST_NAMED = 3
"""Other processes that are named."""

DRIVER = 1 << 30
"""Bytes that the driver itself may hold of a card."""


def _cards(facts: Facts) -> tuple[Card, ...]:
    return cards(facts) if has_gpu(facts) else ()


def _held_down(facts: Facts) -> Lost | None:
    """The power cap is the usual state of a card that computes much: its cost is reported, and no
    more. Heat is a fault."""
    known = [one for one in _cards(facts) if one.thermal is not None and one.clock is not None]
    worst = max(known, key=lambda one: (one.thermal or 0, one.power or 0), default=None)
    if worst is None or worst.clock is None or worst.clock >= FULL_CLOCK:
        return None
    thermal, power = worst.thermal or 0.0, worst.power or 0.0
    if max(thermal, power) < HELD_DOWN:
        return None
    judged = judged_step.or_none(facts)
    is_hot = thermal >= HELD_DOWN
    slower = thermal * (1 - worst.clock) if is_hot else 0.0
    computing = judged.part(COMPUTE) if judged and judged.on_device else 0
    why, often = ("Heat", thermal) if is_hot else ("Its power limit", power)
    return Lost(
        round(computing * slower),
        judged.of if judged and computing and is_hot else None,
        f"{why} limits the clock of {worst.name} in {fmt.percent(often)} of the samples, to "
        f"{fmt.percent(worst.clock)} of its maximum on average.",
        (
            Figure.share("limited by heat", thermal, HELD_DOWN),
            Figure.share("limited by power", power),
            Figure.share("clock, of the maximum", worst.clock, FULL_CLOCK),
            *((Figure("hottest", worst.temperature, "°C"),) if worst.temperature else ()),
        ),
        parts=(COMPUTE,),
    )


def _shared(facts: Facts) -> Lost | None:
    """Others cost time only where they compute: the card is busy then, though the training's own
    trace shows it idle."""
    judged = judged_step.or_none(facts)
    for card in _cards(facts):
        if not card.memory_others or not card.memory_total:
            continue
        held = (card.memory_others - DRIVER) / card.memory_total
        if held < SHARED_MEMORY:
            continue
        own = None
        if judged and judged.on_device:
            # A kernel that waits for other ranks keeps the card busy too.
            own = (judged.computing + judged.part(EXPOSED_COMMUNICATION)) / judged.of.mean
        beside = card.busy - own if card.busy is not None and own is not None else 0.0
        busy = f" and keep it busy {fmt.percent(beside)} of the time besides this training"
        processes = gpu_processes(facts).get(card.prefix, ())[:MOST_NAMED]
        largest = f"; the largest is {processes[0].label}" if processes else ""
        return Lost(
            0,
            None,
            f"Other processes hold {fmt.size(card.memory_others)} of {card.name} "
            f"({fmt.percent(held)} of its memory){busy if beside >= SHARED_USE else ''}{largest}.",
            (
                Figure.share("memory of other processes", held, SHARED_MEMORY),
                *(Figure(one.label, one.memory, "B") for one in processes if one.memory),
                *(
                    (Figure.share("busy with other work", beside, SHARED_USE),)
                    if beside > 0
                    else ()
                ),
            ),
            share=max(beside, 0.0),
            worst=Severity.WARNING,
        )
    return None


def _slow_link(facts: Facts) -> Lost | None:
    for card in _cards(facts):
        pairs = ((card.generation, card.most_generation), (card.width, card.most_width))
        if any(now is None or not most for now, most in pairs):
            continue
        speed = 1.0
        for (now, most), power in zip(pairs, (True, False), strict=True):
            # Each version of PCIe doubles the rate of a lane.
            speed *= 2 ** ((now or 0) - (most or 0)) if power else (now or 0) / (most or 1)
        if speed >= 1:
            continue
        judged = judged_step.or_none(facts)
        copying = judged.part(EXPOSED_COPIES) if judged else 0
        return Lost(
            round(copying * (1 - speed)),
            judged.of if judged and copying else None,
            f"The PCIe link of {card.name} runs at {fmt.percent(speed)} of what the card supports: "
            f"generation {card.generation:.0f} of {card.most_generation:.0f}, {card.width:.0f} of "
            f"{card.most_width:.0f} lanes.",
            (Figure.share("of the link's speed", speed),),
            parts=(EXPOSED_COPIES,),
        )
    return None


SHARED_MEMORY = 0.10
SHARED_USE = 0.20

HELD = Rule(
    id="thermal-or-power-cap",
    when="heat or the power limit throttles the GPU's clock",
    explanation=(
        "The card lowers its clock to stay below a limit. Heat points to the cooling: airflow, "
        "dust, a neighbouring card. Reaching the power limit is normal for a busy card; "
        "nvidia-smi -q -d POWER shows whether the limit was lowered."
    ),
    lost=_held_down,
    limits=Limits(0.05, 0.20, "A clock a tenth below the maximum shows in step times.", info=0.0),
    answer="cooling; the power limit",
)

SHARED = Rule(
    id="shared-gpu",
    when="other processes use the GPU",
    explanation=(
        "Another process holds memory on the card, and may take turns computing on it with this "
        "training. nvidia-smi lists it. Often it is an earlier run that never exited."
    ),
    lost=_shared,
    limits=Limits(
        SHARED_USE,
        0.5,
        "A fifth of the card is beyond the sampling error; memory alone costs no time.",
        of="of the GPU's time",
        info=0.0,
    ),
    answer="stop them, or use another card",
)

LINK = Rule(
    id="pcie-degraded",
    when="the PCIe link is slower than the card supports",
    explanation=(
        "The link runs with fewer lanes, or at an older generation, than the card supports, so "
        "copies take longer. The slot, a riser or the firmware may be the cause. It matters only "
        "for exposed copies."
    ),
    lost=_slow_link,
    limits=Limits(0.05, 0.20, "TraceLens reports exposed time from 5 %.", info=0.0),
    answer="another slot; firmware settings",
)
