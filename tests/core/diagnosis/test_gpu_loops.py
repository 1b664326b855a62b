"""Loops that launch a few kernels for one tensor after the other: optimizers and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.model import Severity
from tests.core.diagnosis.kernel_stories import ADD, BF16
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import diagnosed, finding_of, found, training
from tests.traces.builder import TraceBuilder, us

FUSED = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizer>"
OPTIMIZER_NOTE = {
    "optimizers": [
        {"name": "torch.optim.adamw.AdamW", "file": "/a/train.py", "line": 9, "foreach": False,
         "parameters": 600}
    ],
    "parameters": [{"dtype": "float32", "device": "cuda:0", "trained": 600}],
}  # fmt: skip


def stepping(launches: int, name: str = ADD, steps: int = 4) -> TraceBuilder:
    """Steps with a forward pass of 300 us and an optimizer with a kernel of 1 us every 5 us."""

    def step(t: TraceBuilder) -> None:
        t.step().forward().op("aten::mm").launch(BF16, us(300), call=us(2)).close().pause(us(298))
        t.optimizer().range("Optimizer.step#AdamW.step")
        for _ in range(launches):
            t.op("aten::lerp_").launch(name, us(1), call=us(3)).pause(us(2)).close()
        t.end()

    return training().repeat(steps, step)


def test_an_optimizer_that_launches_one_parameter_at_a_time() -> None:
    finding = finding_of(stepping(100), "optimizer-single-tensor")
    # From the first of its kernels to the end of the last: 99 times 5 us, and one kernel.
    assert finding.sentence == (
        "The optimizer occupies the GPU for 496 µs of each 800 µs step (62 %): AdamW launches 100 "
        "kernels, one parameter at a time."
    )
    assert finding.severity is Severity.CRITICAL
    assert finding.cost_ns == round(us(396) * 0.9) + us(50)
    assert finding.place is not None
    assert finding.place.operator == "aten::lerp_"


def test_few_kernels_or_those_for_many_tensors_are_no_loop() -> None:
    assert found(diagnosed(stepping(99)), "optimizer-single-tensor") is None
    assert found(diagnosed(stepping(200, FUSED)), "optimizer-single-tensor") is None


def test_the_run_tells_the_line_and_what_the_optimizer_takes_without_the_profiler() -> None:
    run = make_run(
        40,
        {"forward": 0.3, "optimizer": 0.3},
        events=(("settings", OPTIMIZER_NOTE),),
        gpus=("H100",),
    )
    finding = found(diagnosed(stepping(100), run), "optimizer-single-tensor")
    assert finding is not None
    assert finding.cost_ns == round(us(200) * 0.9) + us(50)
    assert finding.place is not None
    assert (finding.place.file, finding.place.line) == ("/a/train.py", 9)


def test_launching_costs_what_the_optimizer_does_not_explain() -> None:
    """Idle time between launches that lie within the optimizer is the optimizer's."""
    story = training()
    for _ in range(4):
        story.step().forward()
        for number in range(160):
            if number == 60:
                story.optimizer()
            story.op("aten::add_").launch(ADD, us(2), call=us(4)).pause(us(6)).close()
        story.end()
    judged = diagnosed(story)
    optimizer, launching = (
        found(judged, rule) for rule in ("optimizer-single-tensor", "launch-bound")
    )
    assert optimizer is not None
    assert launching is not None
    assert judged.findings[0] is optimizer
    assert optimizer.share + launching.share <= 1


def averaging(groups: int, *operators: str, steps: int = 4, fetching: int = 0) -> TraceBuilder:
    """Steps with a kernel of 300 us, and behind it so many alike groups of operators, each with a
    kernel of 1 us every 5 us; amid them so many us are spent in the loader."""

    def step(t: TraceBuilder) -> None:
        t.step().forward().op("aten::mm").launch(BF16, us(300), call=us(2)).close().pause(us(298))
        t.close()
        for group in range(groups):
            if fetching and group == groups // 2:
                t.data_wait(us(fetching))
            for operator in operators:
                t.op(operator).launch(ADD, us(1), call=us(3)).pause(us(2)).close()
        t.op("aten::sum").launch(ADD, us(1), call=us(3)).close()
        t.end()

    return training().repeat(steps, step)


def test_an_average_of_weights_by_hand() -> None:
    finding = finding_of(averaging(60, "aten::mul_", "aten::add_"), "per-parameter-loop")
    assert "aten::mul_, aten::add_ for one tensor at a time, 60 times a step" in (finding.sentence)
    # 120 kernels of 1 us each in 600 us.
    assert abs(finding.cost_ns - round(us(480) * 0.9)) < us(5)


def test_an_average_of_weights_is_placed_at_the_loop_that_the_text_has(tmp_path: Path) -> None:
    text = "for mine, theirs in zip(a, b):\n    mine.mul_(0.99).add_(theirs, alpha=0.01)\n"
    (tmp_path / "train.py").write_text(text)
    events = (("process", {"argv0": "train.py"}),)
    run = make_run(40, {"forward": 1}, cwd=str(tmp_path), events=events)
    finding = finding_of(averaging(60, "aten::mul_", "aten::add_"), "per-parameter-loop", run)
    assert finding.place is not None
    assert (finding.place.operator, finding.place.line) == ("aten::mul_", 1)


@pytest.mark.parametrize("fetching", [0, 400])
def test_what_the_loader_takes_amid_such_a_loop_is_not_the_loop_s(fetching) -> None:
    story = averaging(60, "aten::mul_", "aten::add_", fetching=fetching)
    assert abs(finding_of(story, "per-parameter-loop").cost_ns - round(us(480) * 0.9)) < us(8)
    few = averaging(50, "aten::mul_", fetching=10 * fetching)
    assert (found(diagnosed(few), "per-parameter-loop") is None) == bool(fetching)


def test_fewer_groups_or_waits_are_no_such_loop() -> None:
    assert found(diagnosed(averaging(49, "aten::mul_", "aten::add_")), "per-parameter-loop") is None
    waiting = averaging(80, "aten::linalg_vector_norm", "aten::item")
    assert found(diagnosed(waiting), "per-parameter-loop") is None


def zeroing(lasting: int, mark: str = "Optimizer.zero_grad#SGD.zero_grad") -> TraceBuilder:
    """Steps of 1 ms of which a kernel of that range takes so many us."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().range(mark).op("aten::zero_").launch(ADD, us(lasting), call=us(3)).close().close()
        t.launch(BF16, us(990 - lasting), call=us(3)).at(begin + us(1000)).end()

    return training().repeat(4, step)


@pytest.mark.parametrize(
    ("lasting", "severity"),
    [(9, None), (10, Severity.INFO), (49, Severity.INFO), (50, Severity.WARNING)],
)
def test_gradients_filled_with_zeros_are_worth_a_word(
    lasting: int, severity: Severity | None
) -> None:
    finding = found(diagnosed(zeroing(lasting)), "zero-grad-memset")
    assert (finding.severity if finding else None) is severity
    if finding is not None:
        assert finding.cost_ns == us(lasting)
        assert finding.sentence.startswith(f"zero_grad fills gradients with zeros for {lasting} µs")
        assert finding.place is not None
        assert finding.place.operator == "aten::zero_"


def test_zeros_that_no_zero_grad_fills_are_not_reported() -> None:
    assert found(diagnosed(zeroing(100, mark="prepare")), "zero-grad-memset") is None
