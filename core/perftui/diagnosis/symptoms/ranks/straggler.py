"""A training of several processes: one holds up the others, or all wait for their data."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps import EXPOSED_COMMUNICATION, OTHER
from perftui.diagnosis.judge import cost_of
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.diagnosis.symptoms.ranks.buckets import SINGLE_BUCKET
from perftui.diagnosis.symptoms.ranks.collectives import MANY_SMALL, SYNC_BATCH_NORM
from perftui.diagnosis.symptoms.ranks.late_rank import collective_figures, late_rank
from perftui.diagnosis.symptoms.ranks.network import SLOW_NETWORK
from perftui.diagnosis.symptoms.ranks.uneven import CHANGING
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.ranks.backward_passes import backward_passes
from perftui.facts.ranks.communication import collective_time, collectives_a_step
from perftui.facts.ranks.slow_rank import SlowRank, slow_line, slow_rank
from perftui.facts.ranks.traced_ranks import traced_ranks
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import phase_name

MANY = 10
"""Collectives of a step from which on their number is reported."""

SPECIFIC = (SYNC_BATCH_NORM, MANY_SMALL, SINGLE_BUCKET, SLOW_NETWORK, CHANGING)
"""Rules about a part of the exposed communication each, which the general one leaves to them."""

OVERLAP_LOW = 0.3
"""Share of communication that computing hides, below which it is reported; nsys-ai."""


def _straggling(facts: Facts) -> Lost | None:
    slow = slow_rank(facts)
    if slow is None:
        return None
    if facts.run is None:
        return late_rank(facts, slow, STRAGGLER.limits)
    judged = judged_step(facts)
    step, cost = judged.of, min(slow.lag, judged.of.mean)
    waits = judged.part(EXPOSED_COMMUNICATION)
    if waits and not _is_shown(facts, slow):
        # Whoever is shown waits for nobody longer than it waits; a profiled step is longer.
        cost = min(cost, waits)
    line = slow_line(facts)
    place = Place(slow.rank)
    if line is not None:
        place = Place(slow.rank, file=line.file, line=line.line)
    behind = Figure.share(
        "behind the other ranks", cost / step.mean, STRAGGLER.limits.warning, place
    )
    return Lost(
        cost,
        step,
        f"Rank {slow.rank} holds up the others for "
        f"{fmt.part_of_step(cost, step.mean)}{_most_of_it(slow, line)}.",
        (behind, *collective_figures(slow), *_steps(step)),
        place=place,
        parts=(EXPOSED_COMMUNICATION, "backward", slow.part),
    )


def _most_of_it(slow: SlowRank, line: LineShare | None) -> str:
    if not slow.part:
        return ""
    at = f" ({line.short} in {line.function})" if line else ""
    part = "its own code outside the model" if slow.part == OTHER else phase_name(slow.part)
    return f", {fmt.duration(slow.part_lag)} of it in {part}{at}"


def _steps(step: StepBreakdown) -> tuple[Figure, Figure]:
    return Figure("mean step", step.mean, "ns"), Figure("steady steps", step.count, "count")


def _exposed(facts: Facts) -> Lost | None:
    judged = judged_step(facts)
    exposed = judged.part(EXPOSED_COMMUNICATION)
    passes = backward_passes.or_none(facts)
    if passes is not None and passes.reducing > 1:
        # What all but one of them take is a finding of its own: it need not be.
        exposed = round(exposed / passes.reducing)
    exposed -= sum(cost_of(rule, facts) for rule in SPECIFIC)
    if exposed <= 0:
        return None
    slow = slow_rank.or_none(facts)
    waited = slow.lag if slow and not _is_shown(facts, slow) else 0
    if waited and 2 * waited >= exposed:
        # Whoever comes early waits in the collective: the finding is about who comes late.
        return None
    beside = ""
    if slow and facts.run is None and waited:
        exposed, beside = exposed - waited, f" besides the wait for rank {slow.rank}"
    step, hidden = judged.of, _hidden(facts)
    describe = fmt.part_of_step if step.of_run or step.count else fmt.part_of_trace
    who = "The GPU" if judged.on_device else "The training"
    figures = [Figure.share("exposed communication", exposed / step.mean, EXPOSED.limits.warning)]
    low = ""
    if hidden is not None:
        figures.append(Figure.share("hidden behind computation", hidden))
        if hidden < OVERLAP_LOW:
            low = f"; only {fmt.percent(hidden)} of it is hidden behind computation"
    return Lost(
        exposed,
        step,
        f"{who} spends {describe(exposed, step.mean)} in {_collectives(facts)}{beside}, with no "
        f"computation to hide them{low}.",
        (*figures, *_steps(step)),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


def _collectives(facts: Facts) -> str:
    """In words, with their number where there are many."""
    count = collectives_a_step.or_none(facts) or 0
    return f"{count:.0f} collectives of each step" if count >= MANY else "collectives"


def _is_shown(facts: Facts, slow: SlowRank) -> bool:
    """Whether the late rank is that of the trace: what it spends in collectives is its own."""
    traced = traced_ranks.or_none(facts)
    return traced is not None and traced.shown == slow.rank


def _hidden(facts: Facts) -> float | None:
    """Share of the communication of the trace's steps that computing hides; None where nothing
    shows it."""
    trace = trace_steps.or_none(facts)
    if trace is None or not trace.has_gpu or not trace.steps:
        return None
    whole = collective_time.or_none(facts)
    return 1 - trace.part(EXPOSED_COMMUNICATION) / whole if whole else None


STRAGGLER = Rule(
    id="straggler",
    when="one rank arrives late at collectives, and the others wait for it",
    explanation=(
        "Ranks synchronize in collectives such as the all-reduce of gradients: no rank leaves "
        "before the last one arrives. The rank that spends the least time in them arrives last, "
        "so all ranks wait for its own work before that. Look at that rank, at the part of its "
        "step that is longer than on the others, and at the line. For traces, open the directory "
        "with all ranks: their collectives are matched, and the cost is how long each rank makes "
        "the others wait."
    ),
    lost=_straggling,
    limits=Limits(
        0.10,
        0.20,
        "TraceML warns from 10 % of the step, critical from 20 %.",
        info=0.05,
    ),
    answer="find what that rank does longer: its data, its host, its GPU",
)

EXPOSED = Rule(
    id="communication-exposed",
    when="communication between ranks is not hidden behind computation",
    explanation=(
        "Time in collectives that no computation hides. Larger or fewer buckets, "
        "gradient_as_bucket_view, no_sync() with gradient accumulation, sending in lower "
        "precision, or a faster link shorten it; overlap hides it."
    ),
    lost=_exposed,
    limits=Limits(
        0.10,
        0.30,
        "The TensorBoard plugin warns from 10 %; xprof calls 30 % critical.",
        info=0.05,
    ),
    claims=Claim(phase=EXPOSED_COMMUNICATION),
    answer="overlap, larger buckets, no_sync() with accumulation, compression",
)
