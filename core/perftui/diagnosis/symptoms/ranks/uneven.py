"""Ranks that differ: a different one is late each time, or one holds more memory."""

from __future__ import annotations

from dataclasses import dataclass

from perftui import format as fmt
from perftui.analysis.steps import EXPOSED_COMMUNICATION, OTHER
from perftui.diagnosis.judge import severity
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.place import Place
from perftui.facts.ranks.communication import MOST_RANKS
from perftui.facts.ranks.late_ranks import late_ranks
from perftui.facts.ranks.rank_table import WAITS_IN
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.steps import steady_step
from perftui.run.columns import phase_name


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


ALWAYS = 0.6
"""Share of the steps in which one rank is last, from which on it is that rank; gpuprof."""

FULL = 0.8
"""Share of its GPU's memory from which on the fullest rank is short of it; TraceML."""


def _changing(facts: Facts) -> Lost | None:
    late, step = late_ranks(facts), steady_step(facts)
    if late.often_share >= ALWAYS or 2 * late.apart > late.lost:
        return None
    cost = min(late.lost, step.mean)
    part = "their own code outside the model" if late.part == OTHER else phase_name(late.part)
    return Lost(
        cost,
        step,
        f"The ranks wait for each other {fmt.part_of_step(cost, step.mean)}, for a different one "
        f"each time: none is last in more than {fmt.percent(late.often_share)} of the steps. The "
        f"last rank spends longer in {part}.",
        (
            Figure.share("waiting for each other", cost / step.mean, CHANGING.limits.warning),
            Figure.share(f"last most often, rank {late.often}", late.often_share, ALWAYS),
            Figure(f"{phase_name(late.part)}, longer on the last", late.part_lag, "ns"),
            Figure("mean step", step.mean, "ns"),
            Figure("steps of all ranks", late.steps, "count"),
        ),
        place=place_in_part(facts, late.part),
        parts=(EXPOSED_COMMUNICATION, WAITS_IN),
    )


def _memory(facts: Facts) -> Lost | None:
    held = memory_of_ranks(facts)
    if severity(held.skew, UNEVEN_MEMORY.limits) is None:
        return None
    if held.share is None:
        raise UnknownError("GPU memory was not sampled")
    if held.share < FULL:
        return None
    return Lost(
        0,
        None,
        f"Rank {held.most} holds up to {fmt.size(held.most_bytes)} of GPU memory, rank "
        f"{held.least} {fmt.size(held.least_bytes)}: the fullest ({fmt.percent(held.share)} of its "
        "GPU) limits the batch size of all.",
        (
            Figure.share("less on the emptiest", held.skew, UNEVEN_MEMORY.limits.info),
            Figure.share("of its GPU on the fullest", held.share, FULL, Place(rank=held.most)),
            Figure(f"rank {held.most}, peak", held.most_bytes, "B", place=Place(rank=held.most)),
            Figure(f"rank {held.least}, peak", held.least_bytes, "B", place=Place(rank=held.least)),
        ),
        place=Place(rank=held.most),
        share=held.skew,
    )


CHANGING = Rule(
    id="uneven-ranks",
    when="ranks wait for each other, for a different one each time",
    explanation=(
        "Every step takes as long as its slowest rank. If that is a different one each time, no "
        "card or host is at fault, but a loader that sometimes has no batch ready, Python's "
        "garbage collector, or batches of different sizes. Longer queues and gc.freeze() help "
        "with the first two; sorting samples by length, so that all ranks get equal work, helps "
        "with the last. The cost is how much shorter a step would be if every rank always took "
        "its mean time."
    ),
    lost=_changing,
    limits=Limits(
        0.10,
        0.20,
        "The same as for a straggler: TraceML warns from 10 % of the step, critical from 20 %.",
        info=0.05,
    ),
    answer="prefetch_factor, gc.freeze(), batches of the same size on all ranks",
)

UNEVEN_MEMORY = Rule(
    id="uneven-memory",
    when="one rank holds much more GPU memory than another, and is nearly full",
    explanation=(
        "The fullest rank limits the batch size of all ranks. A rank that holds more has more of "
        "the model, longer samples, or something extra: tensors that all ranks load to the first "
        "GPU (map_location), results gathered on one rank, or a larger pipeline stage."
    ),
    lost=_memory,
    limits=Limits.of_hint(
        0.20,
        "TraceML reports a fifth less memory if the fullest is at 80 %. The cost is not measured.",
        of="of the fullest rank's memory",
    ),
    answer="map_location, gathering on the CPU, equal stages, batches of the same size",
)
