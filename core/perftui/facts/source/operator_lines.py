"""Which line of the user's code calls an operator, as far as samples of the stack show.

Ten samples a second see a line for the time it takes, over all of a run; a window of two steps
they meet once or twice. So the lines of the operator's phase are taken, by their time, and of
those the one whose text calls it, where the script is there to be read.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

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
    lines_by_time,
    main_thread,
    sampled,
)
from perftui.facts.source.source_calls import call_of, in_own_files, own_files
from perftui.facts.source.stack_profile import is_of_collectives
from perftui.facts.step.judged_step import PYTHON_IN, STAGES, judged_step
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.run.columns import BACKWARD as BACKWARD_SAMPLE
from perftui.run.columns import FORWARD, OPTIMIZER
from perftui.run.columns import STAGES as SAMPLED_STAGES
from perftui.run.table import Table
from perftui.script.program import tree_of
from perftui.script.training import trained_variables
from perftui.trace.model import NONE, PYTHON, Int64, Mask, Trace
from perftui.trace.text import printable

MOMENTS = 250
"""Looked at, evenly spread over the idle time: shares are right to a few percent."""


@trace_fact
def python_gap_lines(analysis: TraceAnalysis) -> LinesByTime | None:
    """By line of the user's code, the idle time of the judged device whose cause is Python; None
    where the trace has no Python frames, or no such time."""
    steps, trace = trace_steps(analysis), analysis.trace
    gaps = gaps_of(steps, (GapCause.PYTHON,)) if steps is not None else EMPTY
    rows = np.flatnonzero(trace.in_category(PYTHON) & (trace.track == main_track(trace)))
    if steps is None or not gaps.total or not len(rows):
        return None
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    moments, every = _moments(gaps)
    moments = moments[steps.times.holds(moments)]
    begun = rows[np.maximum(np.searchsorted(trace.start[rows], moments, side="right") - 1, 0)]
    at = [_line_at(trace, *one) for one in zip(begun.tolist(), moments.tolist(), strict=True)]
    inner = {line: name for line, name in reversed(at) if line}
    found = Counter(line for line, _ in at if line).most_common(MOST_LINES)
    lines = tuple(
        LineShare(
            printable(line.file),
            line.line,
            printable(line.function),
            printable(inner[line]),
            times * every,
        )
        for line, times in found
    )
    return LinesByTime(lines, len(moments) * every, len(moments)) if lines else None


def _moments(gaps: Intervals) -> tuple[Int64, int]:
    """Moments spread over the intervals, and the time that each stands for."""
    ends = np.cumsum(gaps.end - gaps.start)
    every = max(int(ends[-1]) // MOMENTS, 1)
    passed = np.arange(every // 2, ends[-1], every, dtype=np.int64)
    index = np.searchsorted(ends, passed, side="right")
    return gaps.end[index] - ends[index] + passed, every


def _line_at(trace: Trace, row: int, moment: int) -> tuple[call_groups.SourceLine | None, str]:
    """The innermost line of the user's code that is being run at ``moment``, and the innermost
    frame; ``row`` is the last frame to begin before it."""
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
    """The lines of that part of ``judged_step``, longest first; None where neither a sample nor
    the trace's own stacks tell."""
    judged = judged_step.or_none(facts)
    if judged is None:
        return None
    if judged.on_device and part in set(GapCause):
        of_cause = (one.thread for one in gap_lines(facts) if one.cause.value == part)
        found = next(of_cause, None)
        if found is None and facts.analysis is not None and part == GapCause.PYTHON.value:
            return python_gap_lines(facts.analysis)
        return found
    stacks, held = sampled(facts)
    if "stage" not in stacks:
        return None
    if part == EXPOSED_COMMUNICATION:
        called = lines_by_time(stacks, np.where(_in_collectives(stacks), held, 0))
        if called.suffices:
            return called
    known = [stage for each in STAGES.values() for stage in each]
    # Gradients are reduced within backward.
    reducing = (BACKWARD_SAMPLE,) if part == EXPOSED_COMMUNICATION else None
    stages = reducing or STAGES.get(part.removeprefix(PYTHON_IN))
    chosen = np.isin(stacks["stage"], stages) if stages else ~np.isin(stacks["stage"], known)
    found = lines_by_time(stacks, np.where(chosen, held, 0))
    return found if found.suffices else None


def _in_collectives(stacks: Table) -> Mask:
    """Samples outside of phases in calls of ``torch.distributed``."""
    called = zip(stacks["inner"].tolist(), stacks["via"].tolist(), strict=True)
    exchanges = [any(map(is_of_collectives, each)) for each in called]
    return np.array(exchanges, dtype=bool) & _staged(stacks, "")


def place_in_part(facts: Facts, part: str) -> Place:
    """The line of the user's code at which most of that part is spent; without file and line where
    it is not known."""
    thread = part_lines(facts, part)
    line = thread.first_own if thread else None
    return facts.at(line) if line else Place(rank=facts.rank_number)


_SHORT = re.compile(r"aten::_?(?P<name>\w+?)_?$")


def line_of(facts: Facts, phase: str, pattern: str = "", *, only: bool = False) -> LineShare | None:
    """The line of ``phase`` that takes longest, of those whose text ``pattern`` is found in where
    there are any; None if no sample shows any, or with ``only`` if there are none. Backward
    is also known by the only line that runs it."""
    found = lines_of(facts, phase)
    if found is None:
        return call_of(facts, "backward") if phase == BACKWARD and not only else None
    lines = [line for line in found.lines if line.file]
    if pattern:
        named = [line for line in lines if re.search(pattern, text_of(line))]
        if named or only:
            lines = named
    return lines[0] if lines else None


def lines_of(facts: Facts, phase: str) -> LinesByTime | None:
    """The lines at which a phase's time passes, longest first; None if no sample shows any."""
    return part_lines(facts, phase)


def line_with(facts: Facts, names: frozenset[str]) -> LineShare | None:
    """The first line of the user's own files that uses one of ``names``: for what is decided once,
    where no sample comes by; None where there is none."""
    for path, changed in own_files(facts):
        line = _first_use(path, changed, names)
        if line:
            return LineShare(str(path), line)
    return None


@lru_cache(maxsize=64)
def _first_use(path: Path, changed: int, names: frozenset[str]) -> int:
    """0 where there is none, or the text is no Python."""
    used = (
        node.end_lineno or node.lineno
        for node in ast.walk(tree_of(path, changed))
        if (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.Name) and node.id in names)
    )
    return min(used, default=0)


def text_of(line: LineShare) -> str:
    """The text of a line, empty where the file cannot be read."""
    return linecache.getline(line.file, line.line)


def line_place(facts: Facts, line: LineShare | None, operator: str | None = None) -> Place | None:
    """The place of a finding about ``operator``: its line where that is known."""
    if line is None:
        return Place(rank=facts.rank_number, operator=operator) if operator else None
    return replace(facts.at(line), operator=operator)


def calls_of(operator: str) -> str:
    """A pattern for the text of a call of ``operator``: ``aten::sort`` is found in ``x.sort()``."""
    found = _SHORT.match(operator)
    words = (found["name"] if found else operator).split("_")
    stem = "_".join(words[1:] if words[0] in ("linalg", "native", "fft") else words)
    return rf"\b{re.escape(stem.removesuffix('_backward').rstrip('0123456789'))}"


def at(line: LineShare | None) -> str:
    """`` at FILE:LINE``, to end a clause with; empty where no line is known. Where no sample was
    there, only the text of the line shows it."""
    if line is None:
        return ""
    return f" at {line.short}" if line.held else f" probably at {line.short}"


@fact
def model_line(facts: Facts) -> LineShare | None:
    """The line at which the variable whose parameters are trained gets its model; ``function`` is
    the variable. None where there are several such variables, or none is in the user's files."""
    found = set(in_own_files(facts, _models))
    if len(found) != 1:
        return None
    file, (line, name) = found.pop()
    return LineShare(file, line, name, "", 0)


def made_where(facts: Facts, place: Place) -> Place:
    """``place``, or the line that makes the model where no line is known, or one that calls the
    model as a whole: every layer of it is meant then."""
    made = model_line(facts)
    if made is None:
        return place
    if place.file is not None and place.line is not None:
        text = text_of(LineShare(place.file, place.line))
        if not re.search(rf"(?<![\w.]){re.escape(made.function)}\(", text):
            return place
    return replace(place, rank=facts.rank_number, file=made.file, line=made.line)


def second_call(facts: Facts) -> LineShare | None:
    """The later of the two lines that call the model by its variable; None where there are not just
    two."""
    made = model_line(facts)
    if made is None:
        return None
    lines = in_own_files(facts, lambda path, changed: _calls(path, changed, made.function))
    return LineShare(*lines[1]) if len(lines) == 2 else None


@lru_cache(maxsize=64)
def _calls(path: Path, changed: int, name: str) -> tuple[int, ...]:
    nodes = (node for node in ast.walk(tree_of(path, changed)) if isinstance(node, ast.Call))
    return tuple(sorted({node.lineno for node in nodes if ast.unparse(node.func) == name}))


@lru_cache(maxsize=64)
def _models(path: Path, changed: int) -> tuple[tuple[int, str], ...]:
    """Variables whose parameters are asked for, each with the first line that makes its model."""
    nodes = list(ast.walk(tree_of(path, changed)))
    trained = trained_variables(node for node in nodes if isinstance(node, ast.Call))
    made: dict[str, int] = {}
    for node in nodes:
        for name in _makes(node):
            if name in trained:
                line = getattr(node, "lineno", 0)
                made[name] = min(made.get(name, line), line)
    return tuple((line, name) for name, line in made.items())


def _makes(node: ast.AST) -> Iterator[str]:
    """Variables that ``node`` gives what a call makes, not made of themselves."""
    for target, value in _assigned(node):
        parts = list(ast.walk(value))
        used = {ast.unparse(one) for one in parts if isinstance(one, (ast.Name, ast.Attribute))}
        name = ast.unparse(target)
        if name not in used and any(isinstance(one, ast.Call) for one in parts):
            yield name


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each variable of an assignment with its value: ``a, b = x, y`` has two."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


_ELSEWHERE = re.compile(
    r"_engine_run_backward|torch/(optim|autograd/profiler|profiler|cuda/__init__)|torch/utils/(data|_foreach)"
)
"""Innermost frames of what is no forward pass, in samples without stages."""

_OPTIMIZER = re.compile(r"torch/optim")

_PRODUCTS = re.compile(r"torch/nn/modules/(linear|conv|activation)|multi_head_attention")
"""Innermost frames of modules that multiply matrices."""


@fact
def forward_lines(facts: Facts) -> LinesByTime | None:
    """Lines of the forward pass by the time the main thread was there; None where too few samples
    tell. On a GPU that time is of launching: a line that calls more operators takes more of it."""
    return _chosen(facts, _forward)


@fact
def operator_lines(facts: Facts) -> LinesByTime | None:
    """Lines of the forward pass that call operators themselves, not modules of torch."""
    return _chosen(facts, lambda stacks: _forward(stacks) & ~_matching(stacks, _PRODUCTS))


@fact
def optimizer_lines(facts: Facts) -> LinesByTime | None:
    """Lines that call the optimizer, by time; None with too few samples."""
    return _chosen(facts, lambda stacks: _at(stacks, OPTIMIZER, _OPTIMIZER))


def with_line(facts: Facts, place: Place | None, lines: LinesByTime | None) -> Place | None:
    """``place`` with the first of ``lines``, where it names no line itself; else with the only line
    whose text calls its operator."""
    if place is None or place.file is not None:
        return place
    line = lines.first_own if lines else None
    line = line or (call_of(facts, place.operator) if place.operator else None)
    if line is None:
        return place
    return replace(place, rank=facts.rank_number, file=line.file, line=line.line)


def _chosen(facts: Facts, choose: Callable[[Table], Mask]) -> LinesByTime | None:
    stacks, held = sampled(facts)
    if not len(stacks):
        return None
    found = lines_by_time(stacks, np.where(choose(stacks), held, 0))
    return found if found.suffices else None


def _forward(stacks: Table) -> Mask:
    if (marked := _staged(stacks, FORWARD)).any():
        return marked
    return ~_staged(stacks, *SAMPLED_STAGES) & ~_matching(stacks, _ELSEWHERE)


def _at(stacks: Table, stage: str, pattern: re.Pattern[str]) -> Mask:
    """Rows of that stage; where none is marked, by their innermost frames."""
    known = _staged(stacks, stage)
    return known if known.any() else _matching(stacks, pattern)


def _staged(stacks: Table, *stages: str) -> Mask:
    if "stage" not in stacks:
        return np.zeros(len(stacks), dtype=np.bool_)
    return np.isin(stacks["stage"], stages)


def _matching(stacks: Table, pattern: re.Pattern[str]) -> Mask:
    """Rows with an innermost frame that ``pattern`` finds."""
    return np.array([pattern.search(str(inner)) is not None for inner in stacks["inner"]], bool)


LEAST_NAMED = 0.25
"""Share of the idle time that a line or an operator must have to be named."""

LOOKED_AT = 300
"""Longest gaps whose places are looked up."""

MOSTLY = 0.5
"""Share of the step from which on the samples of all steps stand for this idle time."""


def idle_place(facts: Facts, cause: GapCause, steps: TraceSteps) -> Place | None:
    """The line with most of the idle time, by samples of the main thread, else by the trace's
    stacks; else the operator. None where nothing shows it, or none has much of it."""
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
