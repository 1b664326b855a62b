"""What watches a window from inside: stack samples, and calls that synchronise."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder.windows import SpoolFileError, take_samples
from perftui.wire.control_page import SIZE
from perftui.wire.spool import Spool
from tests.core.agent.conftest import Run, Train

pytestmark = pytest.mark.subprocess

EVERY = 1_000_000

LOOP = """
import os, sys, threading, time
import torch

net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
before = dict(vars(torch.Tensor)), torch.nonzero, torch.equal, sys.getswitchinterval()
threads, known = [], []

def slow_metric():
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        time.sleep(0.001)

def in_between(step):
    pass
{more}
for step in range(14):
    loss = net(torch.ones(4, 8)).sum()
    loss.backward()
    optimizer.step()
    slow_metric()
    total = loss.item()
    threads.append(len(sys._current_frames()))
    known.append(threading.active_count())
    in_between(step)
print("threads", threads)
print("known", known)
after = dict(vars(torch.Tensor)), torch.nonzero, torch.equal, sys.getswitchinterval()
print("same", before == after)
"""

WINDOW = {"first_step": 5, "window_steps": 3}


def ask_for_samples(tmp_path: Path, every: int = EVERY) -> None:
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    page = bytearray(SIZE)
    struct.pack_into("@Q", page, 24, every)
    (spool / "control").write_bytes(page)


def printed(run: Run, name: str) -> Any:
    (line,) = (line for line in run.out.splitlines() if line.startswith(name))
    return json.loads(line.removeprefix(name).lower())


def line_of(text: str) -> int:
    return next(at for at, line in enumerate(LOOP.splitlines(), 1) if text in line)


@pytest.mark.slow
def test_samples_name_the_lines_of_the_window_and_no_thread_lives_outside_it(
    tmp_path: Path, train: Train
) -> None:
    ask_for_samples(tmp_path)
    run = train(LOOP.format(more=""), options=WINDOW)
    assert run.err == ""
    threads = printed(run, "threads")
    # A step ends with its optimizer: what follows belongs to the next.
    assert threads[4:7] == [2, 2, 2]
    assert set(threads[:4] + threads[7:]) == {1}
    assert set(printed(run, "known")) == {1}
    assert printed(run, "same") is True
    (window,) = run.notes("window")
    rows = take_samples(run.spool, window["stack_samples"])
    # One row where every look found the same line.
    assert sum(row[2] for row in rows) >= 5
    held: dict[tuple[str, int], int] = {}
    for row in rows:
        held[row[3], row[4]] = held.get((row[3], row[4]), 0) + row[1]
        assert row[7] == EVERY
    slow = sum(
        time
        for (file, line), time in held.items()
        if file.endswith("train.py")
        and line_of("def slow_metric") < line <= line_of("time.sleep(0.001)")
    )
    # Three steps of 20 ms in it; how long the others take depends on the machine.
    assert slow > 40_000_000
    # On the clock of the trace: each lies in the window's three steps.
    (origin,) = (record for record in run.of_kind("step") if record.step == 5)
    assert rows[0][0] >= origin.start
    assert not list(run.spool.root.glob("stacks-*"))


@pytest.mark.slow
def test_without_being_asked_there_is_no_thread(train: Train) -> None:
    run = train(LOOP.format(more=""), options=WINDOW)
    assert set(printed(run, "threads")) == {1}
    assert "stack_samples" not in run.notes("window")[0]


def test_a_window_with_python_stacks_needs_no_samples(tmp_path: Path, train: Train) -> None:
    ask_for_samples(tmp_path)
    run = train(LOOP.format(more=""), options={**WINDOW, "stacks": True})
    assert set(printed(run, "threads")) == {1}
    assert "stack_samples" not in run.notes("window")[0]


FORK = """
def in_between(step):
    if step == 6:
        child = os.fork()
        if not child:
            print("child", len(sys._current_frames()), flush=True)
            os._exit(7)
        print("left", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

FORK_IN_THREAD = """
def fork():
    child = os.fork()
    if not child:
        os._exit(7)
    print("left", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

def in_between(step):
    if step == 6:
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        print("after", len(sys._current_frames()))
"""


@pytest.mark.slow
def test_a_fork_ends_the_sampling_before_it(tmp_path: Path, train: Train) -> None:
    ask_for_samples(tmp_path)
    run = train(LOOP.format(more=FORK), options=WINDOW)
    assert run.code == 0
    assert run.notes("error") == []
    assert printed(run, "child") == 1
    assert printed(run, "left") == 7
    assert set(printed(run, "threads")[7:]) == {1}


@pytest.mark.slow
def test_a_fork_in_another_thread_ends_them_too(tmp_path: Path, train: Train) -> None:
    ask_for_samples(tmp_path)
    run = train(LOOP.format(more=FORK_IN_THREAD), options={**WINDOW, "syncs": True})
    assert run.code == 0
    assert run.notes("error") == []
    assert printed(run, "left") == 7
    assert printed(run, "after") == 1
    assert printed(run, "same") is True


@pytest.mark.parametrize("leave", ["sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_the_script_may_end_while_it_is_watched(tmp_path: Path, train: Train, leave: str) -> None:
    ask_for_samples(tmp_path)
    more = f"\ndef in_between(step):\n    if step == 6:\n        {leave}\n"
    run = train(LOOP.format(more=more), options={**WINDOW, "syncs": True})
    assert run.code == 3
    assert run.err == ""


CALLS = """
def in_between(step):
    x = net.weight.detach()
    float(x[0, 0])
    x[x > 0]
    x.to("cpu")
    for _ in range(3):
        torch.nonzero(x)
    thread = threading.Thread(target=x.tolist)
    thread.start()
    thread.join()
"""


@pytest.mark.slow
def test_calls_are_counted_by_line_and_everything_is_put_back(train: Train) -> None:
    run = train(LOOP.format(more=CALLS), options={**WINDOW, "syncs": True})
    assert run.err == ""
    assert printed(run, "same") is True
    (window,) = run.notes("window")
    assert window["syncs"]["gpu"] is False
    source = LOOP.format(more=CALLS).splitlines()
    found = {
        (call["call"], source[call["line"] - 1].strip()): call["count"]
        for call in window["syncs"]["calls"]
    }
    assert found == {
        ("item", "total = loss.item()"): 3,
        ("float", "float(x[0, 0])"): 3,
        ("x[mask]", "x[x > 0]"): 3,
        ("nonzero", "torch.nonzero(x)"): 9,
    }
    for call in window["syncs"]["calls"]:
        assert call["file"].endswith("train.py")
        assert 0 < call["longest"] <= call["time"]


@pytest.mark.slow
def test_nothing_is_replaced_unless_asked(train: Train) -> None:
    more = '\ndef in_between(step):\n    assert "item" not in vars(torch.Tensor)\n'
    run = train(LOOP.format(more=more), options=WINDOW)
    assert run.code == 0
    assert "syncs" not in run.notes("window")[0]


@pytest.mark.slow
def test_a_training_that_is_compiled_is_left_alone_and_told(train: Train) -> None:
    fake = (
        'import types\nutils = types.ModuleType("torch._dynamo.utils")\n'
        'utils.counters = {"frames": {"total": 1}}\nsys.modules["torch._dynamo.utils"] = utils\n'
        'def in_between(step):\n    assert "item" not in vars(torch.Tensor)\n'
    )
    run = train(LOOP.format(more=fake), options={**WINDOW, "syncs": True})
    assert run.code == 0
    assert "syncs" not in run.notes("window")[0]
    assert [one["message"] for one in run.notes("warning") if "compiled" in one["message"]]


OWN_KIND = """
class Own(torch.Tensor):
    table = {torch.Tensor.item: lambda *_: "their own"}

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in cls.table:
            return cls.table[function](*args)
        return super().__torch_function__(function, types, args, kwargs or {})

def in_between(step):
    assert torch.ones(1).as_subclass(Own).item() == "their own"
    assert torch.Tensor.item.__name__ == "item"
    assert torch.tensor(True) and int(torch.tensor(3)) == 3 and [1, 2][torch.tensor(1)] == 2
"""


@pytest.mark.slow
def test_tensors_of_their_own_kind_keep_their_behaviour(train: Train) -> None:
    run = train(LOOP.format(more=OWN_KIND), options={**WINDOW, "syncs": True})
    assert (run.code, run.err) == (0, "")
    calls = {call["call"] for call in run.notes("window")[0]["syncs"]["calls"]}
    assert calls >= {"bool", "int", "index"}


@pytest.mark.parametrize(
    "content", ["", "{}", '{"every":1,"end":2,"frames":[],"samples":[[1,[4]]]}', '"text"']
)
def test_samples_that_are_damaged_are_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "stacks-1-0.json").write_text(content)
    with pytest.raises(SpoolFileError, match=r"stacks-1-0\.json"):
        take_samples(Spool(tmp_path), "stacks-1-0.json")


@pytest.mark.parametrize("name", ["absent.json", None, "../stacks.json"])
def test_samples_outside_the_spool_are_refused(tmp_path: Path, name: str | None) -> None:
    (tmp_path / "stacks.json").write_text("{}")
    (tmp_path / "spool").mkdir()
    with pytest.raises(SpoolFileError):
        take_samples(Spool(tmp_path / "spool"), name)
