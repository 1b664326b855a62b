"""Which line of the user's code calls an operator, as far as stack samples show.

Ten samples a second over a whole run see a line in proportion to its time, but meet a window of two
steps once or twice. So of the lines of the operator's phase, by time, the one whose text calls the
operator is taken, if the script can be read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import EMPTY, Intervals
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.ops import call_groups
from perftui.analysis.steps import BACKWARD, EXPOSED_COMMUNICATION
from perftui.facts.fact import Facts, fact, trace_fact
from perftui.facts.gpu.host_waits import gaps_of
from perftui.facts.gpu.idle import gap_lines, gap_place
from perftui.facts.place import Place
from perftui.facts.source.lines import (
    MOST_LINES,
    LinesByTime,
    LineShare,
    at_frames,
    lines_by_time,
    main_thread,
    sampled,
    text_of,
)
from perftui.facts.source.source_calls import call_of, in_own_files, name_of, uses_of
from perftui.facts.source.stack_profile import is_of_collectives
from perftui.facts.step.judged_step import PYTHON_IN, STAGES, judged_step
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.run.columns import BACKWARD as BACKWARD_SAMPLE
from perftui.run.columns import FORWARD, OPTIMIZER
from perftui.run.columns import STAGES as SAMPLED_STAGES
from perftui.run.table import Table
from perftui.script.program import Program
from perftui.script.training import trained_models
from perftui.trace.model import NONE, PYTHON, Int64, Mask, Trace
from perftui.trace.text import printable

MOMENTS = 250
"""Moments examined, evenly spread over the idle time: shares are right to a few percent."""


@trace_fact
def python_gap_lines(analysis: TraceAnalysis) -> LinesByTime | None:
    """Idle time of the judged device caused by Python, by line of user code; None if the trace has
    no Python frames, or no such time."""
    steps, trace = trace_steps(analysis), analysis.trace
    gaps = gaps_of(steps, (GapCause.PYTHON,)) if steps is not None else EMPTY
    rows = np.flatnonzero(trace.in_category(PYTHON) & (trace.track == main_track(trace)))
    if steps is None or not gaps.total or not len(rows):
        return None
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    moments, every = _moments(gaps)
    moments = moments[steps.times.holds(moments)]
    begun = rows[np.maximum(np.searchsorted(trace.start[rows], moments, side="right") - 1, 0)]
    at = [_line_at(trace, *pair) for pair in zip(begun.tolist(), moments.tolist(), strict=True)]
    inner = {line: name for line, name in reversed(at) if line}
    counts = Counter(line for line, _ in at if line).most_common(MOST_LINES)
    lines = tuple(
        LineShare(
            printable(line.file),
            line.line,
            printable(line.function),
            printable(inner[line]),
            times * every,
        )
        for line, times in counts
    )
    return LinesByTime(lines, len(moments) * every, len(moments)) if lines else None


def _moments(gaps: Intervals) -> tuple[Int64, int]:
    """Moments evenly spread over the intervals, and the ns each stands for."""
    ends = np.cumsum(gaps.end - gaps.start)
    every = max(int(ends[-1]) // MOMENTS, 1)
    passed = np.arange(every // 2, ends[-1], every, dtype=np.int64)
    index = np.searchsorted(ends, passed, side="right")
    return gaps.end[index] - ends[index] + passed, every


def _line_at(trace: Trace, row: int, moment: int) -> tuple[call_groups.SourceLine | None, str]:
    """The innermost line of user code running at ``moment``, and the innermost frame; ``row`` is
    the last frame to begin before it."""
    inner = ""
    while row != NONE:
        is_frame = trace.categories[int(trace.category[row])] == PYTHON
        if is_frame and trace.start[row] <= moment < trace.start[row] + trace.duration[row]:
            name = trace.name_of(row)
            inner = inner or name
            line = call_groups.source_line(name)
            if line is not None:
                return line, inner
        row = int(trace.parent[row])
    return None, inner


def part_lines(facts: Facts, part: str) -> LinesByTime | None:
    """Lines of the part of ``judged_step``, longest first; None if neither samples nor the trace's
    stacks show any."""
    judged = judged_step.or_none(facts)
    if judged is None:
        return None
    if judged.on_device and part in set(GapCause):
        of_cause = (lines.thread for lines in gap_lines(facts) if lines.cause.value == part)
        lines = next(of_cause, None)
        if lines is None and facts.analysis is not None and part == GapCause.PYTHON.value:
            return python_gap_lines(facts.analysis)
        return lines
    stacks, time = sampled(facts)
    if "stage" not in stacks:
        return None
    if part == EXPOSED_COMMUNICATION:
        # Outside phases, in calls of ``torch.distributed``.
        frames = zip(stacks["inner"].tolist(), stacks["via"].tolist(), strict=True)
        exchanges = np.array([any(map(is_of_collectives, called)) for called in frames], dtype=bool)
        called = lines_by_time(stacks, np.where(exchanges & _staged(stacks, ""), time, 0))
        if called.suffices:
            return called
    of_phases = [stage for names in STAGES.values() for stage in names]
    # Gradients are reduced within backward.
    reducing = (BACKWARD_SAMPLE,) if part == EXPOSED_COMMUNICATION else None
    stages = reducing or STAGES.get(part.removeprefix(PYTHON_IN))
    chosen = np.isin(stacks["stage"], stages) if stages else ~np.isin(stacks["stage"], of_phases)
    lines = lines_by_time(stacks, np.where(chosen, time, 0))
    return lines if lines.suffices else None


def place_in_part(facts: Facts, part: str) -> Place:
    """The line of user code that takes most of the part; without file and line if unknown."""
    thread = part_lines(facts, part)
    line = thread.first_own if thread else None
    return facts.at(line) if line else Place(rank=facts.rank_number)


def line_of(
    facts: Facts, phase: str, pattern: str = "", *, only: bool = False, looped: bool = False
) -> LineShare | None:
    """The longest line of ``phase`` whose text matches ``pattern``, else the longest; None if no
    sample shows any, or with ``only`` if none matches. For backward also the only line that runs
    it. With ``looped`` a line in a loop comes first, if it takes half as long as the longest."""
    result = part_lines(facts, phase)
    if result is None:
        return call_of(facts, "backward") if phase == BACKWARD and not only else None
    lines = [line for line in result.lines if line.file]
    if pattern:
        matching = [line for line in lines if re.search(pattern, text_of(line.file, line.line))]
        if matching or only:
            lines = matching
        long = [line for line in lines if looped and 2 * line.held >= lines[0].held]
        lines = [line for line in long if is_looped(facts, line)] or lines
    return lines[0] if lines else None


def is_looped(facts: Facts, line: LineShare) -> bool:
    """Whether a loop within the step runs the line, by the text of its function."""
    return any(use.in_loop for use in uses_of(facts, line.file, line.line))


def line_with(facts: Facts, names: frozenset[str]) -> LineShare | None:
    """The first line of the user's own files that uses one of ``names``, for what runs once and is
    not sampled; None if there is none."""

    def uses(program: Program) -> list[int]:
        nodes: list[ast.expr] = []
        for name in names:
            nodes += [*program.loads(name), *program.attributes(name, ast.expr_context)]
        return sorted(node.end_lineno or node.lineno for node in nodes)

    lines = in_own_files(facts, uses)
    return LineShare(*lines[0]) if lines else None


def line_place(facts: Facts, line: LineShare | None, operator: str | None = None) -> Place | None:
    """The place of a finding about ``operator``, with its line if known."""
    if line is None:
        return Place(rank=facts.rank_number, operator=operator) if operator else None
    return facts.at(line, operator)


def calls_of(operator: str) -> str:
    """A pattern for the text of a call of ``operator``: ``aten::sort`` is found in ``x.sort()``."""
    name = name_of(operator).removesuffix("_backward").rstrip("0123456789")
    return rf"\b(vector_)?{re.escape(name)}"


def at(line: LineShare | None) -> str:
    """`` at FILE:LINE``, to end a clause with; empty if no line is known. ``probably`` marks a line
    found by its text alone, without samples."""
    if line is None:
        return ""
    return f" at {line.short}" if line.held else f" probably at {line.short}"


@fact
def model_line(facts: Facts) -> LineShare | None:
    """The line that assigns the model to the only variable whose parameters are trained;
    ``function`` is that variable. None with several such variables, or none in the user's files."""
    models = set(in_own_files(facts, trained_models))
    if len(models) != 1:
        return None
    file, (line, name) = models.pop()
    return LineShare(file, line, name, "", 0)


def made_where(facts: Facts, place: Place) -> Place:
    """``place``, or the line that makes the model if the place has no line, or its line calls the
    whole model: the finding is then about every layer."""
    model = model_line(facts)
    if model is None:
        return place
    if place.file is not None and place.line is not None:
        text = text_of(place.file, place.line)
        if not re.search(rf"(?<![\w.]){re.escape(model.function)}\(", text):
            return place
    return replace(place, rank=facts.rank_number, file=model.file, line=model.line)


def second_call(facts: Facts) -> LineShare | None:
    """The later of the two lines that call the model by its variable; None if there are not exactly
    two."""
    model = model_line(facts)
    if model is None:
        return None

    def lines_of(program: Program) -> list[int]:
        calls = program.calls(model.function.rpartition(".")[2])
        return sorted({call.lineno for call in calls if ast.unparse(call.func) == model.function})

    lines = in_own_files(facts, lines_of)
    return LineShare(*lines[1]) if len(lines) == 2 else None


_ELSEWHERE = re.compile(
    r"_engine_run_backward|torch/(optim|autograd/profiler|profiler|cuda/__init__)|torch/utils/(data|_foreach)"
)
"""Innermost frames outside the forward pass, in samples without stages."""

_OPTIMIZER = re.compile(r"torch/optim")

_PRODUCTS = re.compile(r"torch/nn/modules/(linear|conv|activation)|multi_head_attention")
"""Innermost frames of modules that multiply matrices."""


@fact
def forward_lines(facts: Facts) -> LinesByTime | None:
    """Lines of the forward pass by main-thread time; None with too few samples. With a GPU that
    time is launching: a line that calls more operators takes more of it."""
    return _chosen(facts, _forward)


@fact
def operator_lines(facts: Facts) -> LinesByTime | None:
    """Lines of the forward pass that call operators directly, not through modules of torch."""
    return _chosen(facts, lambda stacks: _forward(stacks) & ~at_frames(_PRODUCTS)(stacks))


@fact
def optimizer_lines(facts: Facts) -> LinesByTime | None:
    """Lines that call the optimizer, by time; None with too few samples."""

    def choose(stacks: Table) -> Mask:
        staged = _staged(stacks, OPTIMIZER)
        return staged if staged.any() else at_frames(_OPTIMIZER)(stacks)

    return _chosen(facts, choose)


def with_line(facts: Facts, place: Place | None, lines: LinesByTime | None) -> Place | None:
    """``place`` with the first of ``lines`` if it has no line itself; else with the only line whose
    text calls its operator."""
    if place is None or place.file is not None:
        return place
    line = lines.first_own if lines else None
    line = line or (call_of(facts, place.operator) if place.operator else None)
    if line is None:
        return place
    return replace(place, rank=facts.rank_number, file=line.file, line=line.line)


def _chosen(facts: Facts, choose: Callable[[Table], Mask]) -> LinesByTime | None:
    stacks, time = sampled(facts)
    if not len(stacks):
        return None
    lines = lines_by_time(stacks, np.where(choose(stacks), time, 0))
    return lines if lines.suffices else None


def _forward(stacks: Table) -> Mask:
    if (marked := _staged(stacks, FORWARD)).any():
        return marked
    return ~_staged(stacks, *SAMPLED_STAGES) & ~at_frames(_ELSEWHERE)(stacks)


def _staged(stacks: Table, *stages: str) -> Mask:
    if "stage" not in stacks:
        return np.zeros(len(stacks), dtype=np.bool_)
    return np.isin(stacks["stage"], stages)


LEAST_NAMED = 0.25
"""Share of the idle time from which a line or an operator is named."""

LOOKED_AT = 300
"""Number of longest gaps whose places are looked up."""

MOSTLY = 0.5
"""Share of the step from which samples of all steps stand for this idle time."""


def idle_place(facts: Facts, cause: GapCause, steps: TraceSteps) -> Place | None:
    """The line with most of the idle time, by samples of the main thread, else by the trace's
    stacks; else the operator. None if nothing shows it, or none has much of it."""
    judged = judged_step(facts)
    threads = [part_lines(facts, cause.value), main_thread(facts)]
    if judged.part(cause.value) >= MOSTLY * judged.of.mean:
        # A window is short: a single sample may stand for all of it.
        threads.reverse()
    for thread in threads:
        line = thread.standing_out(LEAST_NAMED) if thread else None
        if line is not None:
            return facts.at(line)
    gaps = steps.gaps(cause)[:LOOKED_AT]
    places = [gap_place(gap, steps) for gap in gaps]
    least = LEAST_NAMED * sum(gap.duration for gap in gaps)
    for names in ([place.source for place in places], [place.operator for place in places]):
        times: Counter[str | None] = Counter()
        for name, gap in zip(names, gaps, strict=True):
            times[name] += gap.duration if name else 0
        for name, time in times.most_common(1):
            if name and time >= least:
                return places[names.index(name)]
    return None
