"""What rules about kernels find: attention, convolutions, optimizers, data types."""

from pathlib import Path
from typing import Any

import pytest

from perftui.analysis.steps import COMPUTE
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.kernels import step_kernels, time_by_category
from perftui.fixes.fix import option
from perftui.fixes.optimizer import optimizer_foreach, optimizer_fused
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import (
    ADD,
    BF16,
    H100,
    QUERIES,
    SCORES,
    SGEMM,
    SOFTMAX,
    VALUES,
    K,
    busy_with,
    diagnosed,
    finding_of,
    found,
    reasons,
    training,
)
from tests.traces.builder import TraceBuilder, ms, us

V100 = {**H100, "name": "Tesla V100-SXM2-32GB", "computeMajor": 7}
GEFORCE = {**H100, "name": "NVIDIA GeForce RTX 4090", "computeMajor": 8}
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1"
ATTENTION = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"
NORM = "void at::native::batch_norm_collect_statistics_kernel<at::native::Var, c10::BFloat16>"
MATMUL_NOTE = {"matmul": {"float32_precision": "high", "allow_tf32": True}}


def test_the_place_of_float32_products_is_the_line_that_asks_for_them() -> None:
    places = {"set_float32_matmul_precision": ["/a/train.py", 4]}
    note = {"matmul": {"float32_precision": "highest", "allow_tf32": False}, "places": places}
    assert finding_of(of_float32(note), "matmul-fp32").place.source == "/a/train.py:4"


def of_float32(note: dict[str, Any]) -> Diagnosis:
    """Of float32 products in a run that notes so about them."""
    run = make_run(40, {"forward": 1}, events=(("settings", note),))
    return diagnosed(busy_with(K(SGEMM, 900, ("aten::addmm",))), run)


def test_kernels_in_16_bits_or_of_unknown_types_are_not_accused() -> None:
    for names in ([BF16], ["triton_tem_fused_mm_1"], ["void gemmSN_TN_kernel<float, 128>"]):
        rules = [
            each.rule for each in diagnosed(busy_with(*(K(name, 990) for name in names))).findings
        ]
        assert rules == ["compute-bound"]


def test_what_the_host_keeps_waiting_wins_less() -> None:
    """A GPU that idles three quarters of the time does not gain what its kernels lose."""
    half = finding_of(busy_with(K(TF32, 400), K(BF16, 600)), "tensor-cores-unused")
    idle = busy_with(K(TF32, 250))
    assert half.cost_ns == us(200)
    assert finding_of(idle, "tensor-cores-unused").cost_ns < us(125) * 0.4


def test_what_a_step_launched_belongs_to_it_whenever_it_runs() -> None:
    """The host is a step ahead: kernels run after the mark of their step has ended."""
    story = training()
    for _ in range(4):
        story.step().op("aten::mm").launch(SGEMM, us(800), call=20).close().pause(us(30)).end()
    found_kernels = step_kernels(story.analysis())
    assert (found_kernels.count, found_kernels.time) == (1, us(800))


def test_time_by_kind_of_work_and_by_phase() -> None:
    story = busy_with(
        K(BF16, 300), K(ADD, 100), K(BF16, 400, phase="backward"), K(ADD, 50, (), "optimizer")
    )
    analysis = story.analysis()
    times = {kind.value: ns for kind, ns in time_by_category(analysis).items()}
    assert times == {"matrix products": us(700), "elementwise": us(100), "optimizer": us(50)}
    kernels = step_kernels(analysis)
    assert kernels.where(kernels.in_phase("backward")).time == us(400)


def test_elementwise_kernels_between_products_are_no_chain() -> None:
    alternating = [K(name, 60) for _ in range(8) for name in (BF16, ADD)]
    assert [each.rule for each in diagnosed(busy_with(*alternating)).findings] == ["compute-bound"]


def searching(kernel: float, call: float, kernels: int = 15, steps: int = 4) -> TraceBuilder:
    """Steps that begin with a convolution of so many kernels, each of so many us and launched in a
    call of so many, while which nothing else runs; then the GPU computes."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::cudnn_convolution")
        for _ in range(kernels):
            t.launch("cudnn_ampere_scudnn_128x64_xregs_large_nn_v1", us(kernel), call=us(call))
        t.close().launch(BF16, begin + us(995) - t.now, call=us(2)).at(begin + ms(1)).end()

    return training().repeat(steps, step)


def test_cudnn_that_goes_on_trying_out_kernels() -> None:
    story = searching(kernel=2, call=20)
    finding = finding_of(story, "cudnn-benchmark")
    assert finding.sentence == (
        "cuDNN benchmarks kernels for 4 convolutions after the warm-up, 300 µs of each 1.0 ms "
        "step (30 %): their sizes are new."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, us(300))
    # The GPU idles while the host tries: that is no matter of launching in general.
    assert diagnosed(story).findings[0] == finding
    assert {COMPUTE, "launch-bound"} <= set(finding.parts)


EFFICIENT = ("aten::_scaled_dot_product_efficient_attention",)
SQUARE = {"Input Dims": [[8, 4, 512, 64]] * 3 + [[8, 4, 512, 512]]}
ONE_MASK = {**SQUARE, "Input Strides": [[]] * 3 + [[0, 0, 512, 1]]}
BIAS = {**SQUARE, "Input Strides": [[]] * 3 + [[1 << 20, 1 << 18, 512, 1]]}
"""One mask for all sequences and heads, and a bias of each."""


def attending(args: dict[str, Any] | None, lasting: int = 400) -> TraceBuilder:
    return busy_with(K(ATTENTION, lasting, EFFICIENT, args=args), K(BF16, 980 - lasting))


@pytest.mark.parametrize("args", [None, SQUARE, BIAS], ids=["no shapes", "no strides", "bias"])
def test_attention_is_not_accused_of_a_mask_that_nothing_shows(args: dict[str, Any] | None) -> None:
    assert found(attending(args), "attention-mask") is None


BMM = ("aten::matmul", "aten::bmm")
MATH = "aten::_scaled_dot_product_attention_math"
CONV = ("aten::conv2d", "aten::convolution", "aten::_convolution")
CAST = ("aten::to", "aten::_to_copy", "aten::copy_")
LINEAR = ("aten::linear", "aten::addmm")
BIASED = K(ADD, 50, (*CONV, "aten::add_"))


def written_out() -> TraceBuilder:
    """Attention of two products with a mask and a softmax in between."""
    return busy_with(*attention(200, K(ADD, 100, ("aten::add",))), K(BF16, 290, ("aten::mm",)))


def attention(softmax: float, *scaling: K) -> list[K]:
    first, second = (K(BF16, 200, BMM, args=sizes) for sizes in (QUERIES, VALUES))
    return [first, *scaling, K(SOFTMAX, softmax, ("aten::_softmax",), args=SCORES), second]


def slow_path() -> TraceBuilder:
    """The same within torch's own operator."""
    bmm = (MATH, *BMM)
    return busy_with(
        K(BF16, 300, bmm), K(SOFTMAX, 200, (MATH, "aten::_softmax")), K(BF16, 490, bmm)
    )


def recomputing() -> TraceBuilder:
    return busy_with(
        K(BF16, 300, LINEAR),
        K(BF16, 200, LINEAR, "backward"),
        K(BF16, 490, ("AddmmBackward0", "aten::mm"), "backward"),
    )


ALIGN2 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nt_align2>"

NEAR: list[tuple[str, list[K], int]] = [
    ("attention-mask",
     [K(BF16, 300, (MATH, *BMM)), K(SOFTMAX, 0, (MATH, "aten::_softmax")),
      K(BF16, 200, (MATH, *BMM))], 50),
    ("attention-mask", [K(ATTENTION, 0, EFFICIENT, args=ONE_MASK)], 100),
    ("unfused-attention", attention(0), 50),
    ("tensor-cores-unused", [K(TF32, 0)], 196),
    ("misaligned-dims", [K(ALIGN2, 0, ("aten::mm",))], 150),
    ("dtype-churn", [*[K(ADD, 5, CAST)] * 4, K(ADD, 0, CAST)], 10),
    ("memory-bound-elementwise", [K(ADD, 100), K(ADD, 100), K(ADD, 100), K(ADD, 0)], 100),
    ("memory-bound-elementwise", [*[K(ADD, 28)] * 9, K(ADD, 0)], 42),
    ("conv-bias-before-bn",
     [K(ADD, 0, (*CONV, "aten::add_")), K(NORM, 100, ("aten::batch_norm",))], 20),
    ("backward-recompute", [K(BF16, 200, LINEAR), K(BF16, 0, LINEAR, "backward")], 50),
]  # fmt: skip
"""Kernels in steps of 980 us that are computed, and the us of the open one from which on they are
spoken of: 5 % of the step, of the compute, or what the rule's limits say."""


@pytest.mark.parametrize(("rule", "kernels", "least"), NEAR)
def test_each_is_spoken_of_from_its_limit_on(rule: str, kernels: list[K], least: int) -> None:
    def judged(lasting: int) -> Finding | None:
        chosen = [each._replace(us=each.us or lasting) for each in kernels]
        rest = K(BF16, 980 - sum(each.us for each in chosen), ("aten::mm",), "backward")
        return found(busy_with(*chosen, rest), rule)

    finding = judged(least)
    # The first launch takes 20 ns.
    assert 0 < finding.cost_ns <= us(sum(each.us or least for each in kernels)) + 20
    assert finding.parts[0] == COMPUTE
    assert judged(least - 1) is None


def test_without_kernels_none_of_them_is_judged() -> None:
    story = training().repeat(3, lambda t: t.step().op("aten::mm", ms(1)).end())
    said = reasons(story)
    others = ("matmul-fp32", "layout-conversion", "cudnn-benchmark", "zero-grad-memset", "sorting")
    on_any_device = {"backward-recompute", "dtype-churn", "unfused-attention"}
    on_any_device.add("memory-bound-elementwise")
    for rule in {*others, "float64", *(rule for rule, *_ in NEAR)} - on_any_device:
        assert "no GPU kernels" in said[rule]
    with pytest.raises(UnknownError):
        step_kernels(Facts(None, story.analysis()))


CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
OTHER = CONVOLUTION.replace("128x128", "64x64")


def judged_convolutions(
    share: float = 0.3,
    names: tuple[str, ...] = (CONVOLUTION,),
    sizes: tuple[int, ...] = (),
    steps: int = 4,
    **cudnn: Any,
) -> Diagnosis:
    """Busy steps with such a share of convolutions, whose names and input sizes take turns."""
    story = TraceBuilder(fields={"deviceProperties": [H100]})
    for step in range(steps):
        begin = story.now
        known = {"Input Dims": [[8, 3, sizes[step % len(sizes)]]]} if sizes else {}
        story.step().forward().op("aten::cudnn_convolution", **known)
        name = names[step % len(names)]
        story.launch(name, us(1000 * share), call=20, starts=story.now + 20).close()
        story.op("aten::mm")
        story.launch(BF16, us(1000 - 1000 * share - 1), call=20).close()
        story.at(begin + ms(1)).end()
    note = {"cudnn": {"enabled": True, "benchmark": False, **cudnn}}
    return diagnosed(story, make_run(40, {"forward": 1}, events=(("settings", note),)))


ADAMW = {"name": "torch.optim.adamw.AdamW", "file": "/p/train.py", "line": 5, "parameters": 120}


def facts_of(optimizer: float = 30, device: str = "cpu", **made: Any) -> Facts:
    """Steps of 100 ms, so many of them in the optimizer."""
    parameters = [{"dtype": "float32", "device": device, "trained": 120}]
    note = {"optimizers": [{**ADAMW, **made}], "parameters": parameters}
    phases = {"forward": 100 - optimizer, "optimizer": optimizer}
    return Facts(make_run(phases=phases, events=(("settings", note),)))


def test_the_fix_makes_it_fused_at_the_line_that_makes_it_where_torch_can() -> None:
    found = option(optimizer_fused, facts_of())
    assert (found.override.target, found.override.arguments) == ("optimizer", {"fused": True})
    assert (found.override.file, found.override.line) == ("/p/train.py", 5)
    assert found.advice == "At train.py:5: AdamW(..., fused=True)"
    found = option(optimizer_fused, facts_of(name="torch.optim.rmsprop.RMSprop"))
    assert (found.override, found.why_not) == (None, "torch has no fused RMSprop")
    assert option(optimizer_fused, facts_of(fused=True)) is None


def test_lists_are_offered_where_torch_has_no_fused_form(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\no = torch.optim.RMSprop(p, lr=1e-3)\n")
    made = {"name": "torch.optim.rmsprop.RMSprop", "file": str(script), "line": 2}
    listed = option(optimizer_foreach, facts_of(**made))
    assert (listed.title, listed.override.arguments) == ("RMSprop foreach=True", {"foreach": True})
    assert listed.patch is None or b"lr=1e-3, foreach=True)" in listed.patch.after
    assert option(optimizer_foreach, facts_of()) is None
