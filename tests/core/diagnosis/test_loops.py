"""Loops of small operators, on the GPU and on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Severity
from perftui.facts.cpu.operator_loops import FEWEST_TURNS, loops
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import (
    MS,
    NOTE,
    SGD,
    call,
    judged,
    make_run,
    ops,
    script_run,
    trained,
)
from tests.core.diagnosis.stories import (
    ADD,
    BF16,
    diagnosed,
    finding_of,
    found,
    severity_of,
    training,
)
from tests.traces.builder import TraceBuilder, us

NODE = "autograd::engine::evaluate_function: "


def averaging(turns: int, each: float = 40, rest: float = 0) -> Facts:
    """Averages of weights, four operators for each, and so many ms of forward."""

    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", us(10_000)).close()
        for _ in range(turns):
            ops(t, "aten::mul", "aten::mul", "aten::add", "aten::copy_", each=each)
        t.pause(us(rest))

    spent = turns * 4 * each / 1000 + rest / 1000
    return trained(
        step, {"forward": 10, "other": spent}, ("/p/train.py", 7, ""), ("/p/train.py", 9, "forward")
    )


def test_a_loop_over_parameters_is_reported_with_its_line_and_its_turns() -> None:
    finding = judged(averaging(60), "per-parameter-loop")
    assert finding.sentence == (
        "A loop at train.py:7 calls 4 small operators (aten::mul, aten::add, aten::copy_) for "
        "each of 60 parameters: this takes 9.6 ms of each 20 ms step (49 %)."
    )
    assert finding.cost_ns == pytest.approx(9.6 * MS, rel=0.01)
    assert (finding.severity, finding.parts) == (Severity.CRITICAL, ("other",))
    assert (finding.place.file, finding.place.line) == ("/p/train.py", 7)


def test_what_takes_long_for_each_parameter_is_arithmetic() -> None:
    finding = judged(averaging(60, each=400), "per-parameter-loop")
    assert finding.cost_ns == pytest.approx(24 * MS, rel=0.01)


def test_few_turns_or_short_ones_are_no_loop_over_parameters() -> None:
    assert judged(averaging(49), "per-parameter-loop") is None
    assert judged(averaging(50, each=2.4), "per-parameter-loop") is None
    assert judged(averaging(50, each=2.8), "per-parameter-loop") is not None


def test_without_a_window_loops_are_not_spoken_of() -> None:
    judgement = diagnosis(Facts(make_run(phases={"forward": 10, "other": 10})))
    rules = {one.rule for one in (*judgement.findings, *judgement.abstentions)}
    assert not rules & {"per-parameter-loop", "loop-of-indexing"}


def recurrence(turns: int, *, weights: bool = False, long: float = 0) -> Facts:
    """A cell for each time step, and its backward pass, with gradients of weights in each or once;
    beside it an operator of so many us."""

    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::embedding", us(long))
        for _ in range(turns):
            ops(t, "aten::select", "aten::linear", "aten::sigmoid", "aten::mul", "aten::tanh")
        t.backward()
        for _ in range(turns):
            ops(t, f"{NODE}TanhBackward0", f"{NODE}MulBackward0", f"{NODE}AddmmBackward0")
            if weights:
                ops(t, f"{NODE}torch::autograd::AccumulateGrad")
        t.close()

    forward = turns * 50 / 1000 + long / 1000
    backward = turns * (40 if weights else 30) / 1000
    return trained(
        step,
        {"forward": forward, "backward": backward},
        ("/p/train.py", 12, "forward"),
        ("/p/train.py", 20, "backward"),
    )


def test_a_loop_over_time_steps_is_reported_with_its_backward_pass() -> None:
    finding = judged(recurrence(100), "loop-of-indexing")
    assert finding.sentence == (
        "A loop at train.py:12 calls 5 small operators (aten::select, aten::linear, "
        "aten::sigmoid, ...) 100 times for a slice of a tensor each: this takes 8.0 ms of each "
        "8.0 ms step (100 %)."
    )
    assert finding.cost_ns == pytest.approx(8 * MS, rel=0.01)
    assert finding.parts == ("forward", "backward")


def test_layers_that_split_tensors_are_a_loop_only_where_they_are_many() -> None:
    assert judged(recurrence(24, weights=True), "loop-of-indexing") is None
    finding = judged(recurrence(40, weights=True), "loop-of-indexing")
    assert "aten::sigmoid, ...) 40 times for a slice of a tensor each" in finding.sentence


def test_a_loop_below_a_twentieth_of_the_step_is_left_alone() -> None:
    assert judged(recurrence(10, long=16_000), "loop-of-indexing") is None
    assert judged(recurrence(10, long=14_000), "loop-of-indexing") is not None


def matching(pieces: int, between: int = 0, back: int = 0) -> Facts:
    """Boxes compared outside the model, what follows each as it turns out to be; between pieces so
    many operators more, and ``back`` of the pieces in the backward pass."""

    def step(t: TraceBuilder) -> None:
        for at in range(pieces):
            ops(t, "aten::select", *["aten::maximum"] * (1 + (at * at * 2654435761 >> 9) % 3))
            ops(t, *["aten::gt", "aten::clamp", "aten::sum"] * between)
        t.pause(us(10_000)).forward().op("aten::conv2d", us(2_000))
        t.backward().op(f"{NODE}ConvolutionBackward0", us(2_000))
        for _ in range(back):
            ops(t, f"{NODE}SelectBackward0", f"{NODE}MaximumBackward0")
        t.close()

    spent = pieces * (3 + 3 * between) * 10 / 1000
    phases = {"forward": 2, "backward": 2 + back * 20 / 1000, "other": 10 + spent}
    return trained(step, phases, ("/p/boxes.py", 9, ""), ("/p/boxes.py", 30, ""))


def test_a_loop_of_which_no_two_turns_are_alike_is_told_by_its_pieces() -> None:
    finding = judged(matching(300), "loop-of-indexing")
    assert finding.sentence == (
        "A loop at boxes.py:9 calls small operators (aten::maximum, aten::select) for 300 slices "
        "of tensors, one by one: this takes 8.8 ms of each 23 ms step (38 %)."
    )


def test_the_backward_pass_of_its_pieces_is_part_of_such_a_loop() -> None:
    alone, with_backward = matching(300, back=59), matching(300, back=300)
    without = judged(alone, "loop-of-indexing")
    finding = judged(with_backward, "loop-of-indexing")
    assert finding.cost_ns - without.cost_ns == pytest.approx(300 * 20_000, rel=0.02)
    assert set(finding.parts) == {"backward", "other"}


def test_few_pieces_or_pieces_far_apart_are_no_such_loop() -> None:
    assert judged(matching(99), "loop-of-indexing") is None
    assert judged(matching(100), "loop-of-indexing") is not None
    assert judged(matching(300, between=1), "loop-of-indexing") is None


def stepping(turns: int, name: str = "mine.Lion") -> Facts:
    def step(t: TraceBuilder) -> None:
        t.forward().op("aten::conv2d", us(6_000)).optimizer()
        for _ in range(turns):
            ops(t, "aten::mul_", "aten::add", "aten::sign_", "aten::add_")
        t.close()

    made = {**SGD, "name": name, "parameters": 100}
    return trained(
        step,
        {"forward": 6, "optimizer": 4},
        ("/p/lion.py", 30, "optimizer"),
        note={**NOTE, "optimizers": [made]},
    )


def test_an_optimizer_of_ones_own_is_told_by_its_loop() -> None:
    finding = judged(stepping(100), "optimizer-single-tensor")
    assert finding.sentence == (
        "The optimizer takes 4.0 ms of each 10 ms step (40 %): Lion at train.py:5 updates 100 "
        "tensors one at a time."
    )
    assert finding.cost_ns == pytest.approx(4 * MS, rel=0.01)
    assert finding.fixes == ()
    assert finding.place.source == "/p/lion.py:30"


def test_an_optimizer_of_ones_own_without_a_loop_is_left_alone() -> None:
    assert judged(stepping(0), "optimizer-single-tensor") is None
    assert judged(stepping(49), "optimizer-single-tensor") is None


def with_python(pause: float) -> Facts:
    """Ten operators of 100 us in forward, so many us of Python before each."""

    def step(t: TraceBuilder) -> None:
        t.forward()
        for _ in range(10):
            call(t.pause(us(pause)), "aten::linear", "aten::addmm", lasting=100)
        t.close()

    return trained(step, {"forward": 1 + pause / 100}, ("/p/model.py", 3, "forward"))


def test_python_between_operators_is_reported_with_its_line_unless_it_is_little() -> None:
    finding = judged(with_python(100), "python-bound")
    assert finding.sentence == (
        "Python in the model and its optimizer takes 1.0 ms of each 2.0 ms step (50 %), most of "
        "it in forward at model.py:3: a step calls 20 operators."
    )
    assert (finding.cost_ns, finding.parts) == (MS, ("python in forward",))
    assert judged(with_python(10), "python-bound") is None
    assert judged(with_python(12), "python-bound") is not None


@pytest.mark.slow
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    st.integers(1, 30),
    st.lists(st.sampled_from("xyz"), max_size=8),
)
def test_a_loop_is_found_from_ten_turns_on(turn: list[str], turns: int, before: list[str]) -> None:
    story = TraceBuilder().step().phase("forward")
    ops(story, *before, "start", *turn * turns, "end").end()
    known = loops(story.analysis())
    if turns < FEWEST_TURNS:
        assert len(turn) * turns >= FEWEST_TURNS or not known
        return
    (found,) = (loop for loop in known if set(loop.names) <= set("abc"))
    assert found.turns * len(found.names) == len(found.positions) == len(turn) * turns
    assert list(found.names) * found.turns == turn * turns


FUSED = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizer>"
OPTIMIZER_NOTE = {
    "optimizers": [
        {"name": "torch.optim.adamw.AdamW", "file": "/a/train.py", "line": 9, "foreach": False,
         "parameters": 600}
    ],
    "parameters": [{"dtype": "float32", "device": "cuda:0", "trained": 600}],
}  # fmt: skip


def stepping_on_gpu(launches: int, name: str = ADD, steps: int = 4) -> TraceBuilder:
    """Steps with a forward pass of 300 us and an optimizer with a kernel of 1 us every 5 us."""

    def step(t: TraceBuilder) -> None:
        t.step().forward().op("aten::mm").launch(BF16, us(300), call=us(2)).close().pause(us(298))
        t.optimizer().range("Optimizer.step#AdamW.step")
        for _ in range(launches):
            t.op("aten::lerp_").launch(name, us(1), call=us(3)).pause(us(2)).close()
        t.end()

    return training().repeat(steps, step)


def test_an_optimizer_that_launches_one_parameter_at_a_time() -> None:
    finding = finding_of(stepping_on_gpu(100), "optimizer-single-tensor")
    # From the first of its kernels to the end of the last: 99 times 5 us, and one kernel.
    assert finding.sentence == (
        "The optimizer occupies the GPU for 496 µs of each 800 µs step (62 %): AdamW launches 100 "
        "kernels, one parameter at a time."
    )
    assert finding.severity is Severity.CRITICAL
    assert finding.cost_ns == round(us(396) * 0.9) + us(50)
    assert finding.place.operator == "aten::lerp_"


def test_few_kernels_or_those_for_many_tensors_are_no_loop() -> None:
    assert found(diagnosed(stepping_on_gpu(99)), "optimizer-single-tensor") is None
    assert found(diagnosed(stepping_on_gpu(200, FUSED)), "optimizer-single-tensor") is None


def test_the_run_tells_the_line_and_what_the_optimizer_takes_without_the_profiler() -> None:
    run = make_run(
        40,
        {"forward": 0.3, "optimizer": 0.3},
        events=(("settings", OPTIMIZER_NOTE),),
        gpus=("H100",),
    )
    finding = found(diagnosed(stepping_on_gpu(100), run), "optimizer-single-tensor")
    assert finding.cost_ns == round(us(200) * 0.9) + us(50)
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


AVERAGE = ("aten::mul_", "aten::add_")


def averaging_on_gpu(
    groups: int, *operators: str, steps: int = 4, fetching: int = 0
) -> TraceBuilder:
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
    finding = finding_of(averaging_on_gpu(60, *AVERAGE), "per-parameter-loop")
    assert "aten::mul_, aten::add_ for one tensor at a time, 60 times a step" in (finding.sentence)
    # 120 kernels of 1 us each in 600 us.
    assert abs(finding.cost_ns - round(us(480) * 0.9)) < us(5)


def test_an_average_of_weights_is_placed_at_the_loop_that_the_text_has(tmp_path: Path) -> None:
    text = "for mine, theirs in zip(a, b):\n    mine.mul_(0.99).add_(theirs, alpha=0.01)\n"
    run, story = script_run(tmp_path, text, phases={"forward": 1}), averaging_on_gpu(60, *AVERAGE)
    finding = finding_of(story, "per-parameter-loop", run)
    assert (finding.place.operator, finding.place.line) == ("aten::mul_", 1)


@pytest.mark.parametrize("fetching", [0, 400])
def test_what_the_loader_takes_amid_such_a_loop_is_not_the_loop_s(fetching) -> None:
    story = averaging_on_gpu(60, *AVERAGE, fetching=fetching)
    assert abs(finding_of(story, "per-parameter-loop").cost_ns - round(us(480) * 0.9)) < us(8)
    few = averaging_on_gpu(50, "aten::mul_", fetching=10 * fetching)
    assert (found(diagnosed(few), "per-parameter-loop") is None) == bool(fetching)


def test_fewer_groups_or_waits_are_no_such_loop() -> None:
    assert found(diagnosed(averaging_on_gpu(49, *AVERAGE)), "per-parameter-loop") is None
    waiting = averaging_on_gpu(80, "aten::linalg_vector_norm", "aten::item")
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
    assert severity_of(finding) is severity
    if finding is not None:
        assert finding.cost_ns == us(lasting)
        assert finding.sentence.startswith(f"zero_grad fills gradients with zeros for {lasting} µs")
        assert finding.place.operator == "aten::zero_"


def test_zeros_that_no_zero_grad_fills_are_not_reported() -> None:
    assert found(diagnosed(zeroing(100, mark="prepare")), "zero-grad-memset") is None
