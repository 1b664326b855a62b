"""GPU memory of the ranks side by side."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.ranks.communication import MOST_RANKS


@dataclass(frozen=True)
class MemoryOfRanks:
    """The rank whose tensors took most at any time, and the one whose took least, in bytes."""

    most: int
    most_bytes: int
    least: int
    least_bytes: int
    share: float | None
    """What PyTorch held on the fullest rank, of its GPU, 0 to 1; None where no sample shows how
    much memory that has."""

    @property
    def skew(self) -> float:
        """By which share the emptiest rank holds less than the fullest."""
        return 1 - self.least_bytes / self.most_bytes if self.most_bytes else 0.0


@fact
def memory_of_ranks(facts: Facts) -> MemoryOfRanks:
    """Peaks as PyTorch counts them.

    Raises:
        NotApplicableError: one process trains, or the ranks use no GPU.
    """
    run = facts.run
    if run is None or run.world < 2:
        raise NotApplicableError
    places = sorted({one.place for one in run.ranks})[:MOST_RANKS]
    found = {place: gpu_memory(facts.of_rank(place)) for place in places}
    known = {place: used for place, used in found.items() if used and used.peak_allocated > 0}
    if len(known) < 2:
        raise NotApplicableError
    peaks = {place: used.peak_allocated for place, used in known.items()}
    most, least = max(peaks, key=lambda p: (peaks[p], -p)), min(peaks, key=lambda p: (peaks[p], p))
    cards = machine_use(facts.of_rank(most)).memory
    held = max(known[most].peak_reserved, peaks[most])
    share = held / max(card.total for card in cards) if cards else None
    return MemoryOfRanks(most, peaks[most], least, peaks[least], share)
