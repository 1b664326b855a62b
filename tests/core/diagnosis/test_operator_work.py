"""What operators on the CPU do that costs more than it has to, and work that need not be done."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.cpu_runs import FLOATS, NOTE, SGD, call, judged, ops, trained
from tests.core.diagnosis.runs import MS, make_run
from tests.core.diagnosis.stories import reasons
from tests.traces.builder import TraceBuilder, ms, us

NODE = "autograd::engine::evaluate_function: "
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


@pytest.mark.parametrize(
    ("rule", "part", "sentence", "cost"),
    [
        (
            "dtype-churn",
            (10, 2.5, CASTS),
            "Casts to another data type take 25 ms of each 100 ms step (25 %), 10 of them in a "
            "step at model.py:12.",
            25,
        ),
        (
            "layout-copies",
            (10, 2.5, COPIES),
            "Copies of tensors into another memory layout take 25 ms of each 100 ms step (25 %), "
            "10 of them in a step at model.py:12.",
            25,
        ),
        (
            "memory-bound-elementwise",
            (20, 2, ("aten::mul",)),
            "Element-wise operators called one by one take 40 ms of each 100 ms step (40 %), 20 "
            "of them in a forward pass at model.py:12: each makes its own pass through memory.",
            20,
        ),
        (
            "memory-bound-elementwise",
            (4, 10, ("aten::mul",)),
            "Element-wise operators on large tensors take 40 ms of each 100 ms step (40 %) at "
            "model.py:12: each makes its own pass through memory.",
            20,
        ),
        (
            "slow-operator",
            (2, 20, SORT),
            "aten::sort at model.py:12 takes 40 ms of each 100 ms step (40 %).",
            20,
        ),
    ],
)
def test_what_takes_the_time_is_named(rule: str, part: Part, sentence: str, cost: int) -> None:
    finding = judged(forward(part), rule)
    assert finding is not None
    assert finding.sentence == sentence
    assert finding.cost_ns == pytest.approx(cost * MS, rel=0.01)
    assert finding.parts == ("forward",)
    assert finding.place is not None
    assert (finding.place.file, finding.place.line) == ("/p/model.py", 12)


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
    assert judged(forward(part), rule) is None


def test_a_cast_is_no_copy_into_another_order() -> None:
    assert judged(forward((10, 2.5, CASTS)), "layout-copies") is None


def test_an_operator_of_the_scripts_own_code_is_lost_whole_with_its_backward_pass() -> None:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", ms(40)).close()
        t.op("aten::linalg_svdvals", ms(30))
        t.backward().op(f"{NODE}LinalgSvdBackward0", ms(20)).op(f"{NODE}Conv", ms(10)).close()

    facts = trained(step, {"forward": 40, "other": 30, "backward": 30}, ("/p/train.py", 9, ""))
    finding = judged(facts, "slow-operator")
    assert finding is not None
    assert finding.sentence == (
        "aten::linalg_svdvals at train.py:9 takes 50 ms of each 100 ms step (50 %), with its "
        "backward pass."
    )
    assert finding.cost_ns == 40 * MS


def attending(lasting: float, *, fused: bool = False) -> Facts:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", us(9_000))
        if fused:
            t.op("aten::scaled_dot_product_attention", us(lasting))
        else:
            call(t, "aten::matmul", "aten::bmm", lasting=lasting / 4)
            ops(t, "aten::div", "aten::masked_fill", each=lasting / 8)
            call(t, "aten::softmax", "aten::_softmax", lasting=lasting / 4)
            call(t, "aten::matmul", "aten::bmm", lasting=lasting / 4)
        t.close()

    return trained(step, {"forward": 9 + lasting / 1000}, *LINES)


def test_attention_that_is_written_out_is_reported() -> None:
    finding = judged(attending(3_000), "unfused-attention")
    assert finding is not None
    assert finding.sentence == (
        "Attention written out as two matrix products with a softmax in between takes 3.0 ms of "
        "each 12 ms step (25 %) at model.py:12."
    )
    assert finding.cost_ns == pytest.approx(1.5 * MS, rel=0.01)


def test_little_attention_and_fused_attention_are_left_alone() -> None:
    assert judged(attending(990), "unfused-attention") is None
    assert judged(attending(3_000, fused=True), "unfused-attention") is None


def backward(
    recomputed: float = 0, note: dict[str, Any] | None = NOTE, optimizer: float = 0
) -> Facts:
    """10 ms of forward and 20 of backward, so many of them layers that are computed again."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::linear", "aten::addmm", lasting=10_000)
        t.backward().op(f"{NODE}AddmmBackward0").op("aten::mm", us(18_000 - recomputed))
        call(t, "aten::linear", "aten::addmm", lasting=recomputed)
        t.close()
        call(t, f"{NODE}EmbeddingBackward0", "aten::embedding_dense_backward", lasting=2_000)
        if optimizer:
            t.optimizer().op("aten::add_", us(1000 * optimizer)).close()

    phases = {"forward": 10.0, "backward": 20.0, "optimizer": optimizer}
    return trained(step, phases, *LINES, note=note)


def test_layers_within_backward_are_checkpointing() -> None:
    finding = judged(backward(6_000), "backward-recompute")
    assert finding is not None
    assert finding.sentence == (
        "Activation checkpointing recomputes the forward pass during backward, for 6.0 ms of each "
        "30 ms step (20 %) at train.py:20."
    )
    assert (finding.cost_ns, finding.would_raise_confidence) == (
        6 * MS,
        "whether memory would be short without it",
    )
    assert judged(backward(2_900), "backward-recompute") is None


def floats(**figures: Any) -> dict[str, Any]:
    return {"optimizers": [SGD], "parameters": [{**FLOATS, **figures}]}


def test_gradients_that_no_optimizer_uses_are_reported() -> None:
    finding = judged(
        backward(note=floats(unused=40, unused_elements=3_000_000)), "unused-gradients"
    )
    assert finding is not None
    assert finding.sentence == (
        "Gradients of 40 of 60 parameters are computed but never used, because no optimizer "
        "holds them: at least 5.0 ms of each 30 ms step (17 %) at train.py:20."
    )
    assert (finding.cost_ns, finding.severity) == (5 * MS, Severity.WARNING)
    few = backward(note=floats(unused=1, unused_elements=890_000))
    assert judged(few, "unused-gradients") is None


def test_a_note_of_an_older_version_does_not_tell_of_unused_gradients() -> None:
    older = {key: FLOATS[key] for key in ("dtype", "device", "tensors", "trained", "elements")}
    facts = backward(note={"optimizers": [SGD], "parameters": [older]})
    why = reasons(diagnosis(facts))["unused-gradients"]
    assert why == "which parameters are in an optimizer was not recorded"


def dense(largest: int = 5_000_000, optimizer: float = 10) -> Finding | None:
    return judged(backward(note=floats(largest=largest), optimizer=optimizer), "dense-gradients")


def test_a_dense_gradient_of_a_large_table_is_reported() -> None:
    finding = dense()
    assert finding is not None
    assert finding.sentence == (
        "An embedding table of 5.0 million numbers at train.py:25 gets a dense gradient, and the "
        "optimizer updates every row: 10 ms of each 40 ms step (26 %)."
    )
    assert finding.cost_ns == pytest.approx((2 + 10 * 5 / 6) * MS, rel=0.01)


def test_a_small_table_or_a_quick_optimizer_is_left_alone() -> None:
    assert dense(largest=900_000) is None
    assert dense(largest=2_900_000) is None
    assert dense(optimizer=1) is None


def test_dense_gradients_are_not_judged_where_nobody_noted_the_parameters() -> None:
    why = reasons(diagnosis(backward(note=None, optimizer=10)))["dense-gradients"]
    assert why == "the parameters were not recorded"


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


def test_a_forward_pass_for_metrics_is_reported_with_its_line() -> None:
    finding = judged(passes(metrics=5), "repeated-forward")
    assert finding is not None
    assert finding.sentence == (
        "The model runs another forward pass without a backward pass in the same step, for 5.0 ms "
        "of each 20 ms step (25 %) at train.py:14."
    )
    assert finding.cost_ns == 5 * MS


def test_every_pass_but_that_of_backward_is_reported() -> None:
    finding = judged(passes(2, times=2), "repeated-forward")
    assert finding is not None
    assert finding.cost_ns == 4 * MS
    # More of them play or generate.
    assert judged(passes(2, times=3), "repeated-forward") is None


def test_one_pass_and_a_teacher_are_no_repetition() -> None:
    assert judged(passes(metrics=0), "repeated-forward") is None
    assert judged(passes(metrics=5, tensors=120), "repeated-forward") is None
    # Nothing tells whether the model that runs again is the one that is trained.
    assert judged(passes(metrics=5, noted=False), "repeated-forward") is None


@pytest.mark.parametrize(("again", "severity"), [(0.78, None), (0.8, Severity.WARNING)])
def test_a_short_pass_for_metrics_is_left_alone(again: float, severity: Severity | None) -> None:
    finding = judged(passes(metrics=again), "repeated-forward")
    assert (finding.severity if finding else None) is severity


def test_without_a_window_nothing_is_said_of_operators() -> None:
    run = make_run(phases={"forward": 10, "backward": 10, "other": 10})
    judgement = diagnosis(Facts(run))
    silent = {"dense-gradients", "unused-gradients", "repeated-forward", "backward-recompute"}
    silent |= {"unfused-attention", "dtype-churn", "layout-copies", "memory-bound-elementwise"}
    silent |= {"slow-operator", "float64", "repeated-backward", "dropped-results"}
    silent |= {"many-backward-passes"}
    assert not silent & {one.rule for one in (*judgement.findings, *judgement.abstentions)}


def test_a_model_of_float64_on_the_cpu_is_reported() -> None:
    finding = judged(forward(note=floats(dtype="float64")), "float64")
    assert finding is not None
    assert finding.sentence == (
        "Operators compute in float64 for 100 ms of each 100 ms step (100 %) at model.py:12: "
        "float32 takes half of that or less."
    )
    assert finding.cost_ns == 50 * MS
    assert judged(forward(), "float64") is None


def test_float64_is_not_judged_where_nobody_noted_the_parameters() -> None:
    why = reasons(diagnosis(forward(note=None)))["float64"]
    assert why == "the data types of the parameters were not recorded"
