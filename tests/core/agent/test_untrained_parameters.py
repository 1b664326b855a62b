"""Parameters that no optimizer holds lose their gradients, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.agent.conftest import Run, Train

pytestmark = pytest.mark.subprocess

ASKED = {"target": "parameters", "arguments": {"requires_grad": False}, "fix": "requires-grad-off"}

TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU())
head = nn.Linear(8, 1)
model = nn.Sequential(backbone, head)
{more}
optimizer = torch.optim.SGD({held}, lr=0.1)
for step in range(6):
    loss = model(torch.rand(16, 8)).square().mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
print(f"{{loss.item():.6f}}", [one.requires_grad for one in model.parameters()], torch.rand(1))
"""


def training(held: str = "head.parameters()", more: str = "", after: str = "") -> str:
    return TRAINING.format(held=held, more=more, after=after)


def told(run: Run) -> dict[str, Any]:
    (note,) = run.notes("override")
    return note


@pytest.mark.slow
def test_gradients_go_and_the_training_stays_as_it_was(train: Train) -> None:
    plain = train(training(), agent=False)
    run = train(training(), overrides=[ASKED])
    assert (run.code, run.err) == (0, "")
    assert plain.out.replace("[True, True, ", "[False, False, ") == run.out
    assert run.out.split()[1:5] == ["[False,", "False,", "True,", "True]"]
    note = told(run)
    assert (note["outcome"], note["fix"]) == ("applied", "requires-grad-off")
    assert note["values"] == {"requires_grad": False}


REFUSED = [
    (training(held="model.parameters()"), "every parameter with a gradient is in an optimizer"),
    (
        training(
            after="[one.data.sub_(0.1 * one.grad) for one in backbone.parameters()]",
        ),
        "the script changes these parameters itself",
    ),
    (
        training(more="model = nn.DataParallel(model)"),
        "DataParallel was made with these parameters",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "why"), REFUSED)
def test_what_is_trained_otherwise_keeps_its_gradients(train: Train, source: str, why: str) -> None:
    plain = train(source, agent=False)
    run = train(source, overrides=[ASKED])
    assert (run.code, run.out, run.err) == (plain.code, plain.out, plain.err)
    note = told(run)
    assert (note["outcome"], note["why"]) == ("refused", f"requires_grad: {why}")


@pytest.mark.slow
def test_what_gradients_are_asked_of_keeps_them(train: Train) -> None:
    """``autograd.grad`` fills no ``.grad``, and would raise without."""
    source = training(
        held="[*head.parameters(), *backbone[0].parameters()]",
        more="probe = nn.Linear(1, 1); model.add_module('probe', probe)",
        after="torch.autograd.grad(probe(torch.ones(1)).sum(), list(probe.parameters()))",
    ).replace("model(torch", "nn.Sequential(backbone, head)(torch")
    run = train(source, overrides=[ASKED])
    assert (run.code, run.err) == (0, "")
    assert told(run)["outcome"] == "refused"


@pytest.mark.slow
def test_nothing_else_of_parameters_can_be_tried(train: Train) -> None:
    other = {**ASKED, "arguments": {"requires_grad": True}}
    run = train(training(), overrides=[other])
    assert told(run)["why"] == "requires_grad: only requires_grad=False can be tried"


def test_a_short_training_says_nothing(train: Train) -> None:
    short = train(training().replace("range(6)", "range(2)"), overrides=[ASKED])
    assert (short.code, short.notes("override")) == (0, [])
