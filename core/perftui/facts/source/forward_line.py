"""The line of the user's code that calls the model, or what takes longest to call within it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perftui.facts.fact import Facts, fact
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, lines_by_time
from perftui.facts.source.main_thread import stack_samples, steady_held
from perftui.facts.source.source_calls import call_of
from perftui.facts.step.steady import Mask
from perftui.run.stack_samples import FORWARD, OPTIMIZER, STAGES
from perftui.run.table import Table
from perftui.trace.model import Int64

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
    return _lines(facts, own_operators=False)


@fact
def operator_lines(facts: Facts) -> LinesByTime | None:
    """Lines of the forward pass that call operators themselves, not modules of torch."""
    return _lines(facts, own_operators=True)


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


def _lines(facts: Facts, *, own_operators: bool) -> LinesByTime | None:
    def of_forward(stacks: Table) -> Mask:
        chosen = _forward(stacks)
        return chosen & ~_matching(stacks, _PRODUCTS) if own_operators else chosen

    return _chosen(facts, of_forward)


def _chosen(facts: Facts, choose: Callable[[Table], Mask]) -> LinesByTime | None:
    outside, inside = stack_samples(facts)
    stacks, held = (outside, steady_held(facts)) if len(outside) else (inside, None)
    if not len(stacks):
        return None
    times: Int64 = np.where(choose(stacks), stacks["held"] if held is None else held, 0)
    found = lines_by_time(stacks, times)
    return found if found.suffices else None


def _forward(stacks: Table) -> Mask:
    others = np.isin(stacks["stage"], STAGES) if "stage" in stacks else np.zeros(len(stacks), bool)
    marked = "stage" in stacks and np.isin(stacks["stage"], (FORWARD,))
    if np.any(marked):
        return np.asarray(marked)
    return ~others & ~_matching(stacks, _ELSEWHERE)


def _at(stacks: Table, stage: str, pattern: re.Pattern[str]) -> Mask:
    """Rows of that stage; where none is marked, by their innermost frames."""
    known = np.isin(stacks["stage"], (stage,)) if "stage" in stacks else np.zeros(len(stacks), bool)
    return known if known.any() else _matching(stacks, pattern)


def _matching(stacks: Table, pattern: re.Pattern[str]) -> Mask:
    """Rows with an innermost frame that ``pattern`` finds."""
    return np.array([pattern.search(str(inner)) is not None for inner in stacks["inner"]], bool)
