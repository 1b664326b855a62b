"""Windows in trainings that really run."""

import json
import struct
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.agent.native import IS_COMPILED
from perftui.agent.windows.torch_window import NsysWindow
from perftui.agent.windows.windows import POSTPONED
from perftui.wire.ring import PROFILED_FLAG
from tests.core.agent.conftest import STEPS

OWN_PROFILER = """
train(5)
for _ in range(3):
    with torch.profiler.profile():
        train(20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("profiles", [True, False])
def test_a_profiler_of_the_script_is_said_once_where_there_are_windows(
    train: Any, profiles: bool
) -> None:
    run = train(STEPS + OWN_PROFILER, options={"profile": profiles})

    said = ["the script runs its own profiler: no windows meanwhile"]
    assert [one["message"] for one in run.notes("warning")] == said * profiles


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainings are one of two ranks."""
    monkeypatch.setenv("WORLD_SIZE", "2")


def planned(step: int) -> str:
    """A script that has the control page say ``step`` once it has begun to train."""
    return f"""
import os, struct
path = os.environ["PERFTUI_SPOOL"] + "/control"
open(path, "wb").write(bytes(64))
def plan():
    with open(path, "r+b") as page:
        page.seek(8)
        page.write(struct.pack("@Q", {step}))
"""


def plan_of(run: Any) -> int:
    """The step on the control page."""
    plan: int = struct.unpack_from("@Q", run.spool.control.read_bytes(), 8)[0]
    return plan


@pytest.mark.usefixtures("of_two")
def test_a_rank_tells_the_others_some_steps_ahead(train: Any) -> None:
    run = train(planned(0) + STEPS + "train(80)")

    (window,) = run.notes("window")
    assert (window["reason"], window["first_step"]) == ("warm", plan_of(run))


@pytest.mark.usefixtures("of_two")
def test_a_rank_opens_its_window_where_another_has_planned_it(train: Any) -> None:
    run = train(planned(7) + STEPS + "train(1)\nplan()\ntrain(40)")

    (window,) = run.notes("window")
    assert (window["reason"], window["first_step"]) == ("joint", 7)


FAST_PATH = """
import sys
from torch.utils.data import DataLoader, TensorDataset
recording = sys.modules["_perftui.agent.recording.recording"]
# On a busy machine it is time to plan after every other step.
sys.modules["_perftui.agent.recording.recording"].USUAL_NS = 10**15
original, told = recording.Recording.take_back, []
def take_back(self, fast_path):
    told.append(fast_path.steps)
    original(self, fast_path)
recording.Recording.take_back = take_back
for number, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(400, 8)))):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    if number == 300:
        plan()
print(sum(told) > 200)
"""


@pytest.mark.usefixtures("of_two")
@pytest.mark.skipif(not IS_COMPILED, reason="the hooks are not compiled here")
def test_steps_of_several_ranks_take_the_fast_path_until_one_has_planned(train: Any) -> None:
    run = train(planned(320) + STEPS + FAST_PATH)

    assert (run.err, run.out) == ("", "True\n")
    windows = [(one["reason"], one["first_step"]) for one in run.notes("window")]
    assert windows[1:] == [("joint", 320)]


MANY_CALLS = """
other = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(20)])
def generate():
    with torch.no_grad():
        for _ in range(150):
            other(torch.ones(4))
"""


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize(("before", "steps"), [(0, []), (2, [2])])
def test_a_window_ends_where_a_step_calls_far_more_than_those_before(
    train: Any, before: int, steps: list[int]
) -> None:
    loop = (
        f"train(1)\nplan()\ntrain({6 + before})\nfor _ in range(8):\n    generate()\n    train(1)"
    )
    run = train(planned(7) + STEPS + MANY_CALLS + loop, options={"window_steps": 4})

    assert [one["steps"] for one in run.notes("window")] == steps
    said = [one["message"] for one in run.notes("warning")]
    assert said == ([] if steps else [POSTPONED])


GENERATING = """
def generate(calls):
    model.eval()
    with torch.no_grad():
        for _ in range(calls):
            model(torch.ones(4, 8))
    model.train()
def reinforce(turns, updates=1):
    for _ in range(turns):
        generate(260)
        train(updates)
"""


def phases_of(run: Any) -> list[dict[str, int]]:
    """How often each phase is in each window."""
    found = []
    for window in range(len(run.notes("window"))):
        parts = [event["name"].partition("perftui::") for event in run.events(window)]
        found.append(Counter(phase for before, _, phase in parts if phase and not before))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("updates", [1, 4])
def test_a_window_of_a_loop_that_generates_holds_whole_training_steps(
    train: Any, updates: int
) -> None:
    run = train(STEPS + GENERATING + f"reinforce(56, {updates})")

    assert (run.err, run.code) == ("", 0)
    (window, *_), (phases, *_) = run.notes("window"), phases_of(run)
    first, steps = window["first_step"], window["steps"]
    assert run.step_kinds[first : first + steps] == ["train"] * steps
    assert steps <= updates
    assert phases["backward"] == phases["optimizer"] == phases["forward"] == steps
    assert run.notes("warning") == []


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize("planned_step", [5, 6])
@pytest.mark.parametrize("updates", [1, 3])
def test_a_rank_that_generates_opens_its_window_where_training_goes_on(
    train: Any, planned_step: int, updates: int
) -> None:
    """Plans count training steps, and another rank may generate fewer or more."""
    loop = f"reinforce(1, {updates})\nplan()\nreinforce(8, {updates})"
    run = train(planned(planned_step) + STEPS + GENERATING + loop)

    assert run.err == ""
    (window,), (phases,) = run.notes("window"), phases_of(run)
    assert window["reason"] == "joint"
    kinds = run.step_kinds
    assert kinds[: window["first_step"]].count("train") == planned_step
    assert phases["backward"] == phases["optimizer"] == window["steps"]


def test_the_first_window_of_steps_of_very_many_calls_is_not_on_credit(train: Any) -> None:
    run = train(STEPS + MANY_CALLS + "for _ in range(60):\n    generate()\n    train(1)")

    assert run.notes("window") == []
    assert [one["message"] for one in run.notes("warning")] == [POSTPONED]


def test_a_process_that_trains_alone_follows_no_plan(train: Any) -> None:
    run = train(planned(7) + STEPS + "train(1)\nplan()\ntrain(80)")

    (window,) = run.notes("window")
    assert (window["reason"], plan_of(run)) == ("warm", 7)
    assert window["first_step"] != 7


@pytest.mark.parametrize(("first", "world"), [(1, "1"), (25, "1"), (25, "2")])
def test_the_steps_that_were_chosen_are_recorded(
    train: Any, monkeypatch: Any, first: int, world: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    options = {"first_step": first, "window_steps": 4}
    run = train(planned(0) + STEPS + "train(60)", options=options)

    windows = [(one["first_step"], one["steps"], one["reason"]) for one in run.notes("window")]
    assert windows == [(first, 4, "chosen")]


def test_windows_that_nobody_takes_are_not_piled_up(train: Any) -> None:
    untaken = """
import os, pathlib
for number in range(3):
    name = f"window-{os.getpid()}-{number + 10}.json"
    pathlib.Path(os.environ["PERFTUI_SPOOL"], name).touch()
"""
    run = train(untaken + STEPS + "train(80)")

    assert run.notes("window") == []
    assert [
        "has not collected the last ones" in one["message"] for one in run.notes("warning")
    ] == [True]


LATE = """
import sys
sys.modules["_perftui.agent.windows.windows"].LONG_STOP_NS = 0
"""


def test_a_window_that_took_long_to_end_is_saved_a_step_later(train: Any) -> None:
    run = train(STEPS + LATE + "train(30)", options={"first_step": 6, "window_steps": 2})

    (window,) = run.notes("window")
    assert (window["first_step"], window["steps"]) == (6, 2)
    waits = [one for one in run.records() if one.kind == "profiler"]
    # Prepared, begun, gone on, ended, saved.
    assert [one.step for one in waits] == [5, 6, 7, 8, 9]
    assert 0 < window["stall"] <= sum(one.duration for one in waits)
    assert [one.step for one in run.of_kind("step") if one.flag & PROFILED_FLAG] == [6, 7, 8, 9]


@pytest.mark.parametrize("steps", [8, 9])
def test_a_window_that_waits_to_be_saved_is_not_lost_at_the_end(train: Any, steps: int) -> None:
    options = {"first_step": 6, "window_steps": 2}
    run = train(STEPS + LATE + f"train({steps})", options=options)

    (window,) = run.notes("window")
    assert (window["first_step"], window["steps"]) == (6, 2)
    assert (run.spool.root / window["file"]).stat().st_size == window["bytes"]


PLAYED = """
import json
calls = []
class Event:
    def __init__(self, enable_timing): pass
    def record(self): pass
    def query(self): return True
    def elapsed_time(self, end): return 1.0
class Cuda:
    def cudaProfilerStart(self): calls.append("start")
    def cudaProfilerStop(self): calls.append("stop")
class Nvtx:
    def range_push(self, name): calls.append(name)
    def range_pop(self): calls.append(".")
cuda = torch.cuda
cuda.is_initialized = lambda: True
cuda.is_current_stream_capturing = lambda: False
cuda.current_device = lambda: 0
cuda.Event = Event
cuda.nvtx = Nvtx()
cuda.cudart = Cuda
cuda.synchronize = lambda: calls.append("synchronize")
train(20)
print(json.dumps(calls))
"""

STEP = [
    *("perftui::forward", "nn.Module: Linear", ".", "."),
    *("perftui::backward", ".", "perftui::optimizer", "."),
]

CHOSEN = {"nsys": True, "modules": True, "first_step": 5, "window_steps": 2}


@pytest.mark.parametrize("rank", ["0", "1"])
def test_nsys_is_notified_of_the_steps_by_the_first_rank_and_of_their_parts_by_all(
    train: Any, monkeypatch: Any, rank: str
) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    run = train(STEPS + PLAYED, options=CHOSEN)

    assert run.code == 0, run.err
    steps = ["ProfilerStep#5", *STEP, ".", "ProfilerStep#6", *STEP, "."]
    leads = rank == "0"
    expected = [*["start"] * leads, *steps, "synchronize", *["stop"] * leads]
    assert json.loads(run.out) == expected
    (note,) = run.notes("nsys_range")
    assert (note["first_step"], note["steps"], note["reason"]) == (5, 2, "chosen")
    assert note["stall"] > 0
    assert run.notes("window") == []
    assert run.notes("warning") == []


def test_without_cuda_it_is_said_that_there_is_nothing_for_nsys(train: Any) -> None:
    run = train(STEPS + "train(20)", options={"nsys": True, "first_step": 5})

    assert run.code == 0
    assert run.notes("nsys_range") == []
    (warning,) = run.notes("warning")
    assert "the script does not use CUDA" in warning["message"]


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_window_that_is_dropped_waits_for_the_gpu_only_if_it_has_begun(has_begun: bool) -> None:
    calls: list[str] = []
    cudart = SimpleNamespace(
        cudaProfilerStart=lambda: calls.append("start"),
        cudaProfilerStop=lambda: calls.append("stop"),
    )
    cuda = SimpleNamespace(cudart=lambda: cudart, synchronize=lambda: calls.append("synchronize"))
    window = NsysWindow(SimpleNamespace(cuda=cuda))
    window.prepare()
    if has_begun:
        window.start()
    window.drop()

    assert calls == (["start", "synchronize", "stop"] if has_begun else [])


INFERRING = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Sequential(torch.nn.Linear(16, 16)).eval()
if sys.argv[1] == "restored":
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(optimizer.state_dict())
with torch.inference_mode():
    for (x,) in DataLoader(TensorDataset(torch.randn(320, 16)), 4, num_workers=1):
        model(x)
"""


@pytest.mark.parametrize("kind", ["infer", pytest.param("restored", marks=pytest.mark.slow)])
def test_inference_gets_a_window_unless_an_optimizer_might_train_yet(train: Any, kind: str) -> None:
    watched = train(INFERRING, kind)

    assert (watched.code, watched.err) == (0, "")
    assert watched.step_kinds == ["infer" if kind == "infer" else "eval"] * 80
    assert {"forward", "input_wait"} <= {record.kind for record in watched.records()}
    if kind == "restored":
        assert watched.notes("window") == []
        return
    # Warm after 50 steps at the latest.
    window, *_ = watched.notes("window")
    assert window["reason"] == "warm"
    names = {event["name"] for event in watched.events()}
    assert {"perftui::forward", "aten::linear"} <= names
    assert any(name.startswith("ProfilerStep#") for name in names)
