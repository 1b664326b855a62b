"""``growing-steps``, ``kept-graph``, ``memory-growth``: something is kept from step to step."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.diagnosis.symptoms.operators.slow_values import subnormal_over_time
from perftui.facts.cpu.machine import busy_host, core_wait, has_gpu
from perftui.facts.fact import Facts, UnknownError, finite, notes_of, samples
from perftui.facts.script.looks import piling
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_calls import line_that_keeps_graph, matching_line
from perftui.facts.step.judged_step import host_parts
from perftui.facts.step.steps import MANY_STEPS, steady_rows, steady_step
from perftui.facts.step.uneven_steps import (
    BLOCKS,
    MONOTONE,
    GrowingSteps,
    Trend,
    growing_steps,
    rss_trend,
    trend,
)
from perftui.run.columns import PHASES, phase_name

FEWEST_STEPS = 30
"""Fewest steps: with so many, 1 in 100 rises as often as ``RISING`` by chance."""

RISING = 0.65
"""Share of steps longer than the one before: half are if nothing is kept, two in three if every
third starts over."""

GROWS = 1.5
"""Ratio of the tenth longest backward passes to the tenth shortest."""

_RETAINS = r"retain_graph\s*=\s*(?!False)"


def _ends(times: npt.NDArray[np.int64]) -> tuple[int, int]:
    """The first and the last decile of ``times``."""
    order, tenth = np.sort(times), len(times) // 10
    return int(order[tenth]), int(order[-1 - tenth])


LEAST_RSS = 64 << 20
"""Least growth of the processes' memory, bytes: allocators and caches take less."""

LEAST_GROWTH = 0.05
"""Share of the processes' memory from which its growth is reported with growing steps."""


_ADDS = {
    "parameter groups": "add_param_group",
    "threads": r"Thread|Timer|\w*Executor",
    "log handlers": "addHandler",
}
"""Calls that add to what piles up, besides hooks."""

_ONCE = "add them once, before the loop, or remove them again"


def _piling(facts: Facts) -> tuple[str, LineShare | None]:
    """What the script adds to in step after step, in words, and the line; empty without it."""
    more = piling(facts)
    if more is None:
        return "", None
    what, first, last, name = more
    calls = _ADDS.get(what, r"register_\w*hook")
    call = rf"\b({calls})\s*\("
    bare = re.escape(name.rpartition(".")[2])
    line = matching_line(facts, rf"{call}.*\b{bare}\b") if bare else None
    line = line or matching_line(facts, call)
    at = f", added at {line.short}" if line else ""
    return f"{what} pile up: {first} at first, {last} at last{at}", line


@rule(
    when="steps take longer and longer",
    limits=Limits("A rise by a tenth over the run costs 5 % on average.", info=0.025),
    answer=(
        "find what grows: keep sums in place of lists, append to files, and detach what is passed "
        "on"
    ),
)
def growing_steps_rule(facts: Facts) -> Lost | None:
    """One part of the step takes longer each time: a list that is concatenated, a file that is
    rewritten, a hook registered in each step, or losses and hidden states that keep their
    graphs."""
    step, (added, adds) = steady_step(facts), _piling(facts)
    once = f"{_ONCE} (handle.remove())" if "hooks" in added else _ONCE
    rise = growing_steps.or_none(facts) if added else growing_steps(facts)
    if rise is None and (more := piling(facts)):
        place, told = facts.at(adds) if adds else None, f"{added[:1].upper()}{added[1:]}."
        lost = without_cost(told, (), place, share=growing_steps_rule.limits.warning, advice=once)
        # One for each step makes steps longer in the end, whatever hides it so far.
        is_each = 2 * (more[2] - more[1]) >= step.count
        return replace(lost, worst=Severity.WARNING if is_each else Severity.INFO)
    if rise is None:
        return None
    line, rss = rise.line, rise.rss
    phases = (rise.phase,) if rise.is_alone else PHASES
    memory = why = advice = ""
    waited = (core_wait.or_none(facts) or 0.0) * step.mean
    if rss is not None and rss.tau >= MONOTONE and rss.growth >= LEAST_GROWTH:
        memory = f", and memory grows by {fmt.size(rss.last - rss.first)}"
    if added:
        why, line, advice = f", since {added}", adds or line, once
    elif (seen := subnormal_over_time(facts)) and not seen.doubt and 2 * seen.cost_ns >= rise.cost:
        # They became longer when numbers became subnormal.
        return None
    elif slower := _clock(facts):
        why = slower
    elif _same_calls(facts):
        why, advice = (
            ", with as many calls as at first",
            "look for what grows: inputs, caches, files",
        )
        if rise.phase in (FORWARD, BACKWARD, OPTIMIZER) and not has_gpu(facts):
            advice += "; if nothing does, try torch.set_flush_denormal(True)"
    elif rise.phase == BACKWARD:
        why = ", which happens if graphs of earlier steps are kept or inputs grow"
    return Lost(
        rise.cost,
        step,
        f"Steps grow from {fmt.duration(rise.step.first)} to {fmt.duration(rise.step.last)}: "
        f"{_part(rise)}{f' at {rise.line.short}' if rise.line else ''}{memory}{why}.",
        (
            Figure("first steps", round(rise.step.first), "ns"),
            Figure("last steps", round(rise.step.last), "ns"),
            *_rss(rise.rss),
        ),
        label="above the first steps",
        place=facts.at(line) if line else None,
        parts=host_parts(facts, phases, GapCause.SYNCHRONISATION.value),
        advice=advice,
        # Other programs may be what makes steps longer.
        doubt=busy_host(facts) if not (added or memory) and rise.cost <= ROUGHLY * waited else "",
    )


ROUGHLY = 2.0
"""Ratio to the mean wait for cores up to which a rise may be that wait: it was 1.6 without one."""


def _clock(facts: Facts) -> str:
    """How the processor's clock falls, as the end of a sentence; empty if it does not."""
    clocks = finite(samples(facts), "cpu.frequency")
    clock = trend(clocks) if len(clocks) >= BLOCKS else None
    if clock is None or clock.tau > -MONOTONE or clock.growth > -SLOWS:
        return ""
    return f", while the processor's clock falls from {clock.first:,.0f} to {clock.last:,.0f} MHz"


SLOWS = 0.1
"""Fall of the clock over the run, as a share, from which steps take longer because of it."""

SAME_CALLS = 1.2
"""Ratio of what profiled steps recorded, bytes, below which the last ones make as many calls as the
first: in nine runs with equal calls it was 0.98 to 1.01."""


def _same_calls(facts: Facts) -> bool:
    """Whether the last profiled steps surely make no more calls than the first."""
    windows = notes_of(facts.events, "window")
    # Those that were asked for more than operators are larger.
    windows = [note for note in windows if note.get("steps") and not note.get("asked")]
    sizes = [note.get("bytes", 0) / note["steps"] for note in windows]
    return len(sizes) > 1 and 0 < sizes[-1] < SAME_CALLS * sizes[0]


def _part(rise: GrowingSteps) -> str:
    name = "the script's own code" if rise.phase == "other" else phase_name(rise.phase)
    first, last = fmt.duration(rise.part.first), fmt.duration(rise.part.last)
    return f"{name} takes {last} instead of {first}"


def _rss(rss: Trend | None) -> list[Figure]:
    ends = (("first", rss.first), ("last", rss.last)) if rss else ()
    return [Figure(f"memory at {when}", round(size), "B") for when, size in ends]


@rule(
    when="backward runs through the graphs of earlier steps, more of them each time",
    limits=Limits(),
    answer="pass on state.detach() and drop retain_graph, or detach every N steps",
)
def kept_graph(facts: Facts) -> Lost | None:
    """Backward runs through all steps since the hidden state or sum was last reset. With detach()
    gradients stop at the step, as truncated backpropagation intends."""
    # Backward passes through the graphs of earlier steps, until those are released, by their times
    # and by the text; if all are kept, steps grow over the run.
    step, line = steady_step(facts), line_that_keeps_graph(facts)
    if line is None or matching_line(facts, _RETAINS) is None:
        return None
    rows = steady_rows(facts)
    if len(rows) < FEWEST_STEPS:
        raise UnknownError(f"{len(rows)} of {FEWEST_STEPS} steady steps so far")
    times = rows[BACKWARD]
    shortest, longest = _ends(times)
    least, most = _ends(rows[FORWARD])
    growth = longest / max(shortest, 1)
    rises = np.count_nonzero(np.diff(times) > 0) / (len(times) - 1)
    if rises < RISING or growth < GROWS or growth < GROWS * most / max(least, 1):
        return None
    if growing_steps.or_none(facts) is not None:
        return None
    cost = max(round(float(times.mean())) - shortest, 0)
    return Lost(
        cost,
        step,
        f"Backward grows from {fmt.duration(shortest)} to {fmt.duration(longest)} and starts over, "
        f"because {line.short} keeps the graphs of earlier steps: {step.part_of(cost)}.",
        (
            Figure("shortest backward passes", shortest, "ns"),
            Figure("longest backward passes", longest, "ns"),
        ),
        label="above the shortest",
        place=facts.at(line),
        parts=host_parts(facts, (BACKWARD,), GapCause.SYNCHRONISATION.value),
    )


@rule(
    when="the memory of the training grows with every step",
    limits=Limits(
        "Caches and pools fill in any run.", 0.50, 1.0, of="of its memory at first", info=0.10
    ),
    answer="detach what is kept, clear lists, and limit caches",
)
def memory_growth(facts: Facts) -> Lost | None:
    """The script keeps something of each step: a list that is never cleared, tensors with their
    graphs, or a cache without a limit. A long run will run out of memory."""
    # Memory that grows with each step: it costs no time, but may end the run.
    step, rss = steady_step(facts), rss_trend(facts)
    if step.count < MANY_STEPS:
        # The first steps fill pools and create optimizer state.
        raise UnknownError(f"{step.count} of {MANY_STEPS} steady steps so far")
    added = rss.last - rss.first
    if rss.tau < MONOTONE or added < LEAST_RSS:
        return None
    filled = matching_line(facts, r"\bdeque\(.*\bmaxlen=")
    fills = f"the deque at {filled.short} may be what grows, until it is full" if filled else ""
    return without_cost(
        f"Memory of the training grows from {fmt.size(rss.first)} to {fmt.size(rss.last)} in "
        f"{fmt.several(step.count, 'step')}, {fmt.size(added / step.count)} per step.",
        (
            Figure.share("growth", rss.growth, memory_growth.limits.warning),
            *_rss(rss),
            Figure("steady steps", step.count, "count"),
        ),
        share=rss.growth,
        worst=Severity.INFO if filled else Severity.CRITICAL,
        advice=fills,
    )
