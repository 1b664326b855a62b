"""Loops that hide their steps, and processes that only look like trainings."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.subprocess


def test_optimizer_of_the_scripts_own_beside_one_of_torch_that_never_steps(train: Any) -> None:
    source = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Plain:
    def __init__(self, parameters):
        self.parameters = list(parameters)

    @torch.no_grad()
    def step(self):
        for one in self.parameters:
            one.add_(one.grad, alpha=-0.1)
            one.grad = None

model = nn.Linear(4, 4)
unused = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = Plain(model.parameters())
for (x,) in DataLoader(TensorDataset(torch.ones(60, 4)), 4):
    model(x).sum().backward()
    optimizer.step()
"""
    run = train(source)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 15
    assert run.notes("error") == run.notes("warning") == []


def test_workers_that_import_an_unguarded_script_are_no_ranks(train: Any) -> None:
    source = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
data = TensorDataset(torch.ones(8, 4))
for (x,) in DataLoader(data, 4, num_workers=1, multiprocessing_context="spawn"):
    pass
"""
    run = train(source)

    assert run.code != 0
    assert "bootstrapping phase" in run.err
    assert len(run.spool.rings()) == 1
    assert run.step_kinds[:3] == ["train"] * 3


def test_children_that_train_once_they_are_made_are_recorded(train: Any) -> None:
    source = """
import torch
from torch import nn

def work(index):
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

nn.Linear(4, 4)(torch.ones(2, 4))
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=1)
"""
    run = train(source)

    assert (run.code, run.err) == (0, "")
    steps = sorted(
        sum(record.kind == "step" for record in run.records(ring))
        for ring in range(len(run.spool.rings()))
    )
    # The parent called a module once.
    assert steps == [1, 3]


@pytest.mark.parametrize("way", ["compiled", "plain"])
def test_a_forward_pass_that_cannot_be_timed_is_said(train: Any, way: str) -> None:
    source = """
import sys, torch
from torch import nn
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if sys.argv[1] == "compiled":
    forward = torch.compile(lambda x: model(x).sum(), backend="eager")
else:
    forward = lambda x: nn.functional.linear(x, model.weight).sum()
for step in range(15):
    forward(torch.ones(2, 4)).backward()
    optimizer.step()
"""
    run = train(source, way)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 15
    (warning,) = run.notes("warning")
    assert "counts as other: no module is called outside compiled" in warning["message"]
