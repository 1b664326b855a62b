"""Loops of small operators, on the GPU and on the CPU."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.model import Severity
from perftui.facts.cpu.operator_loops import FEWEST_TURNS, loops
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import (
    MS,
    NODE,
    NOTE,
    SGD,
    call,
    make_run,
    ops,
    script_run,
    staged,
    trained,
    with_tables,
)
from tests.core.diagnosis.stories import ADD, BF16, diagnosed, finding_of, found, training
from tests.traces.builder import TraceBuilder, us


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


def test_what_takes_long_for_each_parameter_is_arithmetic() -> None:
    finding = found(averaging(60, each=400), "per-parameter-loop")
    assert finding.cost_ns == pytest.approx(24 * MS, rel=0.01)


@pytest.mark.parametrize(("turns", "over_parameters"), [(60, True), (120, True), (121, False)])
def test_a_loop_with_many_more_turns_than_parameters_is_over_something_else(
    turns: int, over_parameters: bool
) -> None:
    finding = found(averaging(turns), "per-parameter-loop")
    assert (finding.advice == "") is over_parameters


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


def test_layers_that_split_tensors_are_a_loop_where_they_are_many() -> None:
    finding = found(recurrence(40, weights=True), "loop-of-indexing")
    assert "aten::sigmoid, ...) 40 times for a slice of a tensor each" in finding.sentence


FED_BACK = """import torch.nn as nn
class Corrector(nn.Module):
    def __init__(self):
        self.emb = nn.Embedding(9, 8)
        self.cell = nn.GRUCell(8, 8)
    def forward(self, h, token, clean):
        for t in range(clean.size(1)):
            h = self.cell(self.emb(token), h)
            token = {token}
        return h
"""


@pytest.mark.parametrize(
    ("token", "severity"),
    [
        ("torch.where(x, self.out(h), clean[:, t])", Severity.INFO),
        ("clean[:, t]", Severity.CRITICAL),
    ],
)
def test_a_step_that_reads_what_the_one_before_wrote_is_no_fault(
    token: str, severity: Severity, tmp_path: Path
) -> None:
    run = script_run(tmp_path, FED_BACK.format(token=token), phases={"forward": 1})
    run = with_tables(run, stacks=staged((str(tmp_path / "train.py"), 8, "forward")))
    facts = Facts(run, recurrence(40, weights=True).analysis)
    assert finding_of(facts, "loop-of-indexing").severity is severity


def by_channel(turns: int, *, weights: bool = True) -> Facts:
    """A layer of its own for each of the channels, which one call takes apart."""

    def step(t: TraceBuilder) -> None:
        ops(t.forward(), "aten::unbind", *["aten::linear"] * turns)
        t.backward()
        for _ in range(turns):
            ops(t, f"{NODE}AddmmBackward0")
            if weights:
                ops(t, f"{NODE}torch::autograd::AccumulateGrad")
        t.close()

    return trained(step, {"forward": turns / 100, "backward": turns / 50})


def test_a_layer_for_each_channel_is_a_loop_unless_it_is_one_for_all() -> None:
    finding = found(by_channel(40), "loop-of-indexing")
    assert "1 small operator (aten::linear) 40 times" in finding.sentence
    assert found(by_channel(20), "loop-of-indexing") is None
    assert found(by_channel(40, weights=False), "loop-of-indexing") is None


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


def test_the_backward_pass_of_its_pieces_is_part_of_such_a_loop() -> None:
    alone, with_backward = matching(300, back=59), matching(300, back=300)
    without = found(alone, "loop-of-indexing")
    finding = found(with_backward, "loop-of-indexing")
    assert finding.cost_ns - without.cost_ns == pytest.approx(300 * 20_000, rel=0.02)
    assert set(finding.parts) == {"backward", "other"}


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


def with_python(pause: float) -> Facts:
    """Ten operators of 100 us in forward, so many us of Python before each."""

    def step(t: TraceBuilder) -> None:
        t.forward()
        for _ in range(10):
            call(t.pause(us(pause)), "aten::linear", "aten::addmm", lasting=100)
        t.close()

    return trained(step, {"forward": 1 + pause / 100}, ("/p/model.py", 3, "forward"))


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
    assert finding.sentence == (
        "A loop calls 2 small operators (aten::mul_, aten::add_) 60 times: the GPU idles 478 µs of "
        "each 903 µs step (53 %) meanwhile."
    )
    # 120 kernels of 1 us each in 600 us.
    assert abs(finding.cost_ns - us(480)) < us(5)


def test_an_average_of_weights_is_placed_at_the_loop_that_the_text_has(tmp_path: Path) -> None:
    text = "for mine, theirs in zip(a, b):\n    mine.mul_(0.99).add_(theirs, alpha=0.01)\n"
    run, story = script_run(tmp_path, text, phases={"forward": 1}), averaging_on_gpu(60, *AVERAGE)
    finding = finding_of(story, "per-parameter-loop", run)
    assert (finding.place.operator, finding.place.line) == ("aten::mul_", 1)


@pytest.mark.parametrize("fetching", [0, 400])
def test_what_the_loader_takes_amid_such_a_loop_is_not_the_loop_s(fetching) -> None:
    story = averaging_on_gpu(60, *AVERAGE, fetching=fetching)
    assert abs(finding_of(story, "per-parameter-loop").cost_ns - us(480)) < us(8)
    few = averaging_on_gpu(50, "aten::mul_", fetching=10 * fetching)
    assert (found(few, "per-parameter-loop") is None) == bool(fetching)


def zeroing(lasting: int, mark: str = "Optimizer.zero_grad#SGD.zero_grad") -> TraceBuilder:
    """Steps of 1 ms of which a kernel of that range takes so many us."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().range(mark).op("aten::zero_").launch(ADD, us(lasting), call=us(3)).close().close()
        t.launch(BF16, us(990 - lasting), call=us(3)).at(begin + us(1000)).end()

    return training().repeat(4, step)
