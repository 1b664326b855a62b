"""``memory-pressure``: a device's memory is nearly used up."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Confidence, Fact, Finding
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.severity import severity
from perftui.facts.machine import DeviceMemory
from perftui.facts.place import Place

RULE = "memory-pressure"


def evaluate(evidence: Evidence, policy: Policy) -> Finding | Abstention | None:
    """Find a device whose peak memory is ``policy.memory_warning`` of what it has.

    It costs no time by itself, so its cost is 0: what is at stake is the run.
    """
    if evidence.has_gpu is False:
        return None
    if not evidence.machine.memory:
        return Abstention(RULE, _unknown(evidence.machine.cards))
    fullest = max(evidence.machine.memory, key=lambda memory: memory.share)
    found = severity(fullest.share, policy.memory_warning, policy.memory_critical)
    if found is None:
        return None
    return Finding(
        RULE,
        found,
        f"GPU {fullest.device} has used {fmt.size(fullest.peak)} of its "
        f"{fmt.size(fullest.total)} ({fmt.percent(fullest.share)}): "
        "a larger batch or a longer sample may not fit.",
        _facts(fullest, evidence, policy),
        confidence=Confidence.HIGH,
    )


def _unknown(cards: int) -> str:
    if not cards:
        return "GPU memory was not sampled"
    return f"which of {fmt.several(cards, 'GPU')} the training uses is not known"


def _facts(memory: DeviceMemory, evidence: Evidence, policy: Policy) -> tuple[Fact, ...]:
    share = round(100 * memory.share, 1)
    place = Place(rank=evidence.rank)
    found = [
        Fact("peak memory in use", share, "%", 100 * policy.memory_warning, place),
        Fact("peak", memory.peak, "B", place=place),
        Fact("total", memory.total, "B", place=place),
    ]
    if evidence.peak_reserved is not None:
        found.append(Fact("reserved by PyTorch", evidence.peak_reserved, "B", place=place))
    return tuple(found)
