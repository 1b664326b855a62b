"""torch.compile: running after the warm-up, not paid off, or with graph breaks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, rule, without_cost
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, notes_of
from perftui.facts.script.compilations_and_pauses import compiling_within
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_calls import matching_line
from perftui.facts.source.stack_profile import FEWEST_MOMENTS, MOSTLY_OTHERS, moments
from perftui.facts.step.judged_step import host_parts
from perftui.facts.step.steps import run_is_over, steady_rows, steady_step, step_count
from perftui.run.columns import COMPILE
from perftui.run.table import Table
from perftui.trace.text import printable

USUAL_GAIN = 0.43
"""Usual relative slowdown of a step without it; PyTorch's mean of 163 models on an A100."""


@rule(
    when="torch.compile takes longer than it saves in so short a run",
    limits=Limits.of_hint(0.20, "A longer run makes up for it.", of="of the run"),
    answer="leave torch.compile out of short runs, or keep its cache (TORCHINDUCTOR_CACHE_DIR)",
)
def compile_not_paid(facts: Facts) -> Lost | None:
    """The number of steps assumes 1.43 times the step without torch.compile, PyTorch's mean over
    163 models."""
    # Compiling before the first steady step, as reported by torch. It is no part of a step, and the
    # time of steps without it is unknown.
    manifest = facts.manifest
    if manifest is None or not run_is_over(facts) or not notes_of(facts.events, "compile"):
        raise NotApplicableError
    step, rows = steady_step(facts), steady_rows(facts)
    if not len(rows):
        raise NotApplicableError
    first = rows["start"][:1]
    before = Table((), {"start": np.zeros_like(first), "duration": first})
    time = compiling_within(facts.events, before)[2]
    if not time:
        raise NotApplicableError
    steps, pays_from = step_count(facts), round(time / (USUAL_GAIN * step.mean))
    if steps >= pays_from:
        return None
    last = int((facts.steps["start"] + facts.steps["duration"]).max())
    share = min(time / max(last - manifest.started_ns, 1), 0.9)
    needed = step.mean + time // max(steps, 1)
    return without_cost(
        f"torch.compile took {fmt.duration(time)}, {fmt.percent(share)} of the run: with the "
        f"usual gain that pays off after {fmt.several(pays_from, 'step')}, and this run "
        f"had {steps:,}.",
        (
            Figure.share("compiling, of the run", share, compile_not_paid.limits.info),
            Figure("steps", steps, "count"),
            Figure("mean step", step.mean, "ns"),
            Figure("step without it at which it pays off", needed, "ns"),
        ),
        share=share,
    )


FEWEST_AGAIN = 3
"""Fewer recompilations are warm-up: a second shape makes sizes dynamic, and evaluation is compiled
when it first runs."""

_PHASES = ("forward", "backward", "other")


@rule(
    when="torch.compile recompiles after the warm-up",
    limits=Limits(),
    claims=Claim(idle=GapCause.LAUNCH),
    fixes=("compile-dynamic",),
    answer="pass dynamic=True, call mark_dynamic, or pad inputs to a few shapes",
)
def recompiles(facts: Facts) -> Lost | None:
    """Compiled code is valid for the shapes, types and values that it was compiled for.
    TORCH_LOGS=recompiles prints the guard that failed."""
    # Compiling as reported by torch; by samples if it reports none, or they find much more.
    step, rows, stacks = steady_step(facts), steady_rows(facts), moments(facts)
    notes, times, whole = compiling_within(facts.events, rows)
    if stacks is None and not notes:
        raise UnknownError("too few stack samples")
    cost, first, is_exact = whole // max(len(rows), 1), None, True
    if stacks is not None:
        compiling = stacks.stage == COMPILE
        if stacks.count(compiling) >= FEWEST_MOMENTS:
            sampled = round(stacks.share(compiling) * step.mean)
            is_exact = bool(notes) and sampled <= MOSTLY_OTHERS * cost
            cost = cost if is_exact else sampled
            first = stacks.lines(compiling).first_own
            times = times if is_exact else stacks.time[compiling]
    cost = min(cost, step.mean)
    if not cost:
        return None
    # Backward is compiled with its forward and counts once with it.
    forward = [note for note in notes if note.get("forward") is not False]
    functions = Counter(map(_function, forward)).most_common(1)
    function = functions[0][0] if functions else None
    reasons = [printable(str(note["reason"])) for note in forward if note.get("reason")]
    line = first or function
    place = facts.at(line) if line else None
    at = f" for {place.short}" if place else ""
    call = matching_line(facts, r"\btorch\.compile\b", only=True)
    figures, why = list[Figure](), ", according to stack samples"
    if is_exact:
        figures += [Figure("compiled", len(forward), "count")]
        figures += [Figure("again", len(reasons), "count")]
        figures += [Figure("function", function.function)] if function and function.function else []
        why = f', last because of "{reasons[-1]}"' if reasons else ""
    of_step = np.searchsorted(rows["start"], times, side="right")
    within = len(np.unique(of_step[of_step > 0]))
    return Lost(
        cost,
        step,
        f"torch.compile takes {step.part_of(cost)} after the warm-up: it "
        f"recompiles{at} in {within} of {fmt.several(step.count, 'step')}{why}.",
        (Figure("steps seen compiling", within, "count"), *figures),
        label="compiling",
        place=facts.at(call) if call else place,
        parts=host_parts(facts, _PHASES),
        worst=Severity.INFO if is_exact and len(reasons) < FEWEST_AGAIN else Severity.CRITICAL,
    )


def _function(note: Mapping[str, object]) -> LineShare | None:
    """The function that was compiled; None for modules, which are compiled through one of torch."""
    file, line = str(note.get("file") or ""), note.get("line")
    if not file or "/torch/_dynamo/" in file or not isinstance(line, int):
        return None
    return LineShare(printable(file), line, printable(str(note.get("function") or "")))


_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")
"""The compiler's name for the rest of a function after the line at which it stopped."""


def _break_of(note: Mapping[str, object]) -> LineShare | None:
    """The line of the script at which compiled code returns to Python, and its function."""
    if note.get("forward") is False:
        return None
    resumed, file = _RESUMED.match(str(note.get("function"))), str(note.get("file") or "")
    if resumed is None or not file or "-packages/" in file:
        return None
    return LineShare(printable(file), int(resumed[2]), printable(resumed[1]))


_NAMED = 3
"""Lines in the sentence."""


@rule(
    when="torch.compile cannot capture the model as one graph",
    limits=Limits.of_hint(0.5, "What could be fused is not known."),
    answer="move the line out of the compiled function, or keep the value a tensor",
)
def graph_breaks(facts: Facts) -> Lost | None:
    """Nothing is fused across a graph break, and CUDA graphs are split. Usual reasons are reading a
    value, printing, and calls that the compiler does not support. TORCH_LOGS=graph_breaks prints
    them."""
    # Graph breaks cost 0: the real cost depends on what could have been fused across them.
    if facts.run is None:
        raise NotApplicableError
    # In order of occurrence, each with the number of compilations of the code after it.
    notes = notes_of(facts.events, "compile")
    breaks = Counter(line for note in notes if (line := _break_of(note)) is not None)
    if not breaks:
        return None
    first, *_ = breaks
    lines = ", ".join(facts.at(line).short for line in list(breaks)[:_NAMED])
    more = f" and {len(breaks) - _NAMED} more" if len(breaks) > _NAMED else ""
    return without_cost(
        f"torch.compile breaks the graph at {fmt.several(len(breaks), 'line')}: {lines}{more}.",
        tuple(
            Figure(f"graph break in {line.function}", count, "count", place=facts.at(line))
            for line, count in breaks.items()
        ),
        place=facts.at(first),
        share=graph_breaks.limits.info,
    )
