"""How threads are called: by what they are for, where names or work show it."""

from __future__ import annotations

import pytest

from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import Trace
from tests.traces.events import cpu, frame, gpu, mark, named, trace_of


def labels(trace: Trace) -> list[str]:
    return list(dict.fromkeys(one.label for one in timeline_tracks(trace) if one.kind == "thread"))


def test_threads_are_called_by_what_they_run() -> None:
    trace = trace_of(
        mark("ProfilerStep#1", 0, 100),
        cpu("aten::mm", 10, 20),
        cpu("autograd::engine::evaluate_function: MmBackward0", 40, 20, tid=2),
        cpu("aten::pin_memory", 50, 5, tid=3),
        cpu("torch/utils/data/_utils/worker.py(213): _worker_loop", 51, 9, "python_function", 4),
        cpu("aten::mul", 60, 5, tid=5),
        gpu("k", 20, 5),
        named(1, "thread 1 (python3)"),
        named(2, "thread 2 (python3)"),
    )
    assert labels(trace) == [
        *("main thread", "autograd", "pin memory thread", "data loader worker", "thread 5")
    ]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("thread 9 (pt_autograd_0)", "autograd"),
        ("thread 9 (pt_data_pin)", "pin memory thread"),
        ("thread 9 (pt_data_worker)", "data loader worker"),
        ("pt_nccl_watchdg", "NCCL watchdog"),
        ("thread 9 (pt_gloo_runloop)", "thread 9 (pt_gloo_runloop)"),
        ("my prefetcher", "my prefetcher"),
        ("thread 9 (python)", "thread 9 (python)"),
    ],
)
def test_threads_are_called_by_the_names_that_torch_gives_them(name: str, label: str) -> None:
    trace = trace_of(mark("ProfilerStep#1", 0, 100), cpu("aten::mul", 60, 5, tid=9), named(9, name))
    assert labels(trace) == ["main thread", label]


def test_several_of_one_role_are_numbered() -> None:
    backward = "autograd::engine::evaluate_function: MmBackward0"
    trace = trace_of(
        mark("ProfilerStep#1", 0, 100),
        cpu(backward, 40, 20, tid=7),
        cpu(backward, 30, 20, tid=8),
    )
    assert labels(trace) == ["main thread", "autograd 1", "autograd 2"]


def test_a_thread_with_a_name_of_its_own_keeps_it() -> None:
    trace = trace_of(mark("ProfilerStep#1", 0, 100), frame("train.py(1): f", 5, 5), named(1, "go"))
    assert labels(trace) == ["go"]
