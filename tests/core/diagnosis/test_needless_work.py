"""Operators that do more than is needed: views that cost whole tensors, formulas for which another
computes the same with less, and terms of the loss that are multiplied by 0."""

import itertools
from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from perftui.diagnosis.symptoms.operators import formulas
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import MS, NODE, call, make_run, ops, trained
from tests.core.diagnosis.stories import diagnosed, finding_of, found, reasons
from tests.traces.builder import TraceBuilder, us

FILLED, EXPANDED = "filled-gradients", "expanded-operand"
LINES = (("/p/model.py", 12, "forward"), ("/p/train.py", 10, "backward"))
PHASES = {"forward": 40.0, "backward": 60.0}


def pieces(
    zeros: float, *, count: int = 10, tensors: int = 1, within: tuple[str, ...] = ()
) -> Facts:
    """Pieces of so many tensors, each with ``zeros`` ms that fill a whole one; they are taken by
    the operators ``within``."""

    def step(t: TraceBuilder) -> None:
        t.forward()
        for _ in range(count):
            call(t, *within, "aten::select", lasting=100)
        ops(t, "aten::linear", each=40_000 - 100 * count).close().backward()
        for at in range(count):
            t.op(f"{NODE}SelectBackward0")
            call(
                t,
                "SelectBackward0",
                "aten::select_backward",
                "aten::zeros",
                "aten::fill_",
                lasting=zeros * 1000,
            )
            if at >= tensors:
                ops(t, "aten::add_", each=1)
            t.close()
        t.pause(us(60_000 - count * zeros * 1000 - (count - tensors))).close()

    return trained(step, PHASES, *LINES)


def assigned(lasting: float) -> Facts:
    """Ten assignments to slices, whose gradients are copied for so many ms each."""

    def step(t: TraceBuilder) -> None:
        ops(t.forward(), "aten::linear", each=40_000).close().backward()
        for _ in range(10):
            t.op(f"{NODE}torch::autograd::CopySlices")
            call(t, "torch::autograd::CopySlices", "aten::copy_", lasting=lasting * 1000).close()
        t.pause(us(60_000 - 10_000 * lasting)).close()

    return trained(step, PHASES, *LINES)


def expanded(
    copying: float,
    *,
    follows: bool = True,
    sums: bool = True,
    product: str = "aten::bmm",
    sizes: tuple[list[int], list[int]] | None = None,
    stride: int = 0,
) -> Facts:
    """A product whose operand is copied for so many ms, and its gradient summed for as many, if it
    ``sums``; its copy ``follows`` an expand. Products take 10 ms each way."""
    dims: dict[str, Any] = {"Input Dims": sizes} if sizes else {}
    strides: dict[str, Any] = {"Input Strides": [[stride, 3, 1]], "Input Dims": [[5, 2, 3]]}

    numbers = itertools.count(6, 10)

    def step(t: TraceBuilder) -> None:
        first = next(numbers)
        t.forward().op("aten::matmul", **{"Sequence number": first})
        t.op(
            "aten::clone",
            **{"Sequence number": first + (2 if follows else 3), **(strides if sizes else {})},
        )
        ops(t, "aten::copy_", each=copying * 1000).close()
        t.op(product, us(10_000), **{"Sequence number": first + 4, **dims}).close()
        t.pause(us(30_000 - copying * 1000)).close().backward()
        t.op(f"{NODE}BmmBackward0").op("BmmBackward0", **{"Sequence number": first + 4})
        ops(t, "aten::bmm", each=10_000).close().close()
        t.op(f"{NODE}ExpandBackward0").op("ExpandBackward0", **{"Sequence number": first + 1})
        ops(t, *(("aten::sum",) if sums else ()), each=copying * 1000).close().close()
        t.pause(us(50_000 - (copying * 1000 if sums else 0))).close()

    return trained(step, PHASES, *LINES)


def test_a_packed_sequence_has_advice_of_its_own() -> None:
    finding = finding_of(pieces(5, within=("aten::lstm",)), FILLED)
    assert finding.sentence.startswith("aten::lstm takes a packed sequence apart, and backward ")
    assert finding.advice.startswith("pass padded input")


def test_assignments_to_slices_copy_gradients() -> None:
    finding = finding_of(assigned(3), FILLED)
    assert finding.sentence == (
        "Backward copies the gradient of a whole tensor for each of 10 assignments to slices at "
        "model.py:12, which takes 30 ms of each 100 ms step (30 %)."
    )
    assert finding.advice.startswith("collect the pieces")


def test_thin_products_of_an_expanded_operand_count_half() -> None:
    thin = finding_of(expanded(5, sizes=([64, 96, 96], [64, 96, 1])), EXPANDED)
    assert (thin.is_least, thin.cost_ns) == (False, pytest.approx(20 * MS, rel=0.01))
    wide = finding_of(expanded(5, sizes=([64, 96, 96], [64, 96, 128])), EXPANDED)
    assert (wide.is_least, wide.cost_ns) == (True, pytest.approx(10 * MS, rel=0.01))
    assert wide.question is None
    unknown = finding_of(expanded(5), EXPANDED).question
    assert unknown is not None
    assert unknown.share == pytest.approx(0.1, rel=0.01)


def test_recorded_strides_show_what_has_no_gradient() -> None:
    sizes = ([64, 96, 96], [64, 96, 128])
    assert found(expanded(9, sums=False, sizes=sizes), EXPANDED) is not None
    assert found(expanded(9, sums=False, sizes=sizes, stride=6), EXPANDED) is None


def test_copies_of_an_expanded_operand_are_no_layout_copies() -> None:
    assert found(expanded(20, sums=False), "layout-copies") is None


Sizes = list[list[int]]

SIGNALS = [[8, 1, 16_000], [1, 1, 512]]
PAIRS, ALL = [[256, 1, 64], [1, 200, 64]], [[256, 200, 64]]
ONES, BY_ONES = [[384, 500], [], [384, 1]], [[384, 500], [500, 64]]
GRAPH = [[2000, 2000], [2000, 32]]
FACTORS, IMAGE = [[384, 24], [24, 4000]], [[8, 24, 48, 48]]
ZEROS = {"rows": 2000, "columns": 2000, "zeros": 510, "read": 512}


def called(
    *operators: tuple[str, Sizes],
    strides: Sizes | None = None,
    zeros: dict[str, int] | None = None,
    others: tuple[str, ...] = (),
) -> Facts:
    """Operators with operands of these sizes, which share 30 ms of a forward pass of 40."""

    def step(t: TraceBuilder) -> None:
        t.forward()
        for name, sizes in operators:
            above = ("aten::one_hot",) if name == "aten::scatter_" and len(sizes) == 1 else ()
            for outer in above:
                t.op(outer).op("aten::max", us(1), **{"Input Dims": [[]], "Input Strides": [[]]})
            given: dict[str, Any] = {
                "Input Dims": sizes,
                "Concrete Inputs": others,
                "Input Strides": (strides or [])[: len(sizes)]
                or [[1] * len(size) for size in sizes],
            }
            t.op(name, us(30_000 / len(operators)), **given)
            for _ in above:
                t.close()
        call(t, "aten::linear", lasting=10_000).close().backward().pause(us(60_000)).close()

    return trained(step, PHASES, *LINES, more=(("zeros", zeros),) if zeros else ())


@pytest.mark.parametrize(
    ("facts", "says", "advice"),
    [
        (
            called(("aten::convolution", SIGNALS)),
            "Convolving directly with filters of 512 numbers at model.py:12 takes 30 ms",
            "convolve by Fourier",
        ),
        (
            called(("aten::sub", PAIRS), ("aten::pow", ALL), ("aten::sum", ALL)),
            "Computing differences of all pairs of vectors, 256 x 200 x 64 numbers that are then ",
            "use torch.cdist",
        ),
        (
            called(
                ("aten::mul", [*ALL, *ALL]), ("aten::sum", ALL), strides=[[64, 0, 1], [0, 64, 1]]
            ),
            "Computing products of all pairs of vectors",
            "use one matrix product",
        ),
        (called(("aten::cosine_similarity", PAIRS)), "Computing cosines", "normalise the vectors"),
        (
            called(("aten::scatter_", [[384, 500]]), ("aten::mm", [[384, 500], [500, 64]])),
            "Multiplying by a one-hot matrix of 384 x 500 numbers at model.py:12 takes 30 ms",
            "look the rows up",
        ),
        (
            called(("aten::zero_", ONES[:1]), ("aten::scatter_", ONES), ("aten::mm", BY_ONES)),
            "Multiplying by a one-hot matrix of 384 x 500 numbers at model.py:12 takes 30 ms",
            "look the rows up",
        ),
        (
            called(("aten::mm", GRAPH), zeros=ZEROS),
            "Multiplying by a matrix of 2000 x 2000 numbers, 99 % of them zeros, at model.py:12 ",
            "make it sparse once",
        ),
        (
            called(("aten::max_pool2d_with_indices", IMAGE), others=("", "[9, 9]", "[1, 1]")),
            "Max pooling with a wide window at each pixel at model.py:12 takes 30 ms",
            "chain small ones",
        ),
        (
            called(("aten::linalg_cholesky_ex", [[24, 64, 64]]), strides=[[0, 64, 1]]),
            "Calling aten::linalg_cholesky_ex for 24 equal matrices, one expanded to a batch, at ",
            "call it once",
        ),
        (
            called(
                ("aten::bmm", [[256, 2, 64], [256, 64, 96]]), strides=[[128, 64, 1], [0, 96, 1]]
            ),
            "Multiplying one matrix by 2 rows of each of 256 samples at model.py:12 takes 30 ms",
            "use one product",
        ),
    ],
)
def test_another_formula_is_named_with_its_line(facts: Facts, says: str, advice: str) -> None:
    finding = finding_of(facts, "slow-operator")
    assert finding.sentence.startswith(says)
    assert finding.advice.startswith(advice)
    assert finding.severity >= Severity.WARNING


def test_thin_factors_are_told_where_the_script_multiplies_two_before_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    product = "aten::mm", [[128, 384], [384, 4000]]
    facts = called(("aten::mm", FACTORS), product)
    # By sizes alone it may be two layers, as it is with an activation between them.
    assert not others_of(facts)
    monkeypatch.setattr(f"{formulas.__name__}.matching_line", lambda *_: True)
    assert not others_of(called(("aten::mm", FACTORS), ("aten::relu", [[384, 4000]]), product))
    thick = called(("aten::mm", [[384, 99], [99, 4000]]), ("aten::mm", [[99, 384], [384, 4000]]))
    assert not others_of(thick)
    (said,) = others_of(called(("aten::mm", FACTORS), product))
    assert said.startswith("Multiplying two thin matrices to one of 384 x 4000 numbers at model.py")


@pytest.mark.parametrize(
    "facts",
    [
        # A few numbers, or many channels, which direct convolution computes fast.
        called(("aten::convolution", [[8, 1, 16_000], [1, 1, 31]])),
        called(("aten::convolution", [[64, 512, 4096], [512, 512, 64]])),
        # What tanh leaves of the pairs has no formula in products.
        called(("aten::sub", PAIRS), ("aten::tanh", ALL), ("aten::sum", ALL)),
        # One operand is repeated, which is no pair.
        called(("aten::mul", [[256, 200, 64], [1, 200, 64]]), ("aten::sum", ALL)),
        # Zeros that were not seen, too few of them, and a one-hot matrix after the model.
        called(("aten::mm", GRAPH)),
        called(("aten::mm", GRAPH), zeros={**ZEROS, "zeros": 490}),
        called(("aten::mm", BY_ONES), ("aten::scatter_", ONES[:1])),
        # Several ones in a row, and one in a row of what is there.
        called(
            ("aten::zero_", ONES[:1]),
            ("aten::scatter_", [*ONES[:2], [384, 4]]),
            ("aten::mm", BY_ONES),
        ),
        called(("aten::scatter_", ONES), ("aten::mm", BY_ONES)),
        # Windows that are small, not at each pixel, or not known.
        called(("aten::max_pool2d_with_indices", IMAGE), others=("", "[5, 5]", "[1, 1]")),
        called(("aten::max_pool2d_with_indices", IMAGE)),
        called(("aten::mm", [[0, 8], [8, 99]]), ("aten::mm", [[9, 0], [0, 99]])),
        called(("aten::max_pool2d_with_indices", IMAGE), others=("", "[9, 9]", "[9, 9]")),
        # Each sample has many rows of its own.
        called(("aten::bmm", [[8, 64, 64], [8, 64, 96]]), strides=[[4096, 64, 1], [0, 96, 1]]),
        # Each of the batch is another matrix.
        called(("aten::mm", GRAPH), ("aten::bmm", [[24, 64, 64], [24, 64, 1]])),
    ],
)
def test_what_no_other_formula_replaces_is_left_alone(facts: Facts) -> None:
    assert not others_of(facts)


def others_of(facts: Facts) -> list[str]:
    said = [finding.sentence for finding in diagnosed(facts).findings]
    return [one for one in said if "another formula" in one]


def term(lasting: float, *, notes: tuple[dict[str, Any], ...] | None = None) -> Facts:
    """Steps of 100 ms, with a term of so many ms each way. Of each step's four nodes, the second
    and third from the first one belong to it."""
    numbers = itertools.count(10, 10)

    def step(t: TraceBuilder) -> None:
        first = next(numbers)
        t.step().forward()
        for offset, each in ((3, 40 - lasting), (2, lasting / 2), (1, lasting / 2)):
            # The caller has the number of what it calls first, and makes no node.
            t.op("aten::linear", **{"Sequence number": first - offset})
            t.op("aten::addmm", us(1000 * each), **{"Sequence number": first - offset}).close()
        ops(t, "aten::relu", each=0).close().backward()
        for offset, each in ((0, 0), (1, lasting / 2), (2, lasting / 2), (3, 60 - lasting)):
            t.op(f"{NODE}AddmmBackward0", **{"Sequence number": first - offset})
            ops(t, "aten::mm", each=1000 * each).close()
        t.close().end()

    seen = notes if notes is not None else ({"nodes": 4, "ranges": [[1, 2]]},)
    run = make_run(100, PHASES, events=tuple(("zero_terms", note) for note in seen))
    return Facts(run, TraceBuilder().repeat(2, step).analysis())


def test_nodes_of_a_zero_term_and_what_made_them_are_for_nothing() -> None:
    finding = finding_of(term(15), "zero-term")
    assert finding.sentence == (
        "A term of the loss is multiplied by 0: 30 ms of each 100 ms step (30 %) go to computing "
        "it, and to its backward pass, whose gradients are all 0."
    )
    assert finding.cost_ns == pytest.approx(30 * MS, rel=0.01)
    assert finding.is_least


def test_the_last_look_at_the_terms_counts() -> None:
    zero, none = {"nodes": 4, "ranges": [[1, 2]]}, {"nodes": 4, "ranges": []}
    assert found(term(15, notes=(zero, none)), "zero-term") is None
    assert found(term(15, notes=(none, zero)), "zero-term") is not None
    assert found(term(15, notes=()), "zero-term") is None


def test_terms_of_another_graph_are_not_judged() -> None:
    facts = term(15, notes=({"nodes": 9, "ranges": [[1, 2]]},))
    assert "other graphs" in reasons(facts)["zero-term"]
