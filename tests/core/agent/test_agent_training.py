"""Real training scripts under the agent: what it records, and that they do not notice."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from perftui.agent.safety.meter import ALWAYS_UNTIL
from perftui.recorder.spool import RingReader
from perftui.wire.control_page import DETAILS as CONTROL_DETAILS
from perftui.wire.spool import DETAILS
from tests.core.agent.conftest import STEPS

pytestmark = pytest.mark.subprocess

PLAIN = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
    workers, context = int(sys.argv[1]), (sys.argv[2:] or [None])[0]
    loader = DataLoader(
        data, 8, True,
        num_workers=workers, multiprocessing_context=context, persistent_workers=context == "spawn")
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            print(loss.item())
    print(torch.rand(1).item())

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [("0",), ("2", "fork"), ("2", "spawn")], ids="-".join)
def test_a_training_comes_out_the_same_and_is_recorded(
    train: Any, workers: tuple[str, ...]
) -> None:
    # All of it, from the start of the interpreter to its end.
    alone = train(PLAIN, *workers, agent=False, fresh=True)
    watched = train(PLAIN, *workers, fresh=True)

    assert (watched.code, watched.out) == (0, alone.out)
    # Python's tracker of shared resources complains at random about spawned workers.
    assert watched.err == alone.err or "spawn" in workers
    assert watched.step_kinds == ["train"] * 30
    assert [len(watched.of_kind(kind)) for kind in ("forward", "backward", "optimizer")] == [30] * 3
    # Each epoch asks once more than there are batches; the first time it waits for new workers.
    starts = {("0",): 0, ("2", "fork"): 3, ("2", "spawn"): 1}[workers]
    assert len(watched.of_kind("input_wait")) == 33 - starts
    assert len(watched.of_kind("loader_start")) == 3 + starts
    assert len(watched.of_kind("input_cpu")) == 33 - starts
    assert len(watched.spool.rings()) == 1
    assert watched.notes("error") == []


def test_steps_tile_the_time_and_tell_the_agents_cost_and_the_loader_is_described(
    train: Any, tmp_path: Path
) -> None:
    run = train(PLAIN, "2", "fork")

    steps = {step.step: step for step in run.of_kind("step")}
    ordered = [steps[index] for index in sorted(steps)]
    assert sorted(steps) == list(range(30))
    for first, second in itertools.pairwise(ordered):
        assert first.start + first.duration == second.start
    phases = [one for one in run.records() if one.kind in ("forward", "backward", "optimizer")]
    for phase in phases:
        step = steps[phase.step]
        assert step.start <= phase.start
        assert phase.start + phase.duration <= step.start + step.duration
    assert all(step.extra > 0 for step in ordered)
    # The first step begins when the agent has set itself up, which is counted for it too. Those
    # later are estimated by these: one that is interrupted makes them cost more.
    measured = [(step.extra, step.duration) for step in ordered[1:ALWAYS_UNTIL]]
    assert all(cost < duration for cost, duration in measured), measured
    facts = run.loader()
    first = next(n for n, line in enumerate(PLAIN.splitlines(), 1) if "DataLoader(" in line)
    assert facts["file"] == str((tmp_path / "train.py").resolve())
    assert (facts["line"], facts["function"]) == (first, "main")
    assert (facts["num_workers"], facts["batch_size"], facts["shuffle"]) == (2, 8, True)
    assert (facts["dataset"], facts["is_iterable"], facts["length"]) == ("TensorDataset", False, 80)
    assert facts["start_method"] == "fork"


def test_the_first_window_opens_once_warm_and_marks_steps_and_phases(train: Any) -> None:
    run = train(STEPS + "train(80)")

    (window,) = run.notes("window")
    names = [event["name"] for event in run.events() if event.get("ph") == "X"]
    steps = [name for name in names if name.startswith("ProfilerStep#")]
    first = window["first_step"]
    assert first >= 10
    assert sorted(steps) == sorted(f"ProfilerStep#{first + n}" for n in range(window["steps"]))
    for phase in ("forward", "backward", "optimizer"):
        assert names.count(f"perftui::{phase}") == window["steps"]
    assert "aten::linear" in names
    profiled = [step.step for step in run.of_kind("step") if step.flag & 1]
    # Stopping falls into the step after; saving too, or where stopping took long into the next.
    after = first + window["steps"]
    waited = [event.step for event in run.of_kind("profiler") if event.step >= after]
    assert waited in ([after], [after, after + 1])
    assert profiled == [*range(first, after), *waited]
    assert window["stall"] > 0
    assert not any("train.py" in name for name in names)


def test_a_window_is_closed_where_the_script_ends_within_it(train: Any) -> None:
    ending = """
for _ in range(100):
    if torch._C._autograd._profiler_enabled():
        break
    step()
step()
"""
    run = train(STEPS + ending)

    assert run.code == 0
    assert [window["steps"] for window in run.notes("window")] == [1]


@pytest.mark.parametrize(("steps", "options"), [(5, None), (40, {"profile": False})])
def test_before_it_is_warm_or_switched_off_there_is_no_window(
    train: Any, steps: int, options: dict[str, Any] | None
) -> None:
    run = train(STEPS + f"train({steps})", options=options)

    assert run.step_kinds == ["train"] * steps
    assert run.notes("window") == run.of_kind("profiler") == []


@pytest.mark.slow
def test_a_request_on_the_control_page_opens_another_window(train: Any) -> None:
    page = "import os\nopen(os.environ['PERFTUI_SPOOL'] + '/control', 'wb').write(bytes(64))\n"
    asking = """
train(80)
import struct, time
path = os.path.join(os.environ["PERFTUI_SPOOL"], "control")
with open(path, "r+b") as page:
    page.write(struct.pack("<Q", 1))
# Steps like the ones before ask for it every 100 ms.
until = time.monotonic() + 1
while time.monotonic() < until:
    step()
"""
    run = train(page + STEPS + asking)

    first, second = run.notes("window")
    assert first["first_step"] < 80 <= second["first_step"]


def test_the_next_window_records_what_was_asked_for_and_the_training_comes_out_the_same(
    train: Any,
) -> None:
    script = f"""
import os, struct
from perftui.wire.spool import DETAILS
spool = os.environ.get("PERFTUI_SPOOL")
if spool:
    path = spool + "/control"
    open(path, "wb").write(bytes(64))
{STEPS}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(20)
if spool:
    with open(path, "r+b") as page:
        page.seek(8 * {CONTROL_DETAILS})
        page.write(struct.pack("<Q", (1 << len(DETAILS)) - 1))
train(400)
print(model(torch.ones(4, 8)).tolist(), torch.rand(1), model[0].__call__)
"""
    alone = train(script, agent=False)
    run = train(script, options={"overhead": 1.0})

    assert (run.code, run.out, run.err) == (0, alone.out, alone.err)
    first, second = run.notes("window")[:2]
    assert (first["reason"], "asked" in first, "syncs" in first) == ("warm", False, False)
    assert (second["reason"], second["asked"]) == ("lacking", list(DETAILS))
    assert "syncs" in second
    before, after = (str(run.events(window)) for window in (0, 1))
    for evidence in ("Input Dims", "nn.Module: "):
        assert (evidence in before, evidence in after) == (False, True)
    # Asked for once: all later windows are as usual, and hold the same.
    assert "lacking" not in [window["reason"] for window in run.notes("window")[2:]]


def test_a_run_of_so_many_steps_ends_by_itself(train: Any) -> None:
    run = train(PLAIN, "2", "fork", options={"max_steps": 7})

    assert (run.code, run.err) == (0, "")
    assert len(run.out.splitlines()) == 7
    assert run.step_kinds == ["train"] * 7


def test_an_exception_inside_a_module_reaches_the_script_and_later_steps_count(train: Any) -> None:
    source = """
import torch
from torch import nn

class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if x[0, 0] == 3:
            raise ArithmeticError("three")
        return self.layer(x)

model = Fragile()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    try:
        loss = model(torch.full((2, 4), float(step))).sum()
    except ArithmeticError as error:
        print(error)
        continue
    loss.backward()
    optimizer.step()
"""
    run = train(source)

    assert run.out == "three\n"
    assert run.step_kinds == ["train"] * 9
    assert len(run.of_kind("forward")) == 10


def test_a_step_that_raised_keeps_nothing_alive(train: Any) -> None:
    source = """
import gc, weakref, torch
from torch import nn

class Hungry(torch.optim.Adam):
    def step(self, closure=None):
        if not self.state:
            self.state["begun"] = 1
            raise MemoryError("out of memory")
        return super().step(closure)

def attempt():
    model = nn.Linear(4, 4)
    optimizer = Hungry(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    try:
        optimizer.step()
    except MemoryError as error:
        print(error)
    return weakref.ref(model.weight)

weight = attempt()
gc.collect()
print(weight() is None)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
    run = train(source)

    assert (run.code, run.out) == (0, "out of memory\nTrue\n")
    assert len(run.of_kind("optimizer")) == 5
    assert run.notes("error") == []


@pytest.mark.slow
def test_a_compiled_training_compiles_as_often_as_without_us(train: Any) -> None:
    """In seven ways, and where hooks stand around what is called within."""
    source = """
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x):
        return self.layers(x)

for way in ("root", "in place", "function", "inner", "forward", "step", "broken"):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compile = lambda thing: torch.compile(thing, backend=counter)
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    call, step = model, optimizer.step
    if way == "root":
        call = compile(model)
    elif way == "in place":
        model.compile(backend=counter)
    elif way == "function":
        call = compile(lambda x: model(x) * 2)
    elif way == "inner":
        model.layers[0] = compile(model.layers[0])
    elif way == "forward":
        model.forward = compile(model.forward)
    elif way == "step":
        step = compile(optimizer.step)
    elif way == "broken":
        many = nn.ModuleList(Block() for _ in range(12))
        def call(x):
            for block in many:
                torch._dynamo.graph_break()
                x = block(x)
            return x
        call = compile(call)
        optimizer = torch.optim.SGD(many.parameters(), lr=0.1)
        step = optimizer.step
    for _ in range(14):
        optimizer.zero_grad()
        call(torch.ones(4, 8)).sum().backward()
        step()
    print(way, counter.frame_count, counter.op_count)

model = Block()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.ones(16, 8), 4)

class Own(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def __iter__(self):
        return super().__iter__()

def whole(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

def epoch(_):
    return sum(model(x).sum() for x in loader)

def made(_):
    return sum(model(x).sum() for x in Own(torch.ones(16, 8), batch_size=4))

def fetch(_):
    return model(next(batches)).sum()

def profiled(x):
    with torch.autograd.profiler.profile():
        return model(x).sum()

for within in (whole, epoch, made, fetch, profiled):
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounterWithBackend("eager")
    call = torch.compile(within, backend=counter)
    for turn in range(8):
        if turn % 4 == 0:
            batches = iter(loader)
        call(torch.ones(4, 8))
    # What the hooks of optimizers break it has broken already.
    breaks = within is whole or sum(counters["graph_break"].values())
    print(within.__name__, counter.frame_count, counter.op_count, breaks)
"""
    # The compiler's log, on stderr, has the time in it.
    alone, watched = train(source, agent=False), train(source)

    assert (watched.code, watched.out) == (0, alone.out)
    assert watched.step_kinds[: 7 * 14] == ["train"] * 7 * 14


def test_a_fork_in_the_middle_of_a_window_records_nothing_of_the_child(train: Any) -> None:
    source = """
train(13)
child = os.fork()
train(20)
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    print("child")
"""
    run = train(STEPS + source)

    assert run.code == 0
    assert run.steps_of_each == [20, 33]


def test_processes_that_never_train_leave_nothing(train: Any) -> None:
    run = train("import torch, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])")

    assert list(run.spool.root.iterdir()) == []


NO_ROOM = "import os\nos.posix_fallocate = lambda *_: (_ for _ in ()).throw(OSError(28, 'full'))\n"


def test_a_full_spool_leaves_the_training_alone(train: Any) -> None:
    run = train(NO_ROOM + STEPS + "train(15)\nprint('done')")

    assert (run.code, run.out) == (0, "done\n")
    assert run.spool.rings() == []
    assert "full" in run.notes("error")[0]["message"]


NO_ROOM_FOR_A_NOTE = """
def writing(file, data, write=os.write):
    if b'"kind"' in data:
        raise OSError(28, 'full')
    return write(file, data)
os.write = writing
"""


def test_a_process_that_cannot_write_a_note_is_counted(train: Any) -> None:
    count = "page = open(os.environ['PERFTUI_SPOOL'] + '/control', 'w+b')\n"
    count += "page.write(bytes(64)); page.flush()\n"
    script = NO_ROOM + NO_ROOM_FOR_A_NOTE + count + STEPS
    script += "train(15)\npage.seek(32)\nprint(int.from_bytes(page.read(8), 'little'))"

    run = train(script)

    assert (run.code, run.out, run.err) == (0, "1\n", "")
    assert run.spool.rings() == []


NO_MORE_FILES = """
import resource, signal, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def epoch(batch):
    for (x,) in DataLoader(TensorDataset(torch.ones(30 * batch, 8)), batch):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
epoch(2)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
epoch(3)
print("done", signal.getsignal(signal.SIGXFSZ))
"""


def test_a_training_that_may_write_no_more_files_is_recorded_to_its_end(train: Any) -> None:
    run = train(NO_MORE_FILES)

    assert (run.code, run.out, run.err) == (0, "done 1\n", "")
    assert len(run.of_kind("step")) == 60
    reader = RingReader(run.spool.rings()[0])
    assert reader.lost_notes > 0
    reader.close()


def test_frames_of_the_script_are_in_a_window_that_asked_for_them(train: Any) -> None:
    run = train(STEPS + "train(80)", options={"stacks": True})

    frames = [event["name"] for event in run.events() if "python" in event.get("cat", "")]
    assert any("train.py" in frame for frame in frames)
