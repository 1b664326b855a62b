"""Steps that nsys records, with a CUDA that is played."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.agent.windows.nsys_window import NsysWindow

TRAINING = """
import os, sys, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
"""

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
    *("perftui::forward", "nn.Module: Sequential", "nn.Module: 0 (Linear)", ".", ".", "."),
    *("perftui::backward", ".", "perftui::optimizer", "."),
]

CHOSEN = {"nsys": True, "modules": True, "first_step": 5, "window_steps": 2}


@pytest.mark.parametrize("rank", ["0", "1"])
def test_nsys_is_notified_of_the_steps_by_the_first_rank_and_of_their_parts_by_all(
    train: Any, monkeypatch: Any, rank: str
) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    run = train(TRAINING + PLAYED, options=CHOSEN)

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
    run = train(TRAINING + "train(20)", options={"nsys": True, "first_step": 5})

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
