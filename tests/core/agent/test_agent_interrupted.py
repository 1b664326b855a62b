"""Windows that are ended from outside, and an agent that fails: the training never notices."""

from pathlib import Path
from typing import Any

import pytest

from perftui.agent.windows.budget import LEAST_PAUSE_NS, SLOW_PAUSE
from perftui.agent.windows.plan import MOST_ATTEMPTS
from perftui.wire.ring import PROFILED_FLAG
from tests.core.agent.conftest import STEPS

pytestmark = pytest.mark.subprocess

EPOCHS = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
batches, epochs = map(int, sys.argv[1:3])
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(2 * batches, 4)), 2, num_workers=1)
for epoch in range(epochs):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
print("done")
"""

UNTIL_A_WINDOW = """
def is_open():
    return torch._C._autograd._profiler_enabled()
for _ in range(100):
    if is_open():
        break
    step()
"""


@pytest.mark.slow
def test_workers_forked_for_two_batches_leave_room_for_a_window(train: Any) -> None:
    run = train(EPOCHS, "2", "40")

    assert (run.code, run.out) == (0, "done\n")
    (window,) = run.notes("window")
    assert window["steps"] == 1
    names = [event["name"] for event in run.events()]
    assert f"ProfilerStep#{window['first_step']}" in names
    assert "aten::linear" in names


@pytest.mark.slow
def test_workers_forked_for_every_batch_are_not_tried_for_ever(train: Any) -> None:
    run = train(EPOCHS, "1", "60")

    assert (run.code, run.out) == (0, "done\n")
    assert run.notes("window") == []
    assert ["cut short" in warning["message"] for warning in run.notes("warning")] == [True]
    # Each attempt has up to four stages; on a slow machine it is time for another window.
    began, ended = run.of_kind("step")[0].start, run.of_kind("step")[-1].start
    triggers = 1 + (ended - began) * SLOW_PAUSE // LEAST_PAUSE_NS
    assert 0 < len(run.of_kind("profiler")) <= 4 * MOST_ATTEMPTS * triggers


def test_step_in_which_a_fork_ended_a_window_is_marked_and_its_cost_told(train: Any) -> None:
    source = """
optimizer.zero_grad()
if os.fork() == 0:
    os._exit(0)
os.wait()
print(is_open())
model(torch.ones(4, 8)).sum().backward()
optimizer.step()
train(6)
"""
    run = train(STEPS + UNTIL_A_WINDOW + source, options={"max_steps": 60})

    assert (run.code, run.out) == (0, "False\n")
    steps = run.of_kind("step")
    prepared, opened, closed, *again = run.of_kind("profiler")
    forked = next(step for step in steps if step.start <= closed.start < step.start + step.duration)
    assert closed.step == forked.step == opened.step
    assert forked.flag & PROFILED_FLAG
    assert prepared.step < opened.step
    # Another attempt follows, in one go.
    assert again
    assert len(run.notes("window")) == 1


def test_profiler_of_another_thread_leaves_our_window_to_its_own(train: Any) -> None:
    source = """
def profile():
    with torch.autograd.profiler.profile() as profiler:
        torch.ones(3).sum()
    print(len(profiler.function_events))

thread = threading.Thread(target=profile)
thread.start()
thread.join()
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(2000):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000)
"""
    run = train(STEPS + UNTIL_A_WINDOW + source)

    assert (run.code, run.out) == (0, "6\nTrue\n")
    assert run.notes("error") == run.notes("window") == []
    messages = [one["message"] for one in run.notes("warning")]
    assert ["its own profiler" in messages[0], "a window was lost" in messages[1]] == [True] * 2


def test_a_profiler_of_the_script_in_the_middle_of_a_window_is_left_whole(train: Any) -> None:
    source = """
with torch.autograd.profiler.profile() as profiler:
    step()
print([one.count for one in profiler.key_averages() if one.key == "aten::linear"])
train(60)
"""
    run = train(STEPS + UNTIL_A_WINDOW + source)

    assert (run.code, run.out) == (0, "[1]\n")
    assert len(run.notes("window")) >= 1


def test_results_of_a_window_are_never_made_python_objects(train: Any) -> None:
    # torch 2.4 asks for them as soon as the recording ends.
    source = """
profile = torch.autograd.profiler.profile
leave = profile.__exit__
def eager(self, *args):
    leave(self, *args)
    print("events", len(self._parse_kineto_results(self.kineto_results)))
profile.__exit__ = eager
train(80)
"""
    run = train(STEPS + source)

    assert (run.code, run.out) == (0, "events 0\n")
    (window,) = run.notes("window")
    assert "aten::linear" in (run.spool.root / window["file"]).read_text()


def test_first_window_is_of_training_though_validation_comes_first(train: Any) -> None:
    source = """
from torch.utils.data import DataLoader, TensorDataset
data = DataLoader(TensorDataset(torch.ones(400, 8)), 4)
with torch.no_grad():
    for (x,) in data:
        model(x)
for (x,) in data:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
print("not reached")
"""
    run = train(STEPS + source, options={"max_steps": 80})

    assert (run.code, run.out) == (0, "")
    assert run.step_kinds == ["eval"] * 100 + ["train"] * 80
    (window,) = run.notes("window")
    assert window["first_step"] >= 100


def test_a_forked_child_and_a_failed_agent_listen_to_nothing(train: Any) -> None:
    source = """
train(3)
listeners = len(gc.callbacks)
if os.fork() == 0:
    print("child", len(gc.callbacks), flush=True)
    os._exit(0)
os.wait()
sys.modules["_perftui.agent.recording.steps"].StepMachine.backward = lambda self: 1 / 0
step()
print(listeners, len(gc.callbacks))
step()
"""
    run = train(STEPS + source)

    assert (run.code, run.out) == (0, "child 0\n1 0\n")
    assert "ZeroDivisionError" in run.notes("error")[0]["message"]
    assert len(run.of_kind("step")) <= 3


def test_torch_that_lacks_a_place_to_listen_at_is_left_alone(train: Any, tmp_path: Path) -> None:
    source = """
from perftui.agent.startup.arm import arm
del torch.amp.GradScaler
try:
    arm(torch, sys.argv[1])
except AttributeError as error:
    print("GradScaler" in str(error))
train(30)
if os.fork() == 0:
    step()
    sys.exit()
os.wait()
print(len(gc.callbacks))
"""
    spool = tmp_path / "armed"
    spool.mkdir()
    run = train(STEPS + source, str(spool), agent=False)

    assert (run.code, run.out, run.err) == (0, "True\n0\n", "")
    assert list(spool.iterdir()) == []


def test_an_alarm_while_a_window_is_saved_reaches_the_script(train: Any) -> None:
    source = """
import signal
def alarm(*_):
    raise TimeoutError("took too long")
signal.signal(signal.SIGUSR1, alarm)
window = sys.modules["_perftui.agent.windows.torch_window"].Window
window.save = lambda *_: signal.raise_signal(signal.SIGUSR1)
try:
    for _ in range(100):
        step()
except TimeoutError as error:
    print(error, is_open())
train(5)
"""
    run = train(STEPS + UNTIL_A_WINDOW + source)

    assert (run.code, run.out, run.err) == (0, "took too long False\n", "")
    assert run.notes("error") == run.notes("window") == []
    assert run.of_kind("step")[-1].step > 5


def test_a_child_forked_in_a_forward_pass_records_the_modules_it_calls(train: Any) -> None:
    source = """
class Forking(nn.Module):
    def forward(self, x):
        child = os.fork()
        if child == 0:
            for _ in range(5):
                step()
            print(os.getpid(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        return x
step()
Forking()(torch.ones(1))
step()
"""
    run = train(STEPS + source)

    assert run.code == 0
    names = [path.name for path in run.spool.rings()]
    child = names.index(f"ring-{run.out.strip()}")
    forwards = [sum(one.kind == "forward" for one in run.records(at)) for at in (child, 1 - child)]
    assert forwards == [5, 3]


RAISING = """
import signal
import torch.autograd.profiler as profiler
class Interrupted(Exception):
    pass
def handle(*_):
    raise Interrupted
signal.signal(signal.SIGUSR1, handle)
left = int(sys.argv[3])
def interrupted(holder, name, when):
    original = getattr(holder, name)
    def call(*args, **kwargs):
        global left
        try:
            if when == "before" and left:
                left -= 1
                signal.raise_signal(signal.SIGUSR1)
            return original(*args, **kwargs)
        finally:
            if when == "after" and left:
                left -= 1
                signal.raise_signal(signal.SIGUSR1)
    setattr(holder, name, call)
holder = {"profile": profiler.profile, "profiler": profiler, "autograd": torch.autograd}
path, name = sys.argv[1].split(".")
interrupted(holder[path], name, sys.argv[2])
caught = 0
for _ in range(200):
    try:
        step()
    except Interrupted:
        caught += 1
print(caught > 0, left < int(sys.argv[3]), torch._C._autograd._profiler_enabled())
"""


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    ("function", "when"),
    [
        ("profile._prepare_trace", "before"),
        ("profile._prepare_trace", "after"),
        ("profile._start_trace", "before"),
        ("profiler._enable_profiler", "after"),
        ("autograd._record_function_with_args_enter", "after"),
        ("autograd._record_function_with_args_exit", "before"),
        ("profile.__exit__", "before"),
        ("profiler._disable_profiler", "after"),
    ],
)
def test_what_a_handler_raises_as_a_window_begins_or_ends_leaves_no_profiler_on(
    train: Any, function: str, when: str, times: int
) -> None:
    run = train(STEPS + RAISING, function, when, str(times))

    assert (run.code, run.out) == (0, "True True False\n")
    assert run.notes("error") == []
    assert len([kind for kind in run.step_kinds if kind == "train"]) >= 200 - times
