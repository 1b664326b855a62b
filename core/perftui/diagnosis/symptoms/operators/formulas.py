"""``slow-operator``: operators that compute far more than another formula with the same result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import log2, prod
from typing import Any, NamedTuple

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import Step, TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPERATORS, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost
from perftui.diagnosis.symptoms.operators.costly_operators import slow_operator
from perftui.diagnosis.symptoms.operators.work import OperatorWork, operator_work
from perftui.facts.cpu.operators import Operators, Work, all_operators, work_of
from perftui.facts.fact import Facts, UnknownError, cached, notes_of, trace_fact
from perftui.facts.question import Evidence, Question
from perftui.facts.source.source_calls import matching_line
from perftui.trace.model import NONE

MOST_READ, PROBED = 1_000, 16
"""Longest operators whose sizes are read, 5 to 100 us each, as all steps do the same; and of these,
as many as show whether the trace has sizes."""


class Call(NamedTuple):
    """One call of an operator."""

    at: int
    """Its position in ``Operators``."""
    name: str
    is_back: bool
    sizes: list[list[int]]
    strides: list[list[int]]
    others: list[str]
    """Arguments that are no tensors, as text; empty for tensors."""


@dataclass(frozen=True, eq=False)
class Calls:
    """The longest calls of the steps."""

    ops: Operators
    longest: tuple[Call, ...]
    zeros: dict[tuple[int, int], float]
    """Share of zeros in matrices that the model was given, by their sizes."""

    def step_of(self, call: Call) -> Step | None:
        """The steady step that it is in."""
        return self.ops.step_at(int(self.ops.trace.start[self.ops.rows[call.at]]))

    def one_hot(self, call: Call) -> list[Call]:
        """The calls that make a one-hot matrix, if ``call`` sets its ones: within ``one_hot``, or
        one in each row of new zeros."""
        if call.name != "aten::scatter_":
            return []
        above, step, sizes = int(self.ops.caller[call.at]), self.step_of(call), call.sizes[0]
        if above != NONE and self.ops.trace.names[self.ops.name[above]] == "aten::one_hot":
            return [call]
        zeros = (one for one in self.longest if one.name == "aten::zero_" and one.at < call.at)
        made = [one for one in zeros if one.sizes[0] == sizes and self.step_of(one) == step]
        return [*made, call] if made and [*sizes[:-1], 1] in call.sizes[2:3] else []

    def products(self, *sizes: int) -> list[Call]:
        """Matrix products with an operand of these sizes, or transposed."""
        products = (call for call in self.longest if _PRODUCT.match(call.name))
        return [one for one in products if sorted(sizes) in (sorted(s[-2:]) for s in one.sizes)]


_PRODUCT = re.compile(r"aten::(mm|addmm|bmm|baddbmm)$")


class Formula(NamedTuple):
    """Calls that another formula replaces."""

    what: str
    """What they do, to begin a sentence with."""
    advice: str
    calls: list[Call]
    saved: float
    """Share of their time that is saved, 0 to 1."""
    line: str
    """Pattern for the text of the line that makes them."""


FEWEST_TAPS, TRANSFORMED = 64, 5
"""Numbers of a filter from which Fourier transforms may pay on one core, and their operations in a
ns: 9 by measurement, with the backward pass. With 64, a depthwise filter over 4,000 numbers took
12 ms and transforms 5. SciPy's choose_conv_method compares such estimates."""

FEWEST_ON_GPU, DIRECT = 256, 10
"""On a GPU: numbers of a filter from which, and how many times as fast as those of a transform the
operations of a direct convolution may be."""


def _long_filters(calls: Calls) -> Iterator[Formula]:
    """Direct convolution takes operations for each number of the filter; a transform only for the
    logarithm of the length."""
    on_device, mine = calls.ops.device is not None, []
    direct, transformed, taps = 0.0, 0.0, 0
    for call in calls.longest:
        times = {"aten::convolution": 1, "aten::convolution_backward": 2}.get(call.name, 0)
        inputs, weight = call.sizes[times - 1 :][:2] if times else ([], [])
        if prod(weight[2:]) < (FEWEST_ON_GPU if on_device else FEWEST_TAPS):
            continue
        sides = zip(inputs[2:], weight[2:], strict=True)
        length = prod(1 << (side + window - 2).bit_length() for side, window in sides)
        signals = inputs[0] * (inputs[1] + weight[0]) + prod(weight[:2])
        products = 4 * length * inputs[0] * prod(weight[:2])
        needed = times * (2.5 * length * log2(length) * signals + products)
        operations = times * 2 * inputs[0] * prod(inputs[2:]) * prod(weight)
        transformed += needed * DIRECT if on_device else needed / TRANSFORMED
        direct += operations if on_device else int(calls.ops.spent[call.at])
        taps = max(taps, prod(weight[2:]))
        mine.append(call)
    if mine and 2 * transformed <= direct:
        what = f"Convolving directly with filters of {taps} numbers"
        yield Formula(what, _BY_TRANSFORM, mine, 1 - transformed / direct, r"conv|filter")


_BY_TRANSFORM = (
    "convolve by Fourier transforms: torch.fft.irfft(torch.fft.rfft(x, n) * "
    "torch.fft.rfft(weight.flip(-1), n), n), or torchaudio.functional.fftconvolve"
)

FEWEST_PAIRED, AS_PASSES = 3, 1.5
"""Numbers of each of the paired vectors, and for how many of them torch.cdist takes as long: with 3
it took half of the time, with 8 a seventh, with 64 a tenth, and a matrix product a thirtieth."""

_OF_PAIRS = (
    (
        "aten::sub",
        "Computing differences",
        "use torch.cdist(a, b), or a @ b.T and the squares of both",
    ),
    ("aten::pairwise_distance", "Computing differences", "torch.cdist(a, b)"),
    ("aten::mul", "Computing products", "use one matrix product: a @ b.T, or torch.einsum"),
    ("aten::cosine_similarity", "Computing cosines", "normalise the vectors once, then a @ b.T"),
)
"""Operators that may be given pairs, what they do, and what to do instead."""

_IN_PAIRS = re.compile(
    r"aten::(sub|mul|div|pow|square|abs|neg|sqrt|clamp\w*|sum|mean|(linalg_)?(vector_)?norm|fill"
    r"|to|_to_copy|copy|empty\w*|(zeros|ones)_like|result_type|expand\w*|as_strided)_?$"
)
"""What may be done with all pairs until they are summed."""

_SUMMED = re.compile(r"aten::(sum|mean|norm|linalg_vector_norm)$")


def _pairs(calls: Calls) -> Iterator[Formula]:
    """Differences, products or cosines of all pairs of vectors, which are then summed."""
    for operator, what, advice in _OF_PAIRS:
        forward = [call for call in calls.longest if call.name == operator and not call.is_back]
        for sizes in {tuple(_paired(call)) for call in forward} - {()}:
            used = [call for call in calls.longest if list(sizes) in call.sizes]
            names = {call.name for call in used if not call.is_back}
            is_summed = any(map(_SUMMED.match, names)) and all(map(_IN_PAIRS.match, names))
            # Others sum inside.
            if is_summed or operator not in ("aten::sub", "aten::mul"):
                mine = [*(call for call in forward if tuple(_paired(call)) == sizes), *used]
                shown = " x ".join(map(str, sizes))
                what = f"{what} of all pairs of vectors, {shown} numbers that are then summed,"
                line = r"unsqueeze|None|newaxis|osine|imilarity|istance|expand"
                yield Formula(what, advice, mine, 1 - AS_PASSES / sizes[-1], line)


def _paired(call: Call) -> list[int]:
    """The size of the result if each of two operands is repeated along a dimension of the other,
    and both have the last one; empty elsewhere."""
    left, right = call.sizes[:2] if len(call.sizes) > 1 else ([], [])
    if not 2 < len(left) == len(right) or not FEWEST_PAIRED <= left[-1] == right[-1]:
        return []
    # An expanded dimension has a stride of 0.
    repeats = [
        [size == 1 or not stride for size, stride in zip(*operand, strict=True)]
        for operand in zip((left, right), call.strides, strict=False)
    ]
    result = [max(pair) for pair in zip(left, right, strict=True)]
    ways = {(one, other) for one, other, n in zip(*repeats, result, strict=True) if n > 1}
    return result if {(True, False), (False, True)} <= ways else []


LARGE_MATRIX, PER_ELEMENT = 1 << 18, 40
"""Elements of a matrix from which a sparse one pays, and how many times as long its product takes
for each that is not zero: of 1,000 x 1,000 with 1 % of them it took a third of the time, and with
2.5 % as long."""

FEWEST_CLASSES = 20
"""Classes from which a one-hot matrix has at least 95 % zeros."""

_MULTIPLIES = r"matmul|\bb?mm\(|einsum| @ |inear|\w\("


def _mostly_zeros(calls: Calls) -> Iterator[Formula]:
    """Products with one-hot matrices, which take rows of a table, and with matrices such as who is
    next to whom in a graph."""
    ones = [(call, made) for call in calls.longest if (made := calls.one_hot(call))]
    for call, _ in ones:
        *rows, classes = call.sizes[0]
        size = [prod(rows), classes]
        products = calls.products(*size)
        # One-hot targets come after the model.
        later = (one for one in products if one.at > call.at and not one.is_back)
        near = (one for one in later if calls.step_of(one) == calls.step_of(call))
        if classes >= FEWEST_CLASSES and any(size in (s[-2:] for s in one.sizes) for one in near):
            what = f"Multiplying by a one-hot matrix of {size[0]} x {classes} numbers"
            alike = (made for like, made in ones if like.sizes == call.sizes)
            work = [*products, *chain.from_iterable(alike)]
            yield Formula(what, _BY_INDEX, work, 1 - 1 / classes, _MULTIPLIES)
            break
    for (height, width), zeros in calls.zeros.items():
        products, saved = calls.products(height, width), 1 - PER_ELEMENT * (1 - zeros)
        if products and saved > 0 and height * width >= LARGE_MATRIX:
            share = fmt.percent(int(100 * zeros) / 100)
            what = f"Multiplying by a matrix of {height} x {width} numbers, {share} of them zeros,"
            yield Formula(what, _BY_SPARSE, products, saved, _MULTIPLIES)


_BY_INDEX = "look the rows up: an Embedding, torch.nn.functional.embedding(ids, table), weight[ids]"
_BY_SPARSE = (
    "make it sparse once (.to_sparse_csr(), or to_sparse_coo().coalesce()) and use "
    "torch.sparse.mm, or gather the neighbours and index_add_ them"
)

THIN = 4
"""How many times the inner dimension of a product goes into both others at least."""

_FACTORS = r"@ \(?[\w.]+ @ |(linear|matmul|mm)\(.*(@|matmul|mm\()"


_AS_A_WHOLE = re.compile(
    r"aten::(t|transpose|permute|expand|as_strided|(_unsafe_)?view|reshape|detach|alias|to"
    r"|resolve_(conj|neg)|matmul|linear)$"
)
"""What may be done with a weight as a whole."""


def _thin_factors(calls: Calls) -> Iterator[Formula]:
    """The two thin factors of a weight are multiplied before the input is, which makes all of the
    weight; the other way round there are two thin products."""
    products = [call for call in calls.longest if _PRODUCT.match(call.name)]
    for made in (call for call in products if call.name == "aten::mm" and not call.is_back):
        if [*map(len, made.sizes[:2])] != [2, 2] or not all(map(prod, made.sizes[:2])):
            continue
        (height, thin), (_, width) = made.sizes[:2]
        if THIN * thin > min(height, width):
            continue
        users = [one for one in calls.products(height, width) if one.at > made.at]
        whole = ([height, width], [width, height])
        forward = (one for one in calls.longest if not one.is_back and one.at > made.at)
        between = {one.name for one in forward if any(size in whole for size in one.sizes)}
        sides = {side for one in users if not one.is_back for size in one.sizes for side in size}
        rows = max(sides - {height, width, 1}, default=0)
        work = {height, width, thin, rows}
        again = rows * thin * (height + width) / (height * width * (thin + rows))
        # An activation between the products makes them two layers.
        is_whole = all(_PRODUCT.match(name) or _AS_A_WHOLE.match(name) for name in between)
        if users and rows and is_whole and again <= 0.5:
            what = f"Multiplying two thin matrices to one of {height} x {width} numbers"
            advice = "multiply by the thin factors one after the other: (x @ a) @ b"
            used = [one for one in products if work.issuperset(chain(*one.sizes))]
            yield Formula(what, advice, used, 1 - again, _FACTORS)
            break


AS_WIDE = 5
"""Side of a window whose pooling takes as long as rows and columns one after the other: of 9 x 9
that took half of the time, of 13 x 13 two fifths, on one core."""


def _wide_pools(calls: Calls) -> Iterator[Formula]:
    """The maximum of a window is that of the maxima of its rows."""
    wide, saved, time = list[Call](), 0.0, 0
    for call in calls.longest:
        if call.name.startswith("aten::max_pool") and not call.is_back:
            given = [[*map(int, re.findall(r"\d+", str(text)))] for text in call.others[1:3]]
            window, stride = given if len(given) == 2 else ([], [])
            if len(window) > 1 and min(window) > AS_WIDE and set(stride) == {1}:
                wide.append(call)
                spent = int(calls.ops.spent[call.at])
                saved, time = saved + spent * (1 - AS_WIDE / min(window)), time + spent
    if wide:
        what = "Max pooling with a wide window at each pixel"
        advice = (
            "chain small ones: MaxPool2d(5) twice is one of 9, three times one of 13; or pool "
            "rows and columns one after the other, (k, 1) and (1, k)"
        )
        yield Formula(what, advice, wide, saved / time, r"(?i)pool")


_DECOMPOSES = re.compile(
    r"aten::(linalg_)?(cholesky|lu|qr|svd|eig|inv|(triangular_)?solve|lstsq|(slog|log)?det|pinv"
    r"|matrix_exp)"
)


def _equal_matrices(calls: Calls) -> Iterator[Formula]:
    """One matrix, expanded to a batch, is decomposed or solved once for each of the batch."""
    for call in calls.longest:
        if not _DECOMPOSES.match(call.name):
            continue
        batch = zip(call.sizes[0][:-2], call.strides[0][:-2], strict=True)
        times = prod(size for size, stride in batch if stride == 0)
        if times > 1:
            node = re.compile(rf"\W{call.name[6:].replace('_', '')}\w*Backward", re.IGNORECASE)
            back = np.flatnonzero(calls.ops.named(node.search)).tolist()
            mine = [one for one in calls.longest if one.name == call.name]
            mine += [call._replace(at=at) for at in back]
            what = f"Calling {call.name} for {times} equal matrices, one expanded to a batch,"
            advice = "call it once, for the matrix before expand(), and expand the result"
            yield Formula(what, advice, mine, 1 - 1 / times, r"linalg|cholesky|Normal|expand")
            break


FEW_ROWS = 12
"""Rows of each sample from which one product for all hardly takes less than one for each: with 1
row that took 32 to 51 times as long, with 4 ten, with 16 two to three, with 64 a fifth more, on one
core, with the backward pass; this claims less."""


def _shared_weight(calls: Calls) -> Iterator[Formula]:
    """One matrix, expanded to a batch, is multiplied by each sample's few rows, and backward makes
    a gradient of it for each sample."""
    products = [call for call in calls.longest if _BATCHED.match(call.name)]
    mine, weights, most = dict[int, float](), list[list[int]](), (0, 0)
    for call in (call for call in products if not call.is_back):
        pairs = [*zip(call.sizes, call.strides, strict=True)]
        matrices = [pair for pair in pairs if len(pair[0]) == 3][-2:]
        if len(matrices) < 2:
            continue
        (left, of_left), (right, of_right) = matrices
        samples, is_right = left[0], of_right[0] == 0
        rows = left[1] if is_right else right[2]
        if samples < 2 or is_right == (of_left[0] == 0) or rows >= 4 * FEW_ROWS:
            continue
        sides, most = {*left, *right}, max(most, (rows, samples))
        weights.append(right if is_right else left)
        alike = (one for one in products if sides.issuperset(chain(*one.sizes[-2:])))
        mine |= {one.at: FEW_ROWS / (rows + FEW_ROWS) for one in (call, *alike)}
    if mine:
        sums = [one for one in calls.longest if one.name == "aten::sum"]
        mine |= {one.at: 1.0 for one in sums if any(size in weights for size in one.sizes)}
        work = [one for one in calls.longest if one.at in mine]
        spent = [max(int(calls.ops.spent[one.at]), 1) for one in work]
        saved = np.average([mine[one.at] for one in work], weights=spent)
        what = f"Multiplying one matrix by {most[0]} rows of each of {most[1]} samples"
        yield Formula(what, _AS_ONE, work, float(saved), r"bmm|matmul|einsum| @ |expand")


_BATCHED = re.compile(r"aten::(bmm|baddbmm)$")
_AS_ONE = "use one product for all samples: x @ weight without expand(), or F.linear(x, weight.t())"


@trace_fact
def _longest(analysis: TraceAnalysis) -> tuple[Call, ...]:
    """The longest calls of operators outside the optimizer that have recorded sizes."""
    ops, longest = all_operators(analysis), []
    back = ops.in_phase(BACKWARD)
    order = np.argsort(-np.where(ops.in_phase(OPTIMIZER), 0, ops.spent), kind="stable")[:MOST_READ]
    if not any(given.get("Input Dims") for given in ops.arguments(order[:PROBED]).values()):
        return ()
    for at, given in ops.arguments(order).items():
        sizes, strides = (given.get(name) or [] for name in ("Input Dims", "Input Strides"))
        if sizes and [*map(_dimensions, sizes)] == [*map(_dimensions, strides)]:
            name = ops.trace.names[ops.name[at]]
            others = given.get("Concrete Inputs")
            texts = others if isinstance(others, list) else []
            longest.append(Call(at, name, bool(back[at]), sizes, strides, texts))
    return tuple(longest)


def _formulas(facts: Facts, work: OperatorWork) -> tuple[tuple[Formula, Work], ...]:
    """What another formula computes as well, and what it takes; cached with the trace."""
    ops, notes = work.operators, notes_of(facts.events, "zeros")
    longest = _longest(ops.steps.analysis)
    has_factors = matching_line(facts, _FACTORS) is not None
    if not longest and facts.run:
        multiplies = notes or "aten::scatter_" in ops.trace.names
        pattern = _MULTIPLIED if multiplies or has_factors else _ASKED
        kept = ops.steps.analysis.worked_out
        taken = cached(pattern, kept, lambda: work_of(ops, ops.within(ops.named(pattern.match))))
        share = work.time_of(taken).won / work.of.mean
        about = "whether another formula computes less"
        raise UnknownError(Question(Evidence.SHAPES, about, share))
    names = ("rows", "columns", "zeros", "read")
    looks: list[Any] = [[note.get(name) for name in names] for note in notes]
    whole = (look for look in looks if all(type(n) is int and n >= 0 for n in look) and look[3])
    zeros = {(rows, columns): found / read for rows, columns, found, read in whole}

    def compute() -> tuple[tuple[Formula, Work], ...]:
        calls = Calls(ops, longest, zeros)
        searches = [_long_filters, _pairs, _mostly_zeros, _wide_pools, _equal_matrices]
        # By sizes alone an input may look like a weight.
        searches += [_shared_weight, *([_thin_factors] if has_factors else [])]
        found = [formula for search in searches for formula in search(calls)]
        called = [ops.at([call.at for call in formula.calls]) for formula in found]
        return tuple(zip(found, (work_of(ops, ops.within(c), c) for c in called), strict=True))

    key = (_formulas, has_factors, *zeros.items())
    return cached(key, ops.steps.analysis.worked_out, compute)


def _dimensions(size: object) -> int | None:
    """How many an operand has; None where that is damaged."""
    return len(size) if isinstance(size, list) else None


_ASKED = re.compile(r"aten::(convolution\w*|max_pool\dd\w*|sub|mul|sum|bmm|baddbmm|linalg_\w+)$")
_MULTIPLIED = re.compile(f"{_ASKED.pattern}|{_PRODUCT.pattern}")


def _formula(facts: Facts) -> Lost | None:
    judged, losses = operator_work(facts, whole=True), []
    for formula, work in _formulas(facts, judged):
        lost = judged.lost(
            work,
            judged.line_of(work.longest_of(FORWARD, OPERATORS, OTHER), formula.line),
            f"{formula.what}{{at}} takes {{part}}; another formula computes the same.",
            "computed the long way",
            Figure("calls in a step", work.calls, "count"),
            operator=formula.calls[0].name,
            saved=formula.saved,
        )
        losses.append(replace(lost, advice=formula.advice))
    return max(losses, key=lambda lost: lost.cost_ns, default=None)


FORMULA = replace(
    slow_operator, lost=_formula, limits=Limits("Without another formula from 25 %.", 0.10, 0.40)
)
