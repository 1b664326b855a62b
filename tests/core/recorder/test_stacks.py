"""What py-spy writes, read, and leave to read the training's memory."""

import ctypes
import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.startup.process import PR_SET_PTRACER, declare
from perftui.recorder import pyspy
from perftui.recorder.pyspy_stacks import (
    LONGEST_TEXT,
    OURS,
    Frame,
    StackError,
    StackInterval,
    is_own,
    main_place,
    read_threads,
    stays,
    worker_place,
)

PID = 4242
BEGUN = 1_795_311_337_000_000_000
ROOT = Frame("<module>", "/home/user/train.py", 30)

names = st.sampled_from(["main", "step", "load", "forward"])
files = st.sampled_from(["/home/user/train.py", "/v/lib/python3.11/site-packages/torch/nn/a.py"])
frames = st.builds(Frame, names, files, st.integers(1, 3))
stacks = st.lists(frames, max_size=5).map(lambda above: (ROOT, *above))
samples = st.lists(st.tuples(st.integers(1, 400_000), stacks), min_size=1, max_size=30)


def as_pyspy_writes(samples: list[tuple[int, tuple[Frame, ...]]], tid: int = 7) -> list[Any]:
    """Samples (microseconds since the one before, stack) as ``chrometrace.rs`` writes them: frames
    that stay are kept, what has changed ends innermost first and begins outermost first."""
    events: list[Any] = []
    before: tuple[Frame, ...] = ()
    at = 0

    def event(frame: Frame, phase: str) -> dict[str, Any]:
        where = {"filename": frame.file, "line": frame.line}
        of = {"args": where, "cat": "py-spy", "name": frame.function, "ph": phase}
        return {**of, "pid": PID, "tid": tid, "ts": at}

    for pause, stack in samples:
        at += pause
        same = 0
        while same < min(len(before), len(stack)) and before[same] == stack[same]:
            same += 1
        events += [event(frame, "E") for frame in reversed(before[same:])]
        events += [event(frame, "B") for frame in stack[same:]]
        before = stack
    at += 1000
    return events + [event(frame, "E") for frame in reversed(before)]


@pytest.mark.slow
@given(samples)
def test_stretches_are_the_samples_with_equal_ones_as_one(
    samples: list[tuple[int, tuple[Frame, ...]]],
) -> None:
    found = read_threads(json.dumps(as_pyspy_writes(samples)).encode(), PID, BEGUN)[0]

    expected: list[StackInterval] = []
    at = 0
    for index, (pause, stack) in enumerate(samples):
        at += pause
        length = samples[index + 1][0] if index + 1 < len(samples) else 1000
        start, end = BEGUN + at * 1000, BEGUN + (at + length) * 1000
        if expected and expected[-1].stack == stack:
            expected[-1] = StackInterval(expected[-1].start, end, stack)
        else:
            expected.append(StackInterval(start, end, stack))
    assert found == expected


@given(samples)
def test_stays_cover_the_same_time_in_order(samples: list[tuple[int, tuple[Frame, ...]]]) -> None:
    intervals = read_threads(json.dumps(as_pyspy_writes(samples)).encode(), PID, BEGUN)[0]
    found = stays(intervals, main_place)
    assert found[0].start == intervals[0].start
    assert found[-1].end == intervals[-1].end
    assert sum(stay.samples for stay in found) == len(intervals)
    for one, following in pairwise(found):
        assert one.end == following.start
        assert one.place != following.place


@given(st.binary(max_size=200))
def test_what_is_no_trace_is_refused_or_empty(content: bytes) -> None:
    with suppress(StackError):
        assert read_threads(content, PID, BEGUN)[0] == []


def test_other_threads_and_processes_are_left_out() -> None:
    main = as_pyspy_writes([(10, (ROOT,))])
    helper = Frame("_bootstrap", "/v/lib/python3.11/threading.py", 1)
    other = as_pyspy_writes([(10, (helper,)), (90_000, (helper, ROOT))], tid=8)
    worker = [{**event, "pid": PID + 1} for event in as_pyspy_writes([(10, (ROOT,))])]
    found = read_threads(json.dumps(main + other + worker).encode(), PID, BEGUN)[0]
    assert [interval.stack for interval in found] == [(ROOT,)]
    main_thread, others = read_threads(json.dumps(main + other + worker).encode(), PID, BEGUN)
    assert main_thread == found
    assert [one[0].stack for one in others] == [(helper,)]


def test_the_place_is_the_users_innermost_line_and_what_it_called() -> None:
    stack = (
        ROOT,
        Frame("main", "/home/user/train.py", 17),
        Frame("backward", "/v/lib/python3.11/site-packages/torch/_tensor.py", 630),
        Frame("hook", f"{OURS[0]}/hooks.py", 12),
    )
    (stay,) = stays([StackInterval(5, 9, stack)], main_place)
    file, line, function = "/home/user/train.py", 17, "main"
    inner = "torch/_tensor.py:630 backward"
    via = "torch/_tensor.py backward"
    assert stay.row(7) == [5, 4, 1, file, line, function, inner, 7, "backward", via]


def test_without_a_line_of_the_users_there_is_none() -> None:
    installed = Frame("<module>", "/v/lib/python3.11/site-packages/tool/run.py", 3)
    (stay,) = stays([StackInterval(0, 1, (installed,))], main_place)
    assert stay.row(7)[3:7] == ["", -1, "", "tool/run.py:3 <module>"]


def test_a_name_of_any_length_is_cut() -> None:
    (stay,) = stays(
        [StackInterval(0, 1, (Frame("f" * 9999, "/home/" + "x" * 9999, 1),))], main_place
    )
    assert all(len(str(value)) <= LONGEST_TEXT for value in stay.row(7))


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/user/train.py", True),
        ("/home/user/torch/train.py", True),
        ("train.py", True),
        ("/opt/conda/lib/python3.11/threading.py", False),
        ("/usr/lib64/python3.9/json/decoder.py", False),
        ("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", False),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", False),
        ("<frozen runpy>", False),
        ("", False),
    ],
)
def test_own_files(file: str, own: bool) -> None:
    assert is_own(file) is own


TORCH = "/v/lib/python3.11/site-packages/torch"
LOADING = f"{TORCH}/utils/data/_utils"
FORKED = (ROOT, Frame("DataLoader.__iter__", f"{TORCH}/utils/data/dataloader.py", 505))
LOOP = (*FORKED, Frame("_worker_loop", f"{LOADING}/worker.py", 374))
FETCHING = (*LOOP, Frame("_MapDatasetFetcher.fetch", f"{LOADING}/fetch.py", 54))
ITEM = Frame("Images.__getitem__", "/home/user/data.py", 8)
DECODE = Frame("open", "/v/lib/python3.11/site-packages/PIL/Image.py", 3000)
AROUND = Frame("plain_around.<locals>.call", f"{OURS[0]}/native/plain.py", 1)
COLLATE = Frame("default_collate", f"{LOADING}/collate.py", 398)
PAD = Frame("pad", "/home/user/data.py", 30)


@pytest.mark.parametrize(
    ("stack", "stage", "line", "inner"),
    [
        ((*FETCHING, ITEM, DECODE), "fetch", 8, "PIL/Image.py:3000 open"),
        ((*FETCHING, AROUND, PAD), "collate", 30, "user/data.py:30 pad"),
        ((*FETCHING, AROUND, COLLATE), "collate", -1, "utils/data/_utils/collate.py:398"),
        ((*FETCHING, COLLATE), "collate", -1, "utils/data/_utils/collate.py:398"),
        (FETCHING, "fetch", -1, "utils/data/_utils/fetch.py:54"),
        (LOOP, "wait", -1, "utils/data/_utils/worker.py:374"),
        # The line of the training at which it was forked is none of the worker's.
        (FORKED, "", -1, "utils/data/dataloader.py:505"),
    ],
)
def test_a_worker_is_where_it_makes_a_batch_or_waits(
    stack: tuple[Frame, ...], stage: str, line: int, inner: str
) -> None:
    place = worker_place(stack)
    assert (place.stage, place.line) == (stage, line)
    assert inner in place.inner
    assert place.file == ("/home/user/data.py" if line > 0 else "")


@pytest.mark.slow
@pytest.mark.parametrize("route", ["compiled", "plain"])
def test_a_collate_function_of_the_script_is_collating(route: str) -> None:
    """The frames of a real loader, by either kind of hook around its collate function."""
    script = """
import os, sys
from torch.utils.data import DataLoader
import torch
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "plain":
    sys.modules["perftui.agent.native._compiled"] = None
from perftui.agent.hooks.watch import put_around
from perftui.recorder.pyspy_stacks import Frame
from perftui.recorder.pyspy_stacks import main_place

def here():
    frame, stack = sys._getframe(1), []
    while frame:
        stack.insert(0, Frame(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return main_place(stack).stage

class Data(list):
    def __getitem__(self, index):
        stages.append(here())
        return index

stages = []
loader = iter(DataLoader(Data(range(2)), batch_size=2, collate_fn=lambda _: stages.append(here())))
fetcher = loader._dataset_fetcher
fetcher.collate_fn = put_around(torch, fetcher.collate_fn, lambda *_: None)
next(loader)
print(*stages)
"""
    pytest.importorskip("torch")
    command = [sys.executable, "-c", script, str(Path(OURS[0]).parents[1]), route]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fetch", "fetch", "collate"]


def test_a_main_thread_that_makes_a_batch_is_told_from_one_that_trains() -> None:
    fetch = Frame("_MapDatasetFetcher.fetch", f"{LOADING}/fetch.py", 54)
    draw = Frame("_BaseDataLoaderIter._next_index", f"{TORCH}/utils/data/dataloader.py", 713)
    assert main_place((ROOT, fetch, ITEM)).stage == main_place((ROOT, draw, PAD)).stage == "fetch"
    assert main_place((ROOT, fetch, AROUND, PAD)).stage == "collate"
    assert main_place((ROOT, PAD)).stage == ""


def test_what_a_training_thread_does_is_told_by_the_frames_of_torch() -> None:
    def frame(file: str, function: str) -> Frame:
        return Frame(function, f"{TORCH}/{file}", 1)

    call = frame("nn/modules/module.py", "Module._wrapped_call_impl")
    backward = frame("autograd/graph.py", "_engine_run_backward")
    mine = Frame("forward", "/home/user/model.py", 9)
    told = {
        (ROOT, call, mine): "forward",
        (ROOT, backward): "backward",
        (ROOT, backward, call, mine): "backward",
        (ROOT, frame("optim/adamw.py", "adamw")): "optimizer",
        (ROOT, frame("serialization.py", "save")): "save",
        (ROOT, frame("distributed/checkpoint/state_dict_saver.py", "save")): "save",
        (ROOT, frame("profiler/profiler.py", "profile.stop")): "profile",
        (ROOT, call, frame("_dynamo/convert_frame.py", "_compile")): "compile",
        (ROOT, call, frame("_inductor/codecache.py", "load")): "compile",
        (ROOT, call, frame("_inductor/compile_fx.py", "compile_fx")): "compile",
        (ROOT, call, frame("_inductor/compile_fx.py", "cudagraphify.<locals>.run")): "forward",
        (ROOT, call, frame("_inductor/codecache.py", "CompiledFxGraph.__call__")): "forward",
        (ROOT, call, frame("_inductor/codecache.py", "__call__")): "forward",
        (ROOT, call, frame("_inductor/runtime/triton_heuristics.py", "run")): "forward",
        (ROOT, call, frame("_inductor/runtime/triton_heuristics.py", "precompile")): "compile",
        (ROOT, call, frame("_inductor/output_code.py", "CompiledFxGraph.__call__")): "forward",
        (ROOT, call, frame("fx/graph_module.py", "_WrappedCall.__call__")): "forward",
        (ROOT, call, frame("fx/traceback.py", "format_stack")): "forward",
        (ROOT, frame("autograd/profiler.py", "profile.__exit__")): "profile",
        (ROOT, frame("autograd/profiler.py", "record_function.__enter__")): "",
        (ROOT, frame("autograd/profiler.py", "__enter__")): "",
        (ROOT, frame("functional.py", "einsum")): "",
        (ROOT, mine): "",
    }
    assert {stack: main_place(stack).stage for stack in told} == told
    assert (
        main_place((ROOT, mine, call)).via == "torch/nn/modules/module.py Module._wrapped_call_impl"
    )
    assert main_place((ROOT, mine)).via == ""
    made = Frame("call", f"/home/me/inductor/su/csuloob{'a' * 45}.py", 284)
    place = main_place((ROOT, mine, made, frame("_inductor/select_algorithm.py", "autotune")))
    assert (place.file, place.line, place.stage) == (mine.file, mine.line, "compile")


@pytest.mark.parametrize(
    ("scope", "samples", "command", "declared"),
    [
        ("1\n", 10, "/bin/py-spy", True),
        ("0\n", 10, "/bin/py-spy", False),
        ("2\n", 10, "/bin/py-spy", False),
        (None, 10, "/bin/py-spy", False),
        ("1\n", 0, "/bin/py-spy", False),
        ("1\n", 10, None, False),
    ],
    ids=["restricted", "classic", "admin only", "no Yama", "no samples", "no py-spy"],
)
def test_it_is_declared_only_where_that_lets_pyspy_look(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scope: str | None,
    samples: int,
    command: str | None,
    declared: bool,
) -> None:
    monkeypatch.setattr(pyspy, "SCOPE", tmp_path / "ptrace_scope")
    if scope is not None:
        pyspy.SCOPE.write_text(scope)
    monkeypatch.setattr(pyspy, "find_pyspy", lambda: command)
    assert pyspy.tracer(samples) == (os.getpid() if declared else 0)


def test_the_agent_declares_the_process_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Libc:
        def prctl(self, option: int, process: ctypes.c_ulong, *_: int) -> None:
            calls.append((option, process.value))

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Libc())
    declare(0)
    assert calls == []
    declare(4242)
    assert calls == [(PR_SET_PTRACER, 4242)]


def test_a_system_without_yama_is_no_error() -> None:
    declare(os.getpid())
