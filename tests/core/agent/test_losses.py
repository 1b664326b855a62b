"""The losses of the first steps are noted, and nothing of the training changes."""

from __future__ import annotations

import pytest

from tests.core.agent.conftest import Train

pytestmark = pytest.mark.subprocess

SOURCE = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    first, second = model(torch.ones(3, 4)).square().mean(0)
    {backward}
    optimizer.step()
    optimizer.zero_grad()
    print(f"{{(first + second).item():.6f}}")
"""

ALIKE = {
    "once": "(first + second).backward()",
    "one by one": "first.backward(retain_graph=True); second.backward()",
    "by autograd": "torch.autograd.backward(first + second)",
}


@pytest.mark.parametrize("how", ALIKE)
def test_each_step_is_the_sum_of_its_backward_passes(train: Train, how: str) -> None:
    source = SOURCE.format(backward=ALIKE[how])
    plain = train(source, agent=False)
    run = train(source, options={"losses": 4})
    assert (run.code, run.out, run.err) == (0, plain.out, "")
    (note,) = run.notes("losses")
    assert note["values"] == pytest.approx([float(line) for line in run.out.split()[:4]], abs=1e-6)


def test_a_loss_that_is_no_number_is_reported(train: Train) -> None:
    source = SOURCE.format(
        backward="(first * float('nan')).backward(); torch.nn.init.ones_(model.weight)"
    )
    (note,) = train(source, options={"losses": 2}).notes("losses")
    assert note["values"] == ["nan", "nan"]


def test_what_is_no_single_number_is_none(train: Train) -> None:
    source = SOURCE.format(backward="torch.stack([first, second]).backward(torch.ones(2))")
    assert train(source, options={"losses": 2}).notes("losses") == []


def test_a_script_without_steps_keeps_no_more_than_it_may(train: Train) -> None:
    source = """
import gc
import torch
weight = torch.ones(1, requires_grad=True)
for turn in range(400):
    (weight * 2).sum().backward()
print(sum(isinstance(one, torch.Tensor) for one in gc.get_objects()))
"""
    plain, run = train(source, agent=False), train(source, options={"losses": 1})
    assert run.code == 0
    assert int(run.out) <= int(plain.out) + 64
