"""Steps that call the model many times for each time they train it, and where they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.source.source_calls import line_without_gradients
from tests.core.diagnosis.cpu_runs import call, judged, trained
from tests.core.diagnosis.runs import MS, make_run
from tests.core.diagnosis.stories import reasons
from tests.traces.builder import TraceBuilder

NODE = "autograd::engine::evaluate_function: "

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


def passes(count: int, each: float = 2) -> Facts:
    """Forward and backward of 5 and 10 ms, and ``count`` forward passes more of so many ms."""

    def step(story: TraceBuilder) -> None:
        for _ in range(count):
            call(story.forward(), "aten::linear", "aten::addmm", lasting=1000 * each)
            story.close()
        call(story.forward(), "aten::linear", "aten::addmm", lasting=5_000)
        story.backward()
        call(story, f"{NODE}AddmmBackward0", "AddmmBackward0", lasting=10_000)

    return trained(step, {"forward": 5 + count * each, "backward": 10})


def told(count: int, each: float = 2) -> Finding | None:
    return judged(passes(count, each), "evaluation")


def test_many_forward_passes_in_each_step_are_reported() -> None:
    finding = told(10)
    assert finding is not None
    assert finding.sentence == (
        "Each step calls the model 10 times more than it trains it: those forward passes take "
        "20 ms of each 35 ms step (57 %)."
    )
    assert (finding.cost_ns, finding.severity) == (20 * MS, Severity.CRITICAL)


@pytest.mark.parametrize(("count", "each"), [(6, 20), (10, 0.37)])
def test_a_few_of_them_or_short_ones_are_left_alone(count: int, each: float) -> None:
    assert told(count, each) is None


def test_without_a_window_they_are_not_looked_for() -> None:
    facts = Facts(make_run(phases={"forward": 25, "backward": 10}))
    assert "evaluation" not in reasons(diagnosis(facts))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SAMPLES, 6),
        (SAMPLES.replace("torch.no_grad", "torch.inference_mode"), 6),
        (SAMPLES.replace("    @torch.no_grad()\n", ""), None),
        (SAMPLES + SAMPLES, None),
        (ACTS, 4),
    ],
)
def test_the_only_loop_without_gradients_that_calls_the_model_is_named(
    tmp_path: Path, text: str, line: int | None
) -> None:
    (tmp_path / "train.py").write_text(text)
    facts = Facts(make_run(cwd=str(tmp_path), events=(("process", {"argv0": "train.py"}),)))
    found = line_without_gradients(facts)
    assert (found.line if found else None) == line
