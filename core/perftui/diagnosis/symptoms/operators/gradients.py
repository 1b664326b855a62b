"""Gradients computed or kept for nothing: unused, dense ones of large tables, zeros, and those of
terms of the loss that are multiplied by 0."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.work import (
    PARTS,
    OperatorWork,
    kernel_work,
    operator_work,
)
from perftui.facts.cpu.operators import (
    KEEPS_GRADIENT,
    NODE,
    WEIGHTED_NODE,
    Operators,
    Work,
    of_phases,
    operators,
    work_of,
)
from perftui.facts.fact import Facts, UnknownError, cached, notes_of, trace_fact
from perftui.facts.gpu.kernels import StepKernels
from perftui.facts.settings import Parameters, Untrained, settings
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import at, line_of, line_place, line_with
from perftui.facts.source.source_calls import matching_line
from perftui.trace.model import NONE, Int64, Mask


@trace_fact
def embedding_gradients(analysis: TraceAnalysis) -> Work:
    """Dense gradients of embedding tables."""
    ops = operators(analysis)
    dense = ops.named(_DENSE.match)
    return work_of(ops, ops.within(dense), dense)


FIRST_TURNS = 24
"""Updates whose passes are examined: all do the same, and reading their numbers takes time."""

FIRST_OPERATORS = 16
"""Operators of a call among which one has a number: those without gradients have none."""


@dataclass(frozen=True, eq=False)
class _Turn:
    """The backward passes before one update."""

    nodes: Int64
    """Positions of their nodes."""
    call: Int64
    """Index of the call of a model that each node belongs to; -1 for none."""

    def names_in(self, ops: Operators, call: int) -> bytes:
        """A key that distinguishes calls of different models."""
        return np.sort(ops.name[self.nodes[self.call == call]]).tobytes()

    def calls(self) -> list[int]:
        """The calls gone through, first made first."""
        numbers: list[int] = np.unique(self.call[self.call >= 0]).tolist()
        return numbers


@trace_fact
def not_detached(analysis: TraceAnalysis) -> tuple[Work, int] | None:
    """Backward passes that continue into a model they do not train, as a GAN's critic: the nodes of
    that model with all they call, and of how many parameters such a pass accumulates gradients.

    If updates take turns, passes before some go through more calls of models than those before
    others, and reach as many parameters as any. They need not have continued into the model called
    first in the turn with fewest calls. Each node belongs to the call in which torch numbered it.
    Unknown if the trace does not number the nodes."""
    ops = operators(analysis)
    trace, marks = ops.trace, ops.marks(BACKWARD)
    stepping = kinds.optimizer_steps(trace) & begun_in(trace, ops.steps.on_host)
    turn_of = np.searchsorted(np.sort(trace.start[stepping]), trace.ends_of(marks))
    sums = ops.named((NODE + KEEPS_GRADIENT).__eq__)
    inside: dict[int, list[Int64]] = {}
    reached: dict[int, int] = {}
    seen = turn_of < FIRST_TURNS
    for mark, turn in zip(marks[seen].tolist(), turn_of[seen].tolist(), strict=True):
        begin = int(trace.start[mark])
        here = ops.begun(begin, begin + int(trace.duration[mark]))
        inside.setdefault(turn, []).append(here)
        reached[turn] = max(reached.get(turn, 0), int(np.count_nonzero(sums[here])))
    if len(inside) < 2:
        return None
    first, most = _first_numbers(ops, int(trace.ends_of(marks[seen]).max())), max(reached.values())
    is_node = ops.named(lambda name: name.startswith(NODE))
    nodes = {turn: np.concatenate(parts) for turn, parts in inside.items()}
    nodes = {turn: rows[is_node[rows]] for turn, rows in nodes.items()}
    numbers = ops.numbers(np.concatenate(list(nodes.values())))
    turns = {}
    for turn, rows in nodes.items():
        sequence = np.array([numbers.get(at, -1) for at in rows.tolist()], dtype=np.int64)
        call = np.where(sequence >= 0, np.searchsorted(first, sequence, side="right") - 1, -1)
        turns[turn] = _Turn(rows, call)
    farthest = [turns[turn] for turn in turns if reached[turn] == most]
    mine = _untrained_nodes(ops, list(turns.values()), farthest)
    return work_of(ops, ops.within(mine), mine).times(len(np.unique(turn_of)) / len(inside)), most


def _first_numbers(ops: Operators, until: int) -> Int64:
    """The lowest sequence number in each call of a model before ``until``, ascending."""
    trace, marks = ops.trace, ops.marks(FORWARD)
    marks = marks[trace.start[marks] < until]
    calls = zip(trace.start[marks].tolist(), trace.ends_of(marks).tolist(), strict=True)
    operators_of = [ops.begun(*call)[:FIRST_OPERATORS].tolist() for call in calls]
    numbers = ops.numbers(np.array([at for rows in operators_of for at in rows], dtype=np.int64))
    numbered = ([numbers[at] for at in rows if at in numbers] for rows in operators_of)
    return np.array(sorted(min(group) for group in numbered if group), dtype=np.int64)


def _untrained_nodes(ops: Operators, turns: list[_Turn], farthest: list[_Turn]) -> Mask:
    """Nodes of the model called first in the turn with fewest calls, in those ``farthest`` turns
    that have more."""
    least = min(turns, key=lambda turn: len(turn.calls()))
    calls = least.calls()
    if len(calls) < 2:
        return ops.at()
    model = least.names_in(ops, calls[0])
    longer = (turn for turn in farthest if len(turn.calls()) > len(calls))
    made = ((turn, call) for turn in longer for call in turn.calls())
    same = ((turn, call) for turn, call in made if turn.names_in(ops, call) == model)
    return ops.at(*(turn.nodes[turn.call == call] for turn, call in same))


FEWEST_ROWS = 1_000_000
"""Elements of all tables below which dense gradients are small compared with the step."""

_TABLES = frozenset({"Embedding", "EmbeddingBag"})
_DENSE = re.compile(r"aten::_?embedding_(bag_)?dense_backward$")

_USES_GRADIENT = (
    r"\.grad\b(?!\s*(\(|=(?!=)|is\b|\.detach_|"
    r"(\.data|\.detach\(\))?\.(zero_|norm|abs|mean|pow)\b))"
)
"""A line that reads a gradient for more than its size: it may update what no optimizer holds."""


@rule(
    when="gradients are computed for parameters that no optimizer holds",
    limits=Limits(),
    fixes=("requires-grad-off",),
    answer=(
        "call requires_grad_(False) on those layers, run them under torch.no_grad(), or detach() "
        "their output"
    ),
)
def unused_gradients(facts: Facts) -> Lost | None:
    """Backward runs through layers that are not trained; under torch.no_grad() it stops before them
    if they come first. If models take turns, as in a GAN, it runs into the other one unless its
    output is detached. The cost is half of their share of backward, a lower bound."""
    work, rows, setup = operator_work(facts), _parameters(facts), settings(facts)
    if any(group.unused is None for group in rows):
        raise UnknownError("which parameters are in an optimizer was not recorded")
    tensors = sum(group.unused or 0 for group in rows)
    with_gradient = sum(group.trained for group in rows)
    if not tensors:
        sizes = [one.parameters or 0 for one in setup.optimizers or ()]
        return _lost_to_other_model(work, sizes) or _lost_to_inputs(work, with_gradient, sizes)
    if line := matching_line(facts, _USES_GRADIENT):
        raise UnknownError(f"{line.short} uses gradients itself")
    if tensors >= with_gradient:
        raise UnknownError("no optimizer of torch holds any parameter: something else trains them")
    elements = sum(group.unused_elements or 0 for group in rows)
    back = work.time_of(of_phases(work.operators, BACKWARD))
    # Half of each layer's backward pass is for its weights; nodes before the layer come on top.
    cost = round(back.won * elements / max(sum(group.elements for group in rows), 1) / 2)
    modules = setup.untrained or ()
    names = ", ".join(dict.fromkeys(row.short for row in modules))
    line = _call_of(facts, modules[0]) if modules else None
    line, of = line or line_of(facts, BACKWARD), f" ({names})" if names else ""
    return Lost(
        cost,
        work.of,
        f"Gradients of {tensors} of {with_gradient} parameters{of} are computed but never used, "
        f"because no optimizer holds them: at least {work.of.part_of(cost)}{at(line)}.",
        (Figure("parameters in no optimizer", tensors, "count"), Figure("backward", back.ns, "ns")),
        place=line_place(facts, line),
        parts=back.parts,
        advice=f"call requires_grad_(False) on {names or 'what is not trained'}, and run it under "
        "torch.no_grad() if no trained layer comes before",
    )


def _call_of(facts: Facts, module: Untrained) -> LineShare | None:
    """The line that calls ``module``, by its name where it is a part of what the script calls."""
    if module.path:
        return matching_line(facts, rf"\.{re.escape(module.short)}\(", only=True)
    is_own = module.line and "site-packages" not in module.file
    return LineShare(module.file, module.line, held=1) if is_own else None


def _lost_to_other_model(work: OperatorWork, sizes: list[int]) -> Lost | None:
    """Gradients of parameters in another optimizer than the one that steps next."""
    beyond = not_detached.or_none(work.facts) if len(sizes) > 1 else None
    if beyond is None or not beyond[0].calls or beyond[1] != sum(sizes):
        return None
    lost = work.lost(
        beyond[0],
        # If the same samples serve both, the first pass has to keep their graph.
        line_of(work.facts, BACKWARD, "retain_graph"),
        "Backward continues into a model that another optimizer trains, for {part}{at}, and those "
        "gradients are thrown away.",
        "thrown away",
        Figure("nodes of that model in a step", beyond[0].calls, "count"),
    )
    return replace(lost, fixes=(), advice="detach() the output of the model that is not trained")


_NEEDS_INPUT = r"\.grad\b|\bgrad\(|checkpoint|jacobian|retain_grad"
"""Text of scripts that may use gradients of what a model is given, or need a graph there."""


def _lost_to_inputs(work: OperatorWork, trained: int, held: list[int]) -> Lost | None:
    """Gradients of what the model is given: each backward pass accumulates one more than there are
    parameters. About half of the backward pass of the first layer is for them."""
    facts, ops, marks = work.facts, work.operators, work.operators.marks(BACKWARD)
    kept = np.count_nonzero(ops.named((NODE + KEEPS_GRADIENT).__eq__))
    line = matching_line(facts, r"\.requires_grad_\(\s*(True)?\s*\)|\brequires_grad *= *True")
    is_one_more = sum(held) <= trained and 0 < kept == len(marks) * (trained + 1)
    if line is None or not is_one_more or matching_line(facts, _NEEDS_INPUT):
        return None
    layers = np.flatnonzero(ops.named(WEIGHTED_NODE.match) & ops.in_phase(BACKWARD))
    turn = np.searchsorted(ops.trace.start[marks], ops.trace.start[ops.rows[layers]], side="right")
    first = ops.at(layers[np.diff(turn, append=NONE) != 0])
    lost = work.lost(
        work_of(ops, ops.within(first), first),
        line,
        "Backward also computes gradients of what the model is given, which nothing uses{at}: "
        "about half of its first layer's {part}.",
        "gradients of inputs",
        saved=0.5,
    )
    return replace(lost, share=None, fixes=(), advice="let only parameters require gradients")


@rule(
    when="a large embedding table gets dense gradients",
    limits=Limits("As for the optimizer.", 0.10, 0.30),
    answer=(
        "create the table with nn.Embedding(..., sparse=True), and use SGD, Adagrad or SparseAdam"
    ),
)
def dense_gradients(facts: Facts) -> Lost | None:
    """The gradient is as large as the table, and the optimizer updates every row, though a batch
    uses few. With a sparse gradient, Adam's averages of the other rows do not decay, which changes
    the training slightly."""
    judged, work = operator_work(facts), embedding_gradients(facts)
    if not work.calls:
        return None
    rows = _parameters(facts)
    tables = sum(group.tables or 0 for group in rows)
    share = tables / max(sum(group.elements for group in rows), 1)
    if tables < FEWEST_ROWS:
        return None
    gradient = judged.time_of(work)
    update = judged.time_of(of_phases(judged.operators, OPTIMIZER))
    cost = gradient.won + round(share * update.won)
    line = line_with(facts, _TABLES) or line_of(facts, OPTIMIZER)
    return Lost(
        cost,
        judged.of,
        f"Embedding tables of {tables / 1e6:.1f} million numbers{at(line)} get dense gradients, "
        f"and the optimizer updates every row: {judged.of.part_of(cost)}.",
        (
            Figure("dense gradient of embeddings", gradient.ns, "ns"),
            Figure("optimizer", update.ns, "ns"),
            Figure.share("of all elements in tables", share),
        ),
        place=line_place(facts, line, next(filter(_DENSE.match, judged.operators.trace.names))),
        parts=tuple(dict.fromkeys((*gradient.parts, *update.parts))),
    )


def _parameters(facts: Facts) -> tuple[Parameters, ...]:
    parameters = settings(facts).parameters
    if parameters is None:
        raise UnknownError("the parameters were not recorded")
    return parameters


_ZERO_GRAD = re.compile(r"Optimizer\.zero_grad#")


def zeroing(kernels: StepKernels) -> Mask:
    """Kernels that ``zero_grad`` of an optimizer launched."""
    trace = kernels.analysis.trace
    within = kinds.busy(trace, kinds.ranges_named(trace, _ZERO_GRAD.match))
    zeroed: Mask = within.holds(trace.start[kernels.launch]) & (kernels.launch != NONE)
    return zeroed


@rule(
    when="zero_grad fills gradients with zeros",
    limits=Limits("PyTorch's GradNotSetToNonePattern reports every one.", 0.05, 1.0, info=0.01),
    answer="call zero_grad(set_to_none=True)",
)
def zero_grad_memset(facts: Facts) -> Lost | None:
    """By default, gradients are dropped instead. CUDA graphs need them filled."""
    work = kernel_work(facts)
    kernels = work.kernels.kept(zeroing, zeroing)
    if not kernels.time:
        return None
    return Lost(
        work.won(kernels.time),
        work.of,
        f"zero_grad fills gradients with zeros for {work.of_step(kernels.time)}.",
        (Figure("kernels a step", kernels.count, "count"), work.steps),
        kernels.place,
        PARTS,
    )


MOST_READ = 12_000
"""Operators whose numbers are read, 5 us each: those of the first backward passes."""

MOSTLY = 0.9
"""Share of the nodes that a pass must have for the graph that was looked at to be its own."""

_TERMS = r"(\bloss\w*\s*\+?=|\breturn\b)[^#]*(\*[^#]*\+|\+[^#]*\*)|\bloss\w*\s*\+=[^#]*\*"


def _work(analysis: TraceAnalysis, nodes: int, ranges: tuple[tuple[int, int], ...]) -> Work:
    """Nodes of such terms in the steps, the operators that made them, and all they call. Unknown if
    the trace does not number them, or its graphs are others."""
    ops = operators(analysis)
    mine, counted = ops.at(), ops.at()
    marks, trace = ops.marks(BACKWARD), ops.trace
    is_node = ops.named(lambda name: name.startswith(NODE))
    looked_at, read, last = 0, 0, 0
    for mark in marks.tolist():
        begin, end = int(trace.start[mark]), int(trace.start[mark] + trace.duration[mark])
        back = ops.begun(begin, end)
        back, forward = back[is_node[back]], ops.begun(last, begin)
        last, read = end, read + len(back) + len(forward)
        if looked_at and read > MOST_READ:
            break
        numbers = ops.numbers(np.concatenate([back, forward]))
        first = max((numbers[at] for at in back.tolist() if at in numbers), default=NONE)
        wanted = {
            first - offset for lowest, highest in ranges for offset in range(lowest, highest + 1)
        }
        found = [at for at in back.tolist() if numbers.get(at) in wanted]
        if abs(len(numbers.keys() & set(back.tolist())) - nodes) > (1 - MOSTLY) * nodes:
            continue
        # Of operators with one number the last has made the node; those before call it.
        makers = {numbers[at]: at for at in forward.tolist() if numbers.get(at) in wanted}
        counted[found] = True
        mine[[*found, *makers.values()]] = True
        looked_at += 1
    if not looked_at:
        raise UnknownError("the trace shows other graphs than those that were looked at")
    return work_of(ops, ops.within(mine), counted).times(len(marks) / looked_at)


@rule(
    when="a term of the loss is computed and multiplied by 0",
    limits=Limits(),
    answer="leave the term out while its weight is 0",
)
def zero_term(facts: Facts) -> Lost | None:
    """A weight of 0 skips nothing: backward runs through the term with gradients of 0. The graphs
    of a few backward passes are searched. What a term computes without gradients is not counted."""
    notes = notes_of(facts.events, "zero_terms") if facts.run else []
    if not notes or not isinstance(ranges := notes[-1].get("ranges"), list) or not ranges:
        return None
    judged, nodes = operator_work(facts), int(notes[-1]["nodes"])
    analysis, terms = judged.operators.steps.analysis, tuple((a, b) for a, b in ranges)
    # Numbers are read from the file, and a live run is judged every second.
    work = cached((_work, nodes, terms), analysis.worked_out, lambda: _work(analysis, nodes, terms))
    lost = judged.lost(
        work,
        matching_line(facts, _TERMS, only=True),
        "A term of the loss is multiplied by 0{at}: {part} go to computing it, and to its backward "
        "pass, whose gradients are all 0.",
        "computed for nothing",
        Figure("nodes of the term in a step", work.calls, "count"),
        Figure("nodes of the graph", nodes, "count"),
    )
    return replace(lost, is_least=True)
