"""Layers that a step runs twice with the same input, by its text and by a window."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.facts.fact import Facts
from perftui.facts.source.source_calls import same_call
from tests.core.diagnosis.cpu_runs import call, judged
from tests.core.diagnosis.runs import MS, make_run
from tests.traces.builder import TraceBuilder

NODE = "autograd::engine::evaluate_function: "
RULE = "repeated-forward"
SUM = f"{NODE}torch::autograd::AccumulateGrad"

CENTRES = """
class Net(nn.Module):
    def embed(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)
    def forward(self, x):
        return self.head(self.embed(x))

class Centres(nn.Module):
    def __init__(self, model):
        self.model = [model]
    def forward(self, images, labels):
        z = self.model[0].embed(images)
        return (z - self.centres[labels]).square().mean()

def main():
    model = Net(50).to(device)
    model = Net(50)
    centres = Centres(model)
    for step in range(100):
        i = torch.randint(0, 1000, (64,))
        x, y = images[i], labels[i]
        loss = cross_entropy(model(x), y) + centres(x, y)
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""

STARRED = "        a = net(x)\n        b = net(x)\n        (a + b).backward()\n"

PAIRS = """
def loss_of(encoder, batch, other):
    return contrast(encoder(batch), encoder(other))

encoder = Encoder()
for x, view in loader:
    loss = loss_of(encoder, x, view)
    loss.backward()
    optimizer.step()
"""


def facts_of(
    text: str, tmp_path: Path, story: TraceBuilder | None = None, **phases: float
) -> Facts:
    (tmp_path / "train.py").write_text(text)
    events = (("process", {"argv0": "train.py"}),)
    run = make_run(count=100, phases=phases or None, cwd=str(tmp_path), events=events)
    return Facts(run, story.analysis() if story else None)


def line(text: str, tmp_path: Path) -> int | None:
    found = same_call(facts_of(text, tmp_path))
    return found.line if found else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CENTRES, 14),
        (
            CENTRES.replace("        z = self.model[0].embed(images)\n", "").replace(
                "return (z -", "return (self.model[0].embed(images) -"
            ),
            14,
        ),
        (PAIRS.replace("x, view)", "x, x)"), 3),
        (PAIRS.replace("x, view)", "x, other=x)"), 3),
        (f"def run(net, *more):\n    for x, y in loader:\n{STARRED}run(Net(), *data)\n", 4),
        (PAIRS.replace("contrast(", "contrast(encoder(1 - batch), ").replace("view)", "x)"), None),
        ("def broken(:", None),
    ],
    ids=[
        "through a method",
        "within an expression",
        "through a helper",
        "by name",
        "beside others in a row",
        "and with another",
        "no Python",
    ],
)
def test_a_call_with_the_same_input_is_found(
    tmp_path: Path, text: str, expected: int | None
) -> None:
    assert line(text, tmp_path) == expected


def steps(body: str) -> str:
    """A script that trains ``net`` by ``body``."""
    inside = "".join(f"    {one}\n" for one in body.split("; "))
    made = "net, other = Net(), Net()\n"
    return f"{made}for x, y in loader:\n{inside}    optimizer.step()\n"


TWICE = "a = net(x); b = net(x); (a + b).backward()"


def test_the_plain_case_is_found(tmp_path: Path) -> None:
    assert line(steps(TWICE), tmp_path) == 4


@pytest.mark.parametrize(
    "body",
    [
        "a = net(x); b = net(y); (a + b).backward()",
        "a = net(augment(x)); b = net(augment(x)); (a + b).backward()",
        "a = net(x); b = net(x + noise); (a + b).backward()",
        "a = net(x); b = net(x.flip(0)); (a + b).backward()",
        "a = net(x); x = x * 2; b = net(x); (a + b).backward()",
        "a = net(x); x.mul_(2); b = net(x); (a + b).backward()",
        "a = net(x); x[0] = 0; b = net(x); (a + b).backward()",
        "a = net(x); x += 1; b = net(x); (a + b).backward()",
        "a = net(x); perturb(x); b = net(x); (a + b).backward()",
        "a = net(x); net.eval(); b = net(x); (a + b).backward()",
        "a = net(x); net.scale = 2; b = net(x); (a + b).backward()",
        "a = net(x); a.backward(); b = net(x); b.backward()",
        "a = net(x); minimizer.step(); b = net(x); b.backward()",
        "a = net(x); b = other(x); (a + b).backward()",
        "a = net(x)\n    with torch.no_grad():\n        b = net(x); (a + b).backward()",
        "a = net(x)\n    if show:\n        b = net(x); a.backward()",
        "a = net(x)\n    for y in ys:\n        b = net(x)\n        c = net(y); a.backward()",
        "a = [net(v) for v in (x, y)]; sum(a).backward()",
        "fake = net(z); d = other(x) + other(fake); d.backward(); g = other(fake); g.backward()",
        "a = net(x, 0); b = net(x, 1); (a + b).backward()",
        "a = net(*x); b = net(*y); (a + b).backward()",
    ],
)
def test_other_input_or_another_state_is_no_repetition(tmp_path: Path, body: str) -> None:
    assert line(steps(body), tmp_path) is None


def test_another_model_of_the_same_class_is_no_repetition(tmp_path: Path) -> None:
    teacher = "class Net(Module):\n    def forward(self, x):\n        return self.layer(x)\n"
    both = "a = net(x); b = other(x); (a + b).backward()"
    assert line(teacher + steps(both), tmp_path) is None
    assert line(teacher + steps(TWICE), tmp_path) == 7


def used_twice(
    second: float = 10,
    *,
    shared: bool = True,
    between: str = "aten::relu",
    often: int = 2,
    before: bool = False,
) -> TraceBuilder:
    """10 ms of two layers and ``second`` ms of two, the same where ``shared``, then backward
    through all, as long again; ``before`` all a pass that has no backward pass."""

    def layers(t: TraceBuilder, lasting: float) -> None:
        for _ in range(2):
            call(t, "aten::linear", "aten::addmm", lasting=500 * lasting)
            t.op(between).close()

    def back(t: TraceBuilder, lasting: float, *, keeps: bool) -> None:
        for _ in range(2):
            call(t, f"{NODE}AddmmBackward0", "AddmmBackward0", lasting=500 * lasting)
            if keeps:
                call(t, SUM, lasting=1)

    def step(t: TraceBuilder) -> None:
        t.step().forward()
        if before:
            layers(t, 10)
            t.op("aten::argmax").close()
        layers(t, 10)
        t.op("aten::exp").close()
        if often > 1:
            layers(t, second)
        t.op("aten::sum").close().close()
        t.backward()
        if often > 1:
            back(t, second, keeps=not shared)
        back(t, 10, keeps=True)
        t.end()

    return TraceBuilder().repeat(2, step)


def test_layers_that_run_twice_with_the_same_input_are_reported(tmp_path: Path) -> None:
    finding = judged(facts_of(CENTRES, tmp_path, used_twice(), forward=20, backward=20), RULE)
    assert finding is not None
    assert finding.sentence == (
        "The same layers run twice on the same input in one step, forward and backward: the "
        "second run takes 20 ms of each 40 ms step (50 %), at train.py:14."
    )
    assert finding.cost_ns == pytest.approx(20 * MS, rel=0.01)
    short = facts_of(CENTRES, tmp_path, used_twice(0.5), forward=10.5, backward=10.5)
    assert judged(short, RULE) is None


def test_a_pass_before_them_without_a_backward_pass_hides_nothing(tmp_path: Path) -> None:
    story = used_twice(before=True)
    finding = judged(facts_of(CENTRES, tmp_path, story, forward=30, backward=20), RULE)
    assert finding is not None
    assert finding.cost_ns == pytest.approx(20 * MS, rel=0.01)


@pytest.mark.parametrize(
    ("text", "story"),
    [
        (PAIRS, used_twice()),
        (CENTRES, used_twice(shared=False)),
        (CENTRES, used_twice(between="aten::bernoulli_")),
        (CENTRES, used_twice(often=1)),
    ],
    ids=["two views", "other weights", "two masks of dropout", "once"],
)
def test_without_either_evidence_nothing_is_said(
    tmp_path: Path, text: str, story: TraceBuilder
) -> None:
    assert judged(facts_of(text, tmp_path, story, forward=20, backward=20), RULE) is None
    assert judged(facts_of(CENTRES, tmp_path), RULE) is None
