"""Operators for which another formula computes the same with less."""

from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import call, trained
from tests.core.diagnosis.stories import diagnosed, finding_of
from tests.traces.builder import TraceBuilder, us

Sizes = list[list[int]]

SIGNALS = [[8, 1, 16_000], [1, 1, 512]]
PAIRS, ALL = [[256, 1, 64], [1, 200, 64]], [[256, 200, 64]]
GRAPH = [[2000, 2000], [2000, 32]]
ZEROS = {"rows": 2000, "columns": 2000, "zeros": 510, "read": 512}


def called(
    *operators: tuple[str, Sizes], strides: Sizes | None = None, zeros: dict[str, int] | None = None
) -> Facts:
    """Operators with operands of these sizes, which share 30 ms of a forward pass of 40."""

    def step(t: TraceBuilder) -> None:
        t.forward()
        for name, sizes in operators:
            above = ("aten::one_hot",) if name == "aten::scatter_" else ()
            for outer in above:
                t.op(outer).op("aten::max", us(1), **{"Input Dims": [[]], "Input Strides": [[]]})
            given: dict[str, Any] = {
                "Input Dims": sizes,
                "Input Strides": (strides or [])[: len(sizes)]
                or [[1] * len(size) for size in sizes],
            }
            t.op(name, us(30_000 / len(operators)), **given)
            for _ in above:
                t.close()
        call(t, "aten::linear", lasting=10_000).close().backward().pause(us(60_000)).close()

    lines = (("/p/model.py", 12, "forward"), ("/p/train.py", 10, "backward"))
    notes = (("zeros", zeros),) if zeros else ()
    return trained(step, {"forward": 40.0, "backward": 60.0}, *lines, more=notes)


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
            "torch.cdist",
        ),
        (
            called(
                ("aten::mul", [*ALL, *ALL]), ("aten::sum", ALL), strides=[[64, 0, 1], [0, 64, 1]]
            ),
            "Computing products of all pairs of vectors",
            "one matrix product",
        ),
        (called(("aten::cosine_similarity", PAIRS)), "Computing cosines", "normalise the vectors"),
        (
            called(("aten::scatter_", [[384, 500]]), ("aten::mm", [[384, 500], [500, 64]])),
            "Multiplying by a one-hot matrix of 384 x 500 numbers at model.py:12 takes 15 ms",
            "look the rows up",
        ),
        (
            called(("aten::mm", GRAPH), zeros=ZEROS),
            "Multiplying by a matrix of 2000 x 2000 numbers, 99 % of them zeros, at model.py:12 ",
            "make it sparse once",
        ),
        (
            called(("aten::linalg_cholesky_ex", [[24, 64, 64]]), strides=[[0, 64, 1]]),
            "Calling aten::linalg_cholesky_ex for 24 equal matrices, one expanded to a batch, at ",
            "do it once",
        ),
    ],
)
def test_another_formula_is_named_with_its_line(facts: Facts, says: str, advice: str) -> None:
    finding = finding_of(facts, "slow-operator")
    assert finding.sentence.startswith(says)
    assert finding.advice.startswith(advice)
    assert finding.severity >= Severity.WARNING


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
        called(("aten::mm", [[384, 500], [500, 64]]), ("aten::scatter_", [[384, 500]])),
        # Each of the batch is another matrix.
        called(("aten::mm", GRAPH), ("aten::bmm", [[24, 64, 64], [24, 64, 1]])),
    ],
)
def test_what_no_other_formula_replaces_is_left_alone(facts: Facts) -> None:
    said = [finding.sentence for finding in diagnosed(facts).findings]
    assert not [one for one in said if "another formula" in one]
