"""What operators take on the CPU, and the lines that call them."""

import re
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from perftui.diagnosis.symptoms.operators.precision import float64
from perftui.facts.fact import Facts
from perftui.facts.source.operator_lines import calls_of, line_of, line_with
from tests.core.diagnosis.runs import FLOATS, MS, NODE, NOTE, SGD, call, ops, trained
from tests.core.diagnosis.stories import CALL, QUERIES, SCORES, VALUES, finding_of, found, training
from tests.traces.builder import TraceBuilder, ms, us

LINES = (
    ("/p/model.py", 12, "forward"),
    ("/p/train.py", 20, "backward"),
    ("/p/train.py", 25, "optimizer"),
)

Part = tuple[int, float, tuple[str, ...]]
"""Times, ms of each, and operators that call each other."""


def forward(*parts: Part, note: dict[str, Any] | None = NOTE) -> Facts:
    """A step of 100 ms of products; within it so many times so many ms of nested operators."""
    taken = sum(times * each for times, each, _ in parts)

    def step(t: TraceBuilder) -> None:
        t.forward()
        for times, each, nested in parts:
            for _ in range(times):
                call(t, *nested, lasting=each * 1000)
        call(t, "aten::linear", "aten::addmm", lasting=(100 - taken) * 1000)
        t.close()

    return trained(step, {"forward": 100}, *LINES, note=note)


CASTS = ("aten::to", "aten::_to_copy", "aten::copy_")
COPIES = ("aten::contiguous", "aten::clone", "aten::copy_")
SORT = ("aten::sort", "aten::stable_sort")
HOOKED = (f"{NODE}torch::autograd::AccumulateGrad", "torch::autograd::AccumulateGrad")


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("dtype-churn", (10, 0.29, CASTS)),
        ("dtype-churn", (4, 10, CASTS)),
        ("layout-copies", (10, 0.98, COPIES)),
        ("layout-copies", (4, 10, COPIES)),
        ("memory-bound-elementwise", (20, 1.48, ("aten::mul",))),
        ("memory-bound-elementwise", (7, 4.9, ("aten::mul",))),
        ("memory-bound-elementwise", (20, 4, ("aten::gelu",))),
        ("slow-operator", (2, 12, SORT)),
        ("slow-operator", (2, 40, ("aten::conv2d", "aten::convolution"))),
        ("slow-operator", (2, 40, ("Torch-Compiled Region: 0/0", "aten::mm"))),
        ("slow-operator", (2, 40, ("dynamo", "_compile.compile_inner (dynamo_timed)"))),
    ],
)
def test_less_of_it_or_of_what_models_are_made_of_is_left_alone(rule: str, part: Part) -> None:
    assert found(forward(part), rule) is None


@pytest.mark.parametrize(("product", "lost"), [("aten::addmm", 50), ("aten::_to_copy", 20)])
def test_casts_count_with_their_backward_pass_unless_some_are_of_autocast(
    product: str, lost: int
) -> None:
    def step(t: TraceBuilder) -> None:
        t.forward()
        for _ in range(10):
            call(t, *CASTS, lasting=2_000)
        call(t, "aten::linear", product, lasting=20_000)
        t.close().backward()
        for _ in range(10):
            call(t, f"{NODE}ToCopyBackward0", *CASTS, lasting=3_000)
        t.op(f"{NODE}AddmmBackward0", ms(30)).close()

    finding = found(trained(step, {"forward": 40, "backward": 60}, *LINES), "dtype-churn")
    assert finding.cost_ns == lost * MS
    assert "10 of them in a step" in finding.sentence


@pytest.mark.parametrize(("leaves", "text", "cost"), [(61, "", 20), (60, "", 0), (61, "x.grad", 0)])
def test_gradients_of_inputs_are_lost(tmp_path: Path, leaves: int, text: str, cost: int) -> None:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", ms(30)).close().backward()
        for lasting in (20_000, 40_000):
            call(t, f"{NODE}ConvolutionBackward0", "ConvolutionBackward0", lasting=lasting)
        for _ in range(leaves):
            call(t, *HOOKED, lasting=100)
        t.close()

    script = tmp_path / "train.py"
    script.write_text(f"batch.requires_grad_(True)\n{text}\n")
    more = (("process", {"argv0": str(script)}),)
    facts = trained(step, {"forward": 30, "backward": 60 + leaves / 10}, more=more)
    finding = found(facts, "unused-gradients")
    assert (round(finding.cost_ns / MS) if finding else 0) == cost


def test_an_operator_of_the_scripts_own_code_is_lost_whole_with_its_backward_pass() -> None:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", ms(40)).close()
        t.op("aten::linalg_svdvals", ms(30))
        t.backward().op(f"{NODE}LinalgSvdBackward0", ms(20)).op(f"{NODE}Conv", ms(10)).close()

    facts = trained(step, {"forward": 40, "other": 30, "backward": 30}, ("/p/train.py", 9, ""))
    finding = found(facts, "slow-operator")
    assert finding.sentence == (
        "aten::linalg_svdvals at train.py:9 takes 50 ms of each 100 ms step (50 %), with its "
        "backward pass."
    )
    assert finding.cost_ns == 40 * MS


def test_an_operator_that_a_hook_calls_in_the_backward_pass_is_named() -> None:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", ms(20)).close()
        call(t.backward(), *HOOKED, "aten::histc", lasting=60_000)
        t.op(f"{NODE}Conv", ms(20)).close()

    finding = found(trained(step, {"forward": 20, "backward": 80}), "slow-operator")
    assert finding.sentence == "aten::histc takes 60 ms of each 100 ms step (60 %)."


def attending(
    lasting: float,
    *,
    fused: bool = False,
    by_torch: bool = False,
    scores: dict[str, Any] | None = SCORES,
) -> Facts:
    """Attention of so many us, written out, by torch itself or not, or fused; ``scores`` are the
    sizes of its softmax."""
    sizes = (QUERIES, VALUES) if scores else ({}, {})

    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", us(9_000))
        if fused:
            t.op("aten::scaled_dot_product_attention", us(lasting))
        else:
            if by_torch:
                t.op("aten::_scaled_dot_product_attention_math")
            t.op("aten::matmul").op("aten::bmm", us(lasting / 4), **sizes[0]).close()
            ops(t, "aten::div", "aten::masked_fill", each=lasting / 8)
            t.op("aten::softmax", **scores or {}).op("aten::_softmax", us(lasting / 4)).close()
            t.op("aten::matmul").op("aten::bmm", us(lasting / 4), **sizes[1]).close()
            if by_torch:
                t.close()
        t.close()

    return trained(step, {"forward": 9 + lasting / 1000}, *LINES)


def backward(
    recomputed: float = 0,
    note: dict[str, Any] | None = NOTE,
    optimizer: float = 0,
    node: str = "CheckpointFunctionBackward",
    dense_backward: str = "aten::embedding_dense_backward",
) -> Facts:
    """10 ms of forward and 20 of backward, so many of them layers that ``node`` calls."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::linear", "aten::addmm", lasting=10_000)
        t.backward().op(f"{NODE}AddmmBackward0").op("aten::mm", us(18_000 - recomputed))
        call(t.close(), f"{NODE}{node}", node, "aten::linear", "aten::addmm", lasting=recomputed)
        call(t, f"{NODE}EmbeddingBackward0", dense_backward, lasting=2_000)
        if optimizer:
            t.optimizer().op("aten::add_", us(1000 * optimizer)).close()

    phases = {"forward": 10.0, "backward": 20.0, "optimizer": optimizer}
    return trained(step, phases, *LINES, note=note)


def floats(**figures: Any) -> dict[str, Any]:
    return {"optimizers": [SGD], "parameters": [{**FLOATS, **figures}]}


def dense(largest: int = 5_000_000, optimizer: float = 10) -> Facts:
    return backward(note=floats(tables=largest), optimizer=optimizer)


def of_an_older_note() -> Facts:
    """The note of an older version does not tell of unused gradients."""
    older = {key: FLOATS[key] for key in ("dtype", "device", "tensors", "trained", "elements")}
    return backward(note={"optimizers": [SGD], "parameters": [older]})


def passes(metrics: float, times: int = 1, *, tensors: int = 60, noted: bool = True) -> Facts:
    """Forward, backward, and forward so many times more for so many ms each."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::linear", "aten::addmm", lasting=5_000)
        t.backward()
        call(t, f"{NODE}AddmmBackward0", "AddmmBackward0", lasting=10_000)
        for _ in range(times if metrics else 0):
            call(t.forward(), "aten::linear", "aten::addmm", lasting=1000 * metrics)
            t.close()

    lines = (("/p/train.py", 9, "forward"), ("/p/train.py", 10, "backward"))
    later = (("/p/train.py", 14, "forward"),) if metrics else ()
    note = floats(tensors=tensors) if noted else None
    return trained(
        step, {"forward": 5 + metrics * times, "backward": 10}, *lines, *later, note=note
    )


def test_layers_that_a_function_of_the_users_own_calls_in_backward_are_not_recomputed() -> None:
    assert found(backward(6_000, node="PropagateBackward"), "backward-recompute") is None


def test_tables_of_bags_are_tables() -> None:
    bags = "aten::_embedding_bag_dense_backward"
    story = backward(note=floats(tables=5_000_000), optimizer=10, dense_backward=bags)
    assert found(story, "dense-gradients").place.operator == bags


def test_every_pass_but_that_of_backward_is_reported() -> None:
    finding = found(passes(2, times=2), "repeated-forward")
    assert finding.cost_ns == 4 * MS


SCRIPT = '''"""Sorts in float64."""
import torch
table = torch.nn.Embedding(9, 9)
def forward(x):
    x = layer(x)
    return x.sort().values
'''


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    lines = [(str(script), line, "forward") for line in (5, 5, 6)]
    return trained(lambda t: ops(t.forward(), "aten::sort").close(), {"forward": 10}, *lines)


def test_the_line_whose_text_calls_the_operator_goes_before_a_longer_one(facts: Facts) -> None:
    longest, sorts = line_of(facts, "forward"), line_of(facts, "forward", calls_of("aten::sort"))
    assert (longest.line, sorts.line) == (5, 6)


def test_where_no_text_calls_it_the_longest_line_is_named_unless_only_that_counts(
    facts: Facts,
) -> None:
    found = line_of(facts, "forward", calls_of("aten::topk"))
    assert found.line == 5
    assert line_of(facts, "forward", calls_of("aten::topk"), only=True) is None
    assert line_of(facts, "backward") is None


def test_a_line_that_no_sample_saw_is_found_by_a_name_it_uses(facts: Facts) -> None:
    found = line_with(facts, frozenset({"Embedding"}))
    assert found.line == 3
    assert line_with(facts, frozenset({"float64"})) is None


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("aten::linalg_svdvals", "torch.linalg.svdvals(weight)"),
        ("aten::index_put_", "x.index_put_((rows,), y)"),
        ("aten::_unique2", "torch.unique(x)"),
        ("aten::cumsum", "x.cumsum(0)"),
    ],
)
def test_an_operator_is_found_in_the_text_of_its_call(operator: str, text: str) -> None:
    assert re.search(calls_of(operator), text)


ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, {}, std::array<char*, 3ul> >(int)"
MULTIPLY = ELEMENTWISE.format("at::native::BinaryFunctor<double, double, double, Mul<double> >")
MULTIPLY_32 = ELEMENTWISE.format("at::native::BinaryFunctor<float, float, float, Mul<float> >")


ON_FLOAT64 = [
    MULTIPLY,
    ELEMENTWISE.format("log2_kernel_cuda(at::TensorIteratorBase&)::{lambda(double)#1}"),
    "void cunn_SoftMaxForward<4, double, double, double, Epilogue>(double*, int)",
    "void gemv2T_kernel_val<int, int, double, double, double, double, 128, 16, 4>(int)",
    "void dot_kernel<double, 128, 0, cublasDotParams<cublasGemvTensor<double const> > >(int)",
    "volta_dgemm_64x64_nt",
    "cutlass_80_tensorop_d884gemm_64x64_16x3_tn_align1",
    "sm80_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x64x16",
    "CatArrayBatchedCopy<double, unsigned int, 3>(double*, int)",
]
OTHERS = [
    MULTIPLY_32,
    "ampere_sgemm_128x64_nn",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nt",
    # Learning rates and limits are passed as doubles to kernels on any type.
    "multi_tensor_apply_kernel<Metadata<4>, FusedAdamMathFunctor<float, 4>, float const*, "
    "double, double, double, bool>(Metadata<4>, float const*, double, double)",
    "void nms_kernel_impl<float>(int, double, float const*, unsigned long long*)",
    ELEMENTWISE.format("nan_to_num(c10::optional<double>)::{lambda(float)#1}"),
    "transpose_NCHW2CNHW_V2_2D_WG_off64",
    "void double_buffered_copy<float>(float*)",
]


def test_kernels_on_float64_are_known_by_name() -> None:
    assert all(map(float64.claims.kernels, ON_FLOAT64))
    assert not any(map(float64.claims.kernels, OTHERS))


def computing(of_float64: int, steps: int = 20) -> TraceBuilder:
    """Steps of 1 ms, so many us of them in a float64 kernel launched by ``aten::mul``."""

    def step(t: TraceBuilder) -> None:
        t.step().launch("ampere_sgemm", us(1000 - of_float64), call=CALL, starts=t.now)
        starts = t.now - CALL + us(1000 - of_float64)
        t.frame("train.py(12): loss").op("aten::mul")
        t.launch(MULTIPLY, us(of_float64), call=CALL, starts=starts).close().close()
        t.pause(ms(1) - 2 * CALL).end()

    return training().repeat(steps, step)


def test_the_time_is_reported_with_the_line_and_half_of_it_is_lost() -> None:
    finding = finding_of(computing(of_float64=300), "float64")
    assert finding.sentence == (
        "Kernels compute in float64 for 300 µs of each 1.0 ms step (30 %), most of it in "
        "train.py:12: float32 takes half of that or less."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, us(150))
    place = finding.facts[1].place
    assert (place.operator, place.source) == ("aten::mul", "train.py:12")
    assert place.end is not None
    assert place.start is not None
    assert place.end - place.start == us(300)


@pytest.mark.parametrize(
    ("each", "calls", "short"), [(10, 150, True), (10, 90, False), (30, 150, False)]
)
def test_many_short_calls_ask_for_more_work_in_each(each: float, calls: int, short: bool) -> None:
    def step(t: TraceBuilder) -> None:
        ops(t.forward(), *["aten::addmm"] * calls, each=each).close()

    finding = finding_of(trained(step, {"forward": calls * each / 1000}, *LINES), "compute-bound")
    assert finding.advice.startswith("a larger batch, or fewer and larger operators") is short


@pytest.mark.parametrize(("groups", "many"), [(60, True), (30, True), (29, False), (1, False)])
def test_a_group_for_nearly_each_parameter_is_one_too_many(groups: int, many: bool) -> None:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::addmm", ms(40)).close()
        t.optimizer().op("aten::add_", ms(10)).pause(ms(50)).close()

    note = {**NOTE, "optimizers": [{**SGD, "groups": groups, "fused": True}]}
    finding = finding_of(trained(step, {"forward": 40, "optimizer": 60}, note=note), "python-bound")
    assert finding.advice.startswith("one group for all parameters with the same options") is many
