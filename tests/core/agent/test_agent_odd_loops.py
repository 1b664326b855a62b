"""Loops that hide their steps, and processes that only look like trainings."""

from typing import Any

import pytest

from tests.core.agent.conftest import STEPS

pytestmark = pytest.mark.subprocess


@pytest.mark.slow
def test_workers_that_import_an_unguarded_script_are_no_ranks(train: Any) -> None:
    source = """
from torch.utils.data import DataLoader, TensorDataset
train(3)
data = TensorDataset(torch.ones(8, 4))
for (x,) in DataLoader(data, 4, num_workers=1, multiprocessing_context="spawn"):
    pass
"""
    # Spawned workers start as this process did.
    run = train(STEPS + source, fresh=True)

    assert run.code != 0
    assert "bootstrapping phase" in run.err
    assert len(run.spool.rings()) == 1
    assert run.step_kinds[:3] == ["train"] * 3


@pytest.mark.slow
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
    # Spawned children start as this process did.
    run = train(source, fresh=True)

    assert (run.code, run.err) == (0, "")
    # The parent called a module once.
    assert run.steps_of_each == [1, 3]


@pytest.mark.slow
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
    # The compiler finds nothing but what it imports.
    run = train(source, way, fresh=way == "compiled")

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 15
    (warning,) = run.notes("warning")
    assert "counts as other: no module is called outside compiled" in warning["message"]


def test_optimizers_in_threads_of_the_autograd_engine(train: Any) -> None:
    """With a GPU, hooks of a backward pass run there; played here by threads of Python."""
    source = """
import threading
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 4)
optimizers = {one: torch.optim.SGD([one], lr=0.1) for one in model.parameters()}
task = torch._C._current_graph_task_id
main = threading.get_ident()
torch._C._current_graph_task_id = lambda: task() if threading.get_ident() == main else 1

def step(one):
    def work():
        optimizers[one].step()
        optimizers[one].zero_grad()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

for one in model.parameters():
    one.register_post_accumulate_grad_hook(step)
for (x,) in DataLoader(TensorDataset(torch.ones(120, 4)), 4):
    model(x).sum().backward()
"""
    run = train(source)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 30
    for kind in ("input_wait", "forward", "backward"):
        assert len({one.step for one in run.of_kind(kind)}) >= 30
    assert len(run.of_kind("optimizer")) == 2 * 30
    assert run.notes("error") == []


def test_a_mode_of_the_script_sees_only_calls_of_the_script(unnoticed: Any) -> None:
    source = """
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

class Printing(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        print(function.__name__)
        return function(*args, **(kwargs or {}))

model = nn.Linear(4, 4)
with Printing():
    for step in range(20):
        model(torch.ones(2, 4)).sum().backward()
        for one in model.parameters():
            one.data.add_(one.grad, alpha=-0.1)
            one.grad = None
"""
    run = unnoticed(source)

    assert "backward" in run.out
    assert run.step_kinds == ["train"] * 20


@pytest.mark.parametrize("parameters", [3, 100])
def test_a_backward_pass_in_which_optimizers_step_is_one_step(train: Any, parameters: int) -> None:
    """No loader ends the steps, and more optimizers step in each than are ever learned."""
    source = """
import sys
import torch

weights = [torch.nn.Parameter(torch.ones(4)) for _ in range(int(sys.argv[1]))]
optimizers = {one: torch.optim.SGD([one], lr=0.1) for one in weights}

def step(one):
    optimizers[one].step()
    optimizers[one].zero_grad()

for one in weights:
    one.register_post_accumulate_grad_hook(step)
for _ in range(30):
    torch.stack(weights).pow(2).sum().backward()
"""
    # A window at a given step: how long a loop of milliseconds warms up depends on the machine.
    run = train(source, str(parameters), options={"first_step": 10, "window_steps": 3})

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 30
    assert len(run.of_kind("optimizer")) == parameters * 30
    for backward, step in zip(run.of_kind("backward"), run.of_kind("step"), strict=True):
        assert step.start <= backward.start
        assert backward.start + backward.duration <= step.start + step.duration
    names = [event["name"] for event in run.events()]
    (note,) = run.notes("window")
    assert names.count("aten::stack") == note["steps"]
    assert names.count("Optimizer.step#SGD.step") == note["steps"] * parameters
    assert run.notes("error") == []


def test_threads_that_begin_at_once_are_recorded_by_one_of_them(train: Any) -> None:
    """A second thread calls a module while the recording of the first one is being made."""
    source = """
allocate = os.posix_fallocate

def meanwhile(*args):
    thread = threading.Thread(target=model, args=(torch.ones(2, 8),))
    thread.start()
    thread.join()
    return allocate(*args)

os.posix_fallocate = meanwhile
train(20)
"""
    run = train(STEPS + source)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 20
    assert len(run.of_kind("forward")) == len(run.of_kind("backward")) == 20
    assert run.notes("error") == []


def test_steps_of_a_second_thread_are_said_to_be_missing(train: Any) -> None:
    source = """
train(20)
for _ in range(2):
    thread = threading.Thread(target=train, args=(20,))
    thread.start()
    thread.join()
train(20)
"""
    run = train(STEPS + source)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 40
    (warning,) = run.notes("warning")
    assert warning["message"].startswith("several threads run optimizers")
    assert run.notes("error") == []
