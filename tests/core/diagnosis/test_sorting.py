"""``sorting``: time that the GPU spends in operators that sort."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.model import Severity
from tests.core.diagnosis.kernel_stories import SGEMM, K, busy_with
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import CALL, diagnosed, finding_of, found, reasons, training
from tests.traces.builder import TraceBuilder, ms, us

RADIX = (
    "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::"
    "DeviceRadixSortPolicy<{0}, long, int>::Policy900, false, {0}, long, int, int, int>(int*)"
)
SORT = RADIX.format("float")
TOPK = "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(float const*)"
FILL = "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda>"
MULTIPLY_64 = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<double, double, "
    "double, Mul<double> >, std::array<char*, 3ul> >(int)"
)


def sorting(lasting: float, *ops: str, name: str = SORT) -> TraceBuilder:
    """Steps of 1 ms, so many us of them in a kernel that sorts, launched by those operators."""
    return busy_with(K(SGEMM, 1000 - lasting, ("aten::mm",)), K(name, lasting, ops), steps=20)


def test_the_time_is_reported_with_the_line() -> None:
    def step(t: TraceBuilder) -> None:
        t.step().launch("ampere_sgemm", us(700), call=CALL, starts=t.now)
        starts = t.now - CALL + us(700)
        t.frame("metrics.py(7): ranking").op("aten::sort")
        t.launch(SORT, us(300), call=CALL, starts=starts).close().close()
        t.pause(ms(1) - 2 * CALL).end()

    finding = finding_of(training().repeat(20, step), "sorting")
    assert finding.sentence == "The GPU sorts for 300 µs of each 1.0 ms step (30 %)."
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, us(300))
    assert not finding.is_least
    assert finding.place is not None
    assert (finding.place.operator, finding.place.source) == ("aten::sort", "metrics.py:7")


def test_below_a_tenth_of_the_step_nothing_is_found() -> None:
    assert found(diagnosed(sorting(99, "aten::sort")), "sorting") is None
    assert finding_of(sorting(101, "aten::sort"), "sorting").severity is Severity.WARNING


def test_below_three_tenths_it_is_no_more_than_a_warning() -> None:
    assert finding_of(sorting(299, "aten::sort"), "sorting").severity is Severity.WARNING
    assert finding_of(sorting(301, "aten::sort"), "sorting").severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("ops", "name", "operator"),
    [
        (("aten::argsort", "aten::sort"), SORT, "aten::argsort"),
        (("aten::msort", "aten::sort"), SORT, "aten::msort"),
        (("aten::topk",), TOPK, "aten::topk"),
        (("aten::_unique2",), RADIX.format("long"), "aten::_unique2"),
        (("aten::unique_dim",), "void thrust::cuda_cub::core::_kernel_agent<int>", None),
        # What sorts inside another operator.
        (("torchvision::nms", "aten::sort"), SORT, "aten::sort"),
        (("aten::quantile", "aten::sort"), SORT, "aten::sort"),
    ],
)
def test_all_operators_that_sort_count(ops: tuple[str, ...], name: str, operator: str) -> None:
    finding = finding_of(sorting(200, *ops, name=name), "sorting")
    assert finding.cost_ns == us(200)
    assert finding.place is not None
    assert finding.place.operator == (operator or ops[0])


def test_what_they_call_counts_as_well() -> None:
    story = busy_with(
        K(SGEMM, 800, ("aten::mm",)),
        K(FILL, 50, ("aten::sort", "aten::arange", "aten::arange")),
        K(SORT, 150, ("aten::sort",)),
        steps=20,
    )
    assert finding_of(story, "sorting").cost_ns == us(200)


@pytest.mark.parametrize(
    "ops",
    [
        # Gradients of an embedding are sorted by row, which no script can leave out.
        ("aten::embedding_dense_backward",),
        ("aten::unique_consecutive",),
        ("aten::searchsorted",),
    ],
)
def test_other_operators_do_not_sort(ops: tuple[str, ...]) -> None:
    judged = diagnosed(sorting(500, *ops))
    assert found(judged, "sorting") is None
    assert "sorting" not in reasons(judged)


def test_kernels_of_unknown_operators_are_not_judged() -> None:
    judged = diagnosed(sorting(500))
    assert found(judged, "sorting") is None
    assert "does not show which operators" in reasons(judged)["sorting"]


def test_few_kernels_of_unknown_operators_do_not_matter() -> None:
    judged = diagnosed(sorting(99))
    assert found(judged, "sorting") is None
    assert "sorting" not in reasons(judged)


def test_kernels_of_unknown_operators_may_add_to_the_others() -> None:
    def story(known: int, unknown: int) -> TraceBuilder:
        rest = K(SGEMM, 1000 - known - unknown, ("aten::mm",))
        return busy_with(rest, K(SORT, known, ("aten::sort",)), K(SORT, unknown), steps=20)

    finding = finding_of(story(200, 100), "sorting")
    assert (finding.cost_ns, finding.is_least) == (us(200), True)
    assert "does not show which operators" in reasons(diagnosed(story(60, 60)))["sorting"]


def test_without_kernels_it_is_not_judged() -> None:
    story = training().repeat(3, lambda t: t.step().op("aten::sort", ms(1)).end())
    assert "no GPU kernels" in reasons(diagnosed(story))["sorting"]


def test_sorting_numbers_of_float64_is_one_finding() -> None:
    judged = diagnosed(sorting(300, "aten::sort", name=RADIX.format("double")))
    finding = found(judged, "sorting")
    assert finding is not None
    assert finding.cost_ns == us(300)
    assert found(judged, "float64") is None


def test_other_work_in_float64_stays_a_finding() -> None:
    story = busy_with(
        K(SGEMM, 400, ("aten::mm",)),
        K(SORT, 200, ("aten::sort",)),
        K(MULTIPLY_64, 400, ("aten::mul",)),
        steps=20,
    )
    assert finding_of(story, "sorting").cost_ns == us(200)
    assert finding_of(story, "float64").cost_ns == us(200)


SCRIPT = """
names.sort()
order = scores.argsort()
kinds = labels.unique()
"""


@pytest.mark.parametrize(
    ("ops", "line"),
    [
        (("aten::argsort", "aten::sort"), 3),
        (("aten::_unique2",), 4),
        # The script calls quantile, and the only ``sort`` in it is that of a list.
        (("aten::quantile", "aten::sort"), None),
    ],
)
def test_without_stacks_the_line_is_the_only_one_that_calls_the_operator(
    tmp_path: Path, ops: tuple[str, ...], line: int | None
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    events = (("process", {"argv0": "train.py"}),)
    run = make_run(40, {"forward": 1}, cwd=str(tmp_path), events=events)
    finding = finding_of(sorting(300, *ops), "sorting", run)
    assert finding.place is not None
    assert finding.place.line == line
