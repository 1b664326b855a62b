"""What watches a window from inside: stack samples, and calls that synchronise."""

import json
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from perftui.agent.windows.sync_calls import OPERATION, SyncCounter, SyncWarnings
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


Looped = Callable[..., Run]


@pytest.fixture
def loop(train: Train, tmp_path: Path) -> Looped:
    """Trains with ``more`` in the loop and a window of three steps, sampled ``every`` ns."""

    def run(more: str = "", *, every: int = 0, **options: Any) -> Run:
        if every:
            page = bytearray(SIZE)
            struct.pack_into("@Q", page, 24, every)
            (tmp_path / "spool").mkdir(mode=0o700)
            (tmp_path / "spool" / "control").write_bytes(page)
        return train(LOOP.format(more=more), options={**WINDOW, **options})

    return run


def printed(run: Run, name: str) -> Any:
    (line,) = (line for line in run.out.splitlines() if line.startswith(name))
    return json.loads(line.removeprefix(name).lower())


def line_of(text: str) -> int:
    return next(at for at, line in enumerate(LOOP.splitlines(), 1) if text in line)


@pytest.mark.slow
def test_samples_name_the_lines_of_the_window_and_no_thread_lives_outside_it(loop: Looped) -> None:
    run = loop(every=EVERY)
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
def test_without_being_asked_there_is_no_thread_and_nothing_is_replaced(loop: Looped) -> None:
    run = loop('\ndef in_between(step):\n    assert "item" not in vars(torch.Tensor)\n')
    assert run.code == 0
    assert set(printed(run, "threads")) == {1}
    assert not {"stack_samples", "syncs"} & set(run.notes("window")[0])


def test_a_window_with_python_stacks_needs_no_samples(loop: Looped) -> None:
    run = loop(every=EVERY, stacks=True)
    assert set(printed(run, "threads")) == {1}
    assert "stack_samples" not in run.notes("window")[0]


FORK = """
def fork():
    child = os.fork()
    if not child:
        print("child", len(sys._current_frames()), flush=True)
        os._exit(7)
    print("left", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

def in_between(step):
    if step == 6:
        {way}
"""
FORKED = {
    "here": "fork()",
    "in another thread": "thread = threading.Thread(target=fork); thread.start(); thread.join()",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", FORKED)
def test_a_fork_ends_the_sampling_before_it(loop: Looped, way: str) -> None:
    run = loop(FORK.format(way=FORKED[way]), every=EVERY, syncs=True)
    assert run.code == 0
    assert run.notes("error") == []
    assert (printed(run, "child"), printed(run, "left")) == (1, 7)
    assert set(printed(run, "threads")[7:]) == {1}
    assert printed(run, "same") is True


@pytest.mark.parametrize("leave", ["sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_the_script_may_end_while_it_is_watched(loop: Looped, leave: str) -> None:
    more = f"\ndef in_between(step):\n    if step == 6:\n        {leave}\n"
    run = loop(more, every=EVERY, syncs=True)
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
def test_calls_are_counted_by_line_and_everything_is_put_back(loop: Looped) -> None:
    run = loop(CALLS, syncs=True)
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
def test_a_training_that_is_compiled_is_left_alone_and_told(loop: Looped) -> None:
    fake = (
        'import types\nutils = types.ModuleType("torch._dynamo.utils")\n'
        'utils.counters = {"frames": {"total": 1}}\nsys.modules["torch._dynamo.utils"] = utils\n'
        'def in_between(step):\n    assert "item" not in vars(torch.Tensor)\n'
    )
    run = loop(fake, syncs=True)
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
def test_tensors_of_their_own_kind_keep_their_behaviour(loop: Looped) -> None:
    run = loop(OWN_KIND, syncs=True)
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


SYNC = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:1.)"
FIRST = "Synchronization debug mode is a prototype feature and does not yet detect all"


class Cuda:
    """What is used of torch there."""

    def __init__(self) -> None:
        self.mode = 0
        self.cuda = SimpleNamespace(get_sync_debug_mode=lambda: self.mode)
        self._C = SimpleNamespace(_cuda_set_sync_debug_mode=self.set)

    def set(self, mode: int) -> None:
        self.mode = mode
        if mode:
            warnings.warn(FIRST, stacklevel=2)

    def unique(self) -> None:
        if self.mode:
            warnings.warn(SYNC, stacklevel=2)


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    """The script's filters and its way to show warnings, the same before and after."""
    filters, show = list(warnings.filters), warnings.showwarning
    yield
    assert list(warnings.filters) == filters
    assert warnings.showwarning is show


def test_each_operation_is_reported_with_its_line_and_none_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    callers: list[str] = []

    def told(frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename != __file__:
            frame = frame.f_back
        callers.append(frame.f_code.co_name if frame is not None else "nobody")

    cuda = Cuda()
    found = SyncWarnings(cuda, told)
    found.begin()
    for _ in range(3):
        cuda.unique()
    found.end()
    cuda.unique()
    assert callers == ["unique"] * 3
    assert cuda.mode == 0
    assert capsys.readouterr().err == ""


def test_scripts_that_turn_warnings_into_errors_do_not_meet_ours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda, count = Cuda(), [0]
        found = SyncWarnings(cuda, lambda _: count.append(1))
        found.begin()
        cuda.unique()
        with pytest.raises(UserWarning, match="their own"):
            warnings.warn("their own", stacklevel=1)
        found.end()
    assert sum(count) == 1


def test_other_warnings_are_shown_once_as_ever() -> None:
    shown: list[str] = []

    def warn() -> None:
        warnings.warn("their own", stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
        warn()
        found = SyncWarnings(Cuda(), lambda _: None)
        found.begin()
        warn()
        warnings.warn("another", stacklevel=1)
        found.end()
        warn()
    assert shown == ["their own", "another"]


def test_a_script_that_asks_torch_itself_keeps_its_warnings() -> None:
    cuda = Cuda()
    cuda.mode = 1
    found = SyncWarnings(cuda, lambda _: pytest.fail("it is the script's"))
    found.begin()
    with pytest.warns(UserWarning, match="synchronizing"):
        cuda.unique()
    found.end()
    assert cuda.mode == 1


def on_device(torch: Any) -> Any:
    """A tensor that says it is not on the processor."""

    class OnDevice(torch.Tensor):  # type: ignore[misc, name-defined]
        is_cpu = False

    return torch.ones(1).as_subclass(OnDevice)


@pytest.fixture
def hunt(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SyncCounter, Cuda]]:
    """One that begins where CUDA is in use."""
    fake = Cuda()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", fake.cuda.get_sync_debug_mode)
    monkeypatch.setattr(torch._C, "_cuda_set_sync_debug_mode", fake.set, raising=False)
    monkeypatch.setattr("perftui.agent.windows.sync_calls._runs_compiled", lambda: False)
    before = dict(vars(torch.Tensor)), torch.cuda.synchronize
    hunt = SyncCounter(torch)
    assert hunt.begin() is None
    yield hunt, fake
    hunt.end()
    assert before == (dict(vars(torch.Tensor)), torch.cuda.synchronize)


def counts(hunt: SyncCounter) -> dict[str, int]:
    return {site["call"]: site["count"] for site in hunt.sites.found()}


def test_only_tensors_of_the_gpu_count_where_there_is_one(
    torch: Any, hunt: tuple[SyncCounter, Cuda]
) -> None:
    there = on_device(torch)
    there.item()
    torch.ones(1).item()
    float(there)
    assert counts(hunt[0]) == {"item": 1, "float": 1}


def test_copies_count_where_they_cross_and_wait(torch: Any, hunt: tuple[SyncCounter, Cuda]) -> None:
    there = on_device(torch)
    there.to("cpu")
    assert counts(hunt[0]) == {}
    crossing = SimpleNamespace(is_cpu=True)
    copies = hunt[0]._copies
    assert copies((there, "cpu"), {}, crossing)
    assert not copies((there, "cpu"), {"non_blocking": True}, crossing)
    assert not copies((there, "cpu", torch.float32, True), {}, crossing)
    assert copies((there, "cpu", torch.float32, False), {}, crossing)


def test_operations_that_no_name_tells_count_without_a_time(hunt: tuple[SyncCounter, Cuda]) -> None:
    hunt[1].unique()
    (site,) = hunt[0].sites.found()
    assert (site["call"], site["count"], site["time"]) == (OPERATION, 1, -1)
    assert site["file"] == __file__


def test_a_call_that_torch_warns_of_counts_once(torch: Any, hunt: tuple[SyncCounter, Cuda]) -> None:
    class Warning_(torch.Tensor):  # type: ignore[misc, name-defined]  # noqa: N801
        is_cpu = False

        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            hunt[1].unique()
            return super().__torch_function__(*args, **kwargs)

    torch.ones(1).as_subclass(Warning_).item()
    assert counts(hunt[0]) == {"item": 1}


def test_other_threads_are_not_counted(torch: Any, hunt: tuple[SyncCounter, Cuda]) -> None:
    there = on_device(torch)
    for work in (there.item, hunt[1].unique):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert counts(hunt[0]) == {}


def test_a_call_that_cannot_be_counted_succeeds_and_that_is_reported(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(torch.Tensor):  # type: ignore[misc, name-defined]
        @property
        def is_cpu(self) -> bool:
            raise ValueError("nobody knows")

    monkeypatch.setattr("perftui.agent.windows.sync_calls._runs_compiled", lambda: False)
    hunt = SyncCounter(torch)
    assert hunt.begin() is None
    assert torch.tensor(3).as_subclass(Odd).item() == 3
    with pytest.raises(RuntimeError, match="not all synchronizing calls were counted"):
        hunt.end()
    assert "item" not in vars(torch.Tensor)
