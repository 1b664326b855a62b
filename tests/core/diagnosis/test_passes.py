"""Passes through the model: repeated, many, recomputed, alone, or going on too far."""

from pathlib import Path
from typing import Any

import pytest

from perftui.facts.fact import Facts
from perftui.facts.source.source_calls import line_of_scoring, line_without_gradients
from perftui.script.evaluation import makes_training_data, trained_once
from perftui.script.program import parse_program
from tests.core.diagnosis.runs import (
    FLOATS,
    MS,
    NODE,
    SGD,
    call,
    make_run,
    ops,
    script_run,
    telemetry_table,
    trained,
)
from tests.core.diagnosis.stories import BF16, K, busy_with, finding_of, found
from tests.traces.builder import TraceBuilder, us

MANY = "many-backward-passes"
LINES = (("/p/train.py", 9, "forward"), ("/p/train.py", 10, "backward"))


def sample(t: TraceBuilder, lasting: float) -> None:
    """Forward and backward of one sample: an operator of so many us each, and as much Python."""
    t.forward()
    call(t, "aten::linear", "aten::addmm", lasting=lasting).pause(us(lasting))
    t.close().backward()
    call(t, f"{NODE}AddmmBackward0", "AddmmBackward0", lasting=lasting).pause(us(lasting))
    t.close()


def passes(count: int, lasting: float = 50, rest: float = 0) -> Facts:
    """A step of so many samples, and ``rest`` us of one operator more."""

    def step(t: TraceBuilder) -> None:
        for _ in range(count):
            sample(t, lasting)
        call(t.forward(), "aten::linear", "aten::addmm", lasting=rest)
        t.close()

    each = 2 * count * lasting / 1000
    return trained(step, {"forward": each + rest / 1000, "backward": each}, *LINES)


def test_long_operators_of_micro_batches_are_no_loss() -> None:
    """Only the Python between them is: a quarter of each pass."""
    finding = found(passes(10, 1000), MANY)
    assert finding.cost_ns == pytest.approx(18 * MS, rel=0.01)


def test_passes_are_counted_for_each_update() -> None:
    def step(t: TraceBuilder) -> None:
        for _ in range(20):
            sample(t, 50)
            t.optimizer().op("aten::add_", us(10)).close()

    assert found(trained(step, {"forward": 2, "backward": 2, "optimizer": 1}, *LINES), MANY) is None


def test_the_only_jacobian_is_where_they_come_from(tmp_path: Path) -> None:
    text = "def slope(model, x):\n    return jacobian(model, x)\n"
    run = script_run(tmp_path, text, count=100, phases={"forward": 2, "backward": 2})
    assert found(Facts(run, passes(20).analysis), MANY).place.line == 2


SUM = f"{NODE}torch::autograd::AccumulateGrad"
LINE = ("/p/train.py", 10, "backward")


def node(t: TraceBuilder, number: int | None, lasting: float, *, keeps: bool = False) -> None:
    """A node of that number, whose operator takes so many us; ``keeps`` its own graph."""
    numbered: dict[str, Any] = {} if number is None else {"Sequence number": number}
    t.op(f"{NODE}AddmmBackward0", **numbered, **{"Fwd thread id": 1})
    kept = {"Sequence number": number + 50} if keeps and number else {}
    t.op("aten::mm", us(lasting), **kept).close()


def losses(
    shared: float = 8,
    *,
    again: float = 8,
    between: tuple[str, ...] = ("aten::mul",),
    number: int | None = 1,
    forward: bool = False,
    adds: bool = True,
    keeps: bool = False,
) -> Facts:
    """Two losses that go backward after 10 ms of forward: through 4 ms of their own each, then in
    ``shared`` and ``again`` ms through what is numbered 1 and ``number``."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::linear", "aten::addmm", lasting=10_000)
        t.backward()
        node(t, 7, 4000, keeps=keeps)
        node(t, 1, 1000 * shared, keeps=keeps)
        call(t, SUM, "aten::detach", lasting=1)
        call(t, SUM, "aten::detach", lasting=1)
        t.close()
        ops(t, *between, each=1)
        if forward:
            call(t.forward(), "aten::linear", "aten::addmm", lasting=1000)
            t.close()
        t.backward()
        node(t, 8, 4000)
        node(t, number, 1000 * again)
        call(t, SUM, "aten::add_" if adds else "aten::detach", lasting=1)
        call(t, SUM, "aten::detach", lasting=1)
        t.close()

    return trained(step, {"forward": 10, "backward": 8 + shared + again}, LINE)


def test_a_forward_pass_between_them_makes_no_other_graph() -> None:
    """As where a state is handed on with its graph, and each part goes backward by itself."""
    finding = found(losses(forward=True), "repeated-backward")
    assert finding.cost_ns == pytest.approx(8 * MS, rel=0.01)


LINEAR = ("aten::linear", "aten::addmm")


@pytest.mark.parametrize(("used", "is_free"), [(49, True), (50, False)])
def test_it_is_reported_with_the_memory_that_is_free(used: float, is_free: bool) -> None:
    story = busy_with(
        K(BF16, 300, LINEAR), K(BF16, 200, LINEAR, "backward"), K(BF16, 490, (), "backward")
    )
    memory = {"gpu0.memory_used": used, "gpu0.memory_total": 100.0, "gpu0.process_memory": used}
    run = make_run(40, {"forward": 1}, telemetry=telemetry_table(**memory))
    sentence = finding_of(story, "backward-recompute", run).sentence
    assert sentence.endswith("(20 %), though 51 % of the GPU's memory is free.") is is_free


GENERATOR, CRITIC = "ConvolutionBackward0", "AddmmBackward0"


class Numbers:
    """The numbers that torch gives to nodes."""

    def __init__(self) -> None:
        self.next = 0

    def call(self, t: TraceBuilder) -> int:
        """A model is called: the number of its node."""
        self.next += 1
        t.forward().op("aten::linear", us(1000), **{"Sequence number": self.next}).close()
        return self.next


def backward(t: TraceBuilder, *nodes: tuple[str, int, float], sums: int) -> None:
    """A pass through nodes of so many us, which keeps so many gradients, and an update."""
    t.backward()
    for name, number, lasting in nodes:
        t.op(f"{NODE}{name}", us(lasting), **{"Sequence number": number, "Fwd thread id": 1})
    for _ in range(sums):
        call(t, SUM, "aten::detach", lasting=1)
    t.close().optimizer_step(us(10))


def gan(
    beyond: float = 6,
    *,
    sizes: tuple[int, ...] = (3, 2),
    critic: int = 5,
    second: int = 5,
    real: bool = True,
) -> Facts:
    """The critic learns, in ``beyond`` ms more of the generator, then the generator; ``critic``
    gradients are kept in the first pass and ``second`` in the second."""

    def step(t: TraceBuilder) -> None:
        numbers = Numbers()
        made, judged_made = numbers.call(t), numbers.call(t)
        judged_real = numbers.call(t) if real else 0
        seen = [(CRITIC, judged_real, 2000)] if real else []
        farther = [(GENERATOR, made, 1000 * beyond)] if beyond else []
        backward(t, *seen, (CRITIC, judged_made, 2000), *farther, sums=critic)
        made, judged_made = numbers.call(t), numbers.call(t)
        backward(t, (CRITIC, judged_made, 2000), (GENERATOR, made, 6000), sums=second)

    note: dict[str, Any] = {
        "optimizers": [{**SGD, "parameters": size} for size in sizes],
        "parameters": [FLOATS],
    }
    return trained(step, {"forward": 5, "backward": 12 + beyond}, LINE, note=note, steps=3)


def test_a_critic_that_stands_still_while_the_generator_learns_is_no_excuse() -> None:
    """The generator's pass then keeps only its own gradients."""
    finding = found(gan(second=3), "unused-gradients")
    assert finding.cost_ns == pytest.approx(6 * MS, rel=0.01)


@pytest.mark.parametrize(
    "other",
    [
        # Detached: the critic's pass keeps its own gradients only.
        {"beyond": 0, "critic": 2},
        # One optimizer holds all, or a third takes part that the passes do not reach.
        {"sizes": (5,)},
        {"sizes": (3, 2, 1)},
        # Which of the passes goes too far is not told.
        {"real": False},
    ],
)
def test_what_may_be_meant_is_not_reported(other: dict[str, Any]) -> None:
    assert found(gan(**other), "unused-gradients") is None


SAMPLES = """
class Model(nn.Module):
    @torch.no_grad()
    def invent(self):
        ids = torch.zeros(1, 1)
        while len(ids) < 40:
            probs = self(ids)[:, -1]
            ids = torch.cat([ids, probs.argmax()])
        return ids

def average(model, other):
    with torch.no_grad():
        for one, two in zip(model.parameters(), other.parameters()):
            one.lerp_(two, 0.1)
"""

ACTS = """
def choose(net, worlds):
    with torch.no_grad():
        for world in worlds:
            best = net(torch.from_numpy(world)).argmax()
        for world in worlds:
            print(world)
"""
LEARNS = ACTS.replace("no_grad()", "set_grad_enabled(learns)").replace(
    "argmax()", "sum().backward()"
)


EMBEDS = """
class Miner:
    @torch.no_grad()
    def refresh(self):
        self.index = torch.cat([self.model(part) for part in self.gallery])
"""


def passes_alone_of(count: int, each: float = 2) -> Facts:
    """Forward and backward of 5 and 10 ms, and ``count`` forward passes more of so many ms."""

    def step(story: TraceBuilder) -> None:
        for _ in range(count):
            call(story.forward(), "aten::linear", "aten::addmm", lasting=1000 * each)
            story.close()
        call(story.forward(), "aten::linear", "aten::addmm", lasting=5_000)
        story.backward()
        call(story, f"{NODE}AddmmBackward0", "AddmmBackward0", lasting=10_000)

    return trained(step, {"forward": 5 + count * each, "backward": 10})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SAMPLES, 6),
        (SAMPLES.replace("torch.no_grad", "torch.inference_mode"), 6),
        (SAMPLES.replace("    @torch.no_grad()\n", ""), None),
        (SAMPLES + SAMPLES, None),
        (ACTS, 4),
        (ACTS.replace("no_grad()", "set_grad_enabled(learns)"), 4),
        (LEARNS, None),
        (EMBEDS, 5),
    ],
)
def test_the_only_loop_without_gradients_that_calls_the_model_is_named(
    tmp_path: Path, text: str, line: int | None
) -> None:
    found = line_without_gradients(Facts(script_run(tmp_path, text)))
    assert (found.line if found else None) == line


@pytest.mark.parametrize(("switch", "line"), [("model", 4), ("other", None)])
def test_a_model_that_is_scored_between_its_modes_is_named(
    tmp_path: Path, switch: str, line: int | None
) -> None:
    text = f"def score(model, part):\n    {switch}.eval()\n\n    pred = model(part)\n    "
    text += "model.train()\n    return pred.mean()\n\n\nmodel(0)\n"
    found = line_of_scoring(Facts(script_run(tmp_path, text)))
    assert (found.line if found else None) == line


PLAYS = """
def play(policy, world, count):
    seen = []
    with torch.no_grad():
        for _ in range(count):
            world = move(world, policy(world).argmax(1))
            seen.append(world)
    return torch.stack(seen)

def main(policy, world):
    for step in range(9):
        seen = play(policy, world, 16)
        loss = policy(seen).pow(2).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "is_trained_on"),
    [(PLAYS, True), (PLAYS.replace("policy(seen)", "policy(world)"), False), (SAMPLES, False)],
)
def test_acting_is_told_apart_from_evaluation_by_what_is_trained_on(
    text: str, is_trained_on: bool
) -> None:
    line = 1 + text[: text.index("        for _" if "for _" in text else "while")].count("\n")
    assert makes_training_data(parse_program(text.encode()), line) is is_trained_on


def test_what_a_function_of_the_loop_does_is_acting_too() -> None:
    acts = "def act(policy, world):\n    return policy(world).argmax(1)\n"
    text = acts + PLAYS.replace("policy(world).argmax(1)", "act(policy, world)")
    assert makes_training_data(parse_program(text.encode()), 2)
    apart = text.replace("policy(seen)", "policy(world)")
    assert not makes_training_data(parse_program(apart.encode()), 2)


STEPS = """
optimizer = Adam(model.parameters())
def accuracy(model, x):
    return model(x).argmax(1)
def right(x):
    return model(x)
for epoch in range(9):
    for step, x in enumerate(batches):
        loss = model(x).mean()
        loss.backward()
        optimizer.step()  # more
    print(accuracy(model, held))
"""
MORE = "# more\n        "


@pytest.mark.parametrize(
    ("text", "is_once"),
    [
        (STEPS, True),
        (STEPS.replace("# more", MORE + "if step % 50 == 0: accuracy(model, held)"), True),
        (STEPS.replace("# more", MORE + "accuracy(model, x)"), False),
        (STEPS.replace("# more", MORE + "if loss < 1: accuracy(model, x)"), False),
        (STEPS.replace("# more", MORE + "right(x)"), False),
        (STEPS.replace("model(x).mean()", "sum(model(x) for _ in x)"), False),
    ],
)
def test_a_model_that_each_step_calls_once_runs_again_in_evaluations(
    text: str, is_once: bool
) -> None:
    assert list(trained_once(parse_program(text.encode()))) == ["model"] * is_once
