"""Ranks that wait for one another: for one, for a different one each time, or for the link."""

from __future__ import annotations

from functools import reduce

import numpy as np

from perftui import format as fmt
from perftui.analysis.steps import EXPOSED_COMMUNICATION, OTHER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, cost_of, rule, severity, without_cost
from perftui.diagnosis.symptoms.ranks.collectives import (
    many_small_reductions,
    single_bucket,
    slow_network,
    sync_batch_norm,
)
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.gpu.cards import gpu_memory
from perftui.facts.place import Place
from perftui.facts.ranks.collectives import (
    MOST_RANKS,
    backward_passes,
    collective_time,
    collectives_a_step,
)
from perftui.facts.ranks.rank_table import WAITS_IN, SlowRank, some_ranks
from perftui.facts.ranks.straggler import slow_line, slow_rank, straggler_place
from perftui.facts.ranks.traced_ranks import traced_ranks, waits_of_ranks
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import steady_rows, steady_step
from perftui.facts.step.trace_steps import subject, trace_steps, trains
from perftui.run.columns import PHASES, phase_name

_SHOWN_RANKS = 8
"""Most ranks listed with their time in collectives."""


def late_rank(facts: Facts, slow: SlowRank, limits: Limits) -> Lost:
    """The open rank's waits for ``slow``; for ``slow`` itself, those of each other rank."""
    step, traced, place = judged_step(facts).of, traced_ranks(facts), straggler_place(facts)
    cost, waits = min(slow.lag, step.mean), waits_of_ranks(facts)
    own = slow.rank == traced.shown
    whom = "each of the others" if own else f"rank {traced.shown}"
    return Lost(
        cost,
        step,
        f"Rank {slow.rank} arrives late at collectives and makes {whom} wait "
        f"{step.part_of(cost)}{_longest_part(slow, place)}.",
        (
            Figure.share("waiting for that rank", cost / step.mean, limits.warning, place),
            Figure(f"waits for rank {slow.rank}, all ranks", waits.caused(slow.rank), "ns"),
            Figure("waits for any rank, all ranks", sum(map(waits.waited, waits.compared)), "ns"),
            *collective_figures(slow),
        ),
        place=place,
        parts=(slow.part,) if own else (EXPOSED_COMMUNICATION,),
        unproven=f"the trace of rank {some_ranks(traced.missing)}" if traced.missing else "",
    )


def _longest_part(slow: SlowRank, place: Place) -> str:
    if not slow.part:
        return "; no single part of its own step explains even half of that"
    where = place.short or place.operator
    at = f" ({where})" if where else ""
    return f": there {phase_name(slow.part)} takes {fmt.duration(slow.part_lag)} longer{at}"


def collective_figures(slow: SlowRank) -> list[Figure]:
    """The time in collectives of the first ranks."""
    shown = list(slow.collectives.items())[:_SHOWN_RANKS]
    return [
        Figure(f"rank {rank}, in collectives", time, "ns", place=Place(rank=rank))
        for rank, time in shown
    ]


@rule(
    when="one rank arrives late at collectives, and the others wait for it",
    limits=Limits("As in TraceML.", 0.10, 0.20, info=0.05),
    answer="find what that rank does longer than the others: its data, its host or its GPU",
)
def straggler(facts: Facts) -> Lost | None:
    """No rank leaves a collective before the last one arrives: the rank that spends the least time
    in collectives holds up the others. The cost is how long they wait. The finding names the
    longest part of that rank's step, and the line."""
    slow = slow_rank(facts)
    if slow is None:
        return None
    if facts.run is None:
        return late_rank(facts, slow, straggler.limits)
    judged = judged_step(facts)
    step, cost = judged.of, min(slow.lag, judged.of.mean)
    waits = judged.part(EXPOSED_COMMUNICATION)
    if waits and not _is_shown(facts, slow):
        # The shown rank's wait for another is part of its waits; a profiled step is longer.
        cost = min(cost, waits)
    line = slow_line(facts)
    place = Place(slow.rank, file=line.file, line=line.line) if line else Place(slow.rank)
    limit = straggler.limits.warning
    return Lost(
        cost,
        step,
        f"Rank {slow.rank} holds up the others for {step.part_of(cost)}{_most_of_it(slow, line)}.",
        (
            Figure.share("behind the other ranks", cost / step.mean, limit, place),
            *collective_figures(slow),
        ),
        place=place,
        parts=(EXPOSED_COMMUNICATION, "backward", slow.part),
    )


def _most_of_it(slow: SlowRank, line: LineShare | None) -> str:
    if not slow.part:
        return ""
    at = f" ({line.short} in {line.function})" if line else ""
    part = "its own code outside the model" if slow.part == OTHER else phase_name(slow.part)
    return f", {fmt.duration(slow.part_lag)} of it in {part}{at}"


def _is_shown(facts: Facts, slow: SlowRank) -> bool:
    """Whether the late rank is the trace's: its time in collectives is no wait for itself."""
    traced = traced_ranks.or_none(facts)
    return traced is not None and traced.shown == slow.rank


ALWAYS = 0.6
"""Share of steps in which one rank is last from which it is the straggler; gpuprof."""

FULL = 0.8
"""Share of its GPU's memory from which the fullest rank is short of it; TraceML."""


@rule(
    when="one rank holds much more GPU memory than another, and is nearly full",
    limits=Limits.of_hint(0.20, "As in TraceML.", of="of the fullest rank's memory"),
    answer=(
        "pass map_location to torch.load, gather results on the CPU, and give ranks equal stages "
        "and batches"
    ),
)
def uneven_memory(facts: Facts) -> Lost | None:
    """The fullest rank limits the batch size of all. It may hold more of the model, longer samples,
    or tensors that all ranks load to the first GPU."""
    # The ranks with the largest and the smallest peak of memory, as counted by PyTorch.
    run = facts.run
    if run is None or run.world < 2:
        raise NotApplicableError
    places = sorted({rank.place for rank in run.ranks})[:MOST_RANKS]
    by_rank = {place: gpu_memory(facts.of_rank(place)) for place in places}
    with_peak = {place: used for place, used in by_rank.items() if used and used.peak_allocated > 0}
    if len(with_peak) < 2:
        raise NotApplicableError
    peaks = {place: used.peak_allocated for place, used in with_peak.items()}
    most, least = max(peaks, key=lambda p: (peaks[p], -p)), min(peaks, key=lambda p: (peaks[p], p))
    skew = 1 - peaks[least] / peaks[most]
    if severity(skew, uneven_memory.limits) is None:
        return None
    cards = machine_use(facts.of_rank(most)).memory
    if not cards:
        raise UnknownError("GPU memory was not sampled")
    share = max(with_peak[most].peak_reserved, peaks[most]) / max(card.total for card in cards)
    if share < FULL:
        return None
    return without_cost(
        f"Rank {most} holds up to {fmt.size(peaks[most])} of GPU memory, rank {least} "
        f"{fmt.size(peaks[least])}: the fullest ({fmt.percent(share)} of its GPU) limits the batch "
        "size of all.",
        (
            Figure.share("less on the emptiest", skew, uneven_memory.limits.info),
            Figure.share("of its GPU on the fullest", share, FULL, Place(rank=most)),
            Figure(f"rank {most}, peak", peaks[most], "B", place=Place(rank=most)),
            Figure(f"rank {least}, peak", peaks[least], "B", place=Place(rank=least)),
        ),
        place=Place(rank=most),
        share=skew,
    )


FEWEST_STEPS = 20
"""Fewest common steps of all ranks to report how often each rank comes last."""

OWN_PARTS = tuple(phase for phase in PHASES if phase != WAITS_IN)
"""Phases in which a rank does not wait for others."""


@rule(
    when="ranks wait for each other, for a different one each time",
    limits=Limits("As for a straggler.", 0.10, 0.20, info=0.05),
    answer=(
        "raise prefetch_factor, call gc.freeze() after start-up, or give all ranks batches of the "
        "same size"
    ),
)
@fact
def uneven_ranks(facts: Facts) -> Lost | None:
    """Each step takes as long as its slowest rank, a different one each time: a loader is late,
    Python collects garbage, or batches differ in size. The cost is what a step would save if every
    rank took its mean time."""
    # Ranks that come last in turn, in the steady steps that all ranks still keep.
    run = facts.run
    places = sorted({rank.place for rank in run.ranks})[:MOST_RANKS] if run else []
    if run is None or run.world < 2 or len(places) < 2:
        raise NotApplicableError
    tables = [steady_rows(facts.of_rank(place)) for place in places]
    if not all(len(table) for table in tables):
        raise UnknownError("not all ranks have steady steps")
    common = reduce(np.intersect1d, (table["index"] for table in tables))
    if len(common) < FEWEST_STEPS:
        raise UnknownError(f"{len(common)} of {FEWEST_STEPS} steps of all ranks so far")
    # Steps in rows, ranks in columns.
    picked = [table.where(np.isin(table["index"], common)) for table in tables]
    durations = np.stack([table["duration"] for table in picked], axis=1)
    parts = {part: np.stack([table[part] for table in picked], axis=1) for part in OWN_PARTS}
    own = sum(parts.values(), np.zeros_like(durations))
    # What a step would save if each rank took its mean every time.
    lost = max(round(float(own.max(axis=1).mean() - own.mean(axis=0).max())), 0)
    last, step = own.argmax(axis=1), steady_step(facts)
    counts = np.bincount(last, minlength=len(places))
    often, often_share = places[int(counts.argmax())], float(counts.max()) / len(common)
    # Ranks that wait for each other end a step together.
    apart = int(np.median(durations.max(axis=1) - durations.min(axis=1)))
    if often_share >= ALWAYS or 2 * apart > lost:
        return None
    at = np.arange(len(common))
    lags = {
        part: float((times[at, last] - np.median(times, axis=1)).mean())
        for part, times in parts.items()
    }
    part, cost = max(lags, key=lambda name: lags[name]), min(lost, step.mean)
    where = "their own code outside the model" if part == OTHER else phase_name(part)
    return Lost(
        cost,
        step,
        f"The ranks wait for each other {step.part_of(cost)}, for a different one "
        f"each time: none is last in more than {fmt.percent(often_share)} of the steps. The "
        f"last rank spends longer in {where}.",
        (
            Figure.share(f"last most often, rank {often}", often_share, ALWAYS),
            Figure(f"{phase_name(part)}, longer on the last", max(round(lags[part]), 0), "ns"),
            Figure("mean step", step.mean, "ns"),
            Figure("steps of all ranks", len(common), "count"),
        ),
        label="waiting for each other",
        place=place_in_part(facts, part),
        parts=(EXPOSED_COMMUNICATION, WAITS_IN),
    )


MANY = 10
"""Collectives per step from which their number is reported."""

SPECIFIC = (sync_batch_norm, many_small_reductions, single_bucket, slow_network, uneven_ranks)
"""Rules about parts of the exposed communication, which the general rule excludes."""

OVERLAP_LOW = 0.3
"""Hidden share of communication below which it is reported; nsys-ai."""


@rule(
    when="communication between ranks is not hidden behind computation",
    limits=Limits("As in the TensorBoard plugin and xprof.", 0.10, 0.30, info=0.05),
    claims=Claim(phase=EXPOSED_COMMUNICATION),
    answer=(
        "overlap collectives with computation, or shorten them: larger buckets, no_sync(), "
        "compression"
    ),
)
def communication_exposed(facts: Facts) -> Lost | None:
    """The cost is the time in collectives during which nothing is computed."""
    judged = judged_step(facts)
    exposed = judged.part(EXPOSED_COMMUNICATION)
    _, reducing = backward_passes.or_none(facts) or (0.0, 0.0)
    if reducing > 1:
        # All but one of the passes have their own finding: they are avoidable.
        exposed = round(exposed / reducing)
    exposed -= sum(cost_of(rule, facts) for rule in SPECIFIC)
    if exposed <= 0:
        return None
    slow = slow_rank.or_none(facts)
    waited = slow.lag if slow and not _is_shown(facts, slow) else 0
    if waited and 2 * waited >= exposed:
        # Early ranks wait in the collective: the finding is about the late one.
        return None
    beside = ""
    if slow and facts.run is None and waited:
        exposed, beside = exposed - waited, f" besides the wait for rank {slow.rank}"
    step, hidden = judged.of, _hidden(facts)
    count = collectives_a_step.or_none(facts) or 0
    collectives = f"{count:.0f} collectives of each step" if count >= MANY else "collectives"
    who = "The GPU" if judged.on_device else subject(facts)
    low = ""
    if hidden is not None and hidden < OVERLAP_LOW:
        low = f"; only {fmt.percent(hidden)} of it is hidden behind computation"
    return Lost(
        exposed,
        step,
        f"{who} spends {step.part_of(exposed)} in {collectives}{beside}, with no "
        f"computation to hide them{low}.",
        () if hidden is None else (Figure.share("hidden behind computation", hidden),),
        label="exposed communication",
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
        advice=""
        if facts.analysis is None or facts.run or trains(facts)
        else "overlap collectives with computation, or send fewer and larger messages",
    )


def _hidden(facts: Facts) -> float | None:
    """Share of communication in the trace's steps that is hidden by computation; None if nothing
    shows it."""
    trace = trace_steps.or_none(facts)
    if trace is None or not trace.has_gpu or not trace.steps:
        return None
    whole = collective_time.or_none(facts)
    return 1 - trace.part(EXPOSED_COMMUNICATION) / whole if whole else None
