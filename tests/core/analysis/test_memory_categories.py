"""What memory is for, by the stacks of a snapshot and by the operators of a trace."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from perftui.analysis.memory import Category, MemoryOverTime
from perftui.analysis.memory_categories import memory_of_snapshot, memory_of_trace
from perftui.analysis.memory_snapshot import time_line
from perftui.trace.memory_snapshot.load import load_memory_snapshot
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.model import NONE
from tests.core.trace.memory_files import Allocator, snapshot
from tests.traces.events import cpu, load, mark, memory

TORCH = "/venv/lib/python3.12/site-packages/torch/"


def stack(*calls: tuple[str, str]) -> list[dict[str, Any]]:
    """Calls of a stack, innermost first, as function and file."""
    return [{"name": name, "filename": file, "line": 1} for name, file in calls]


SCRIPT = ("<module>", "/home/user/train.py")
MODULE = ("_call_impl", TORCH + "nn/modules/module.py")
STEP = ("wrapper", TORCH + "optim/optimizer.py")
MADE, MOVED, FORWARD, LOSS, BACKWARD, GRADIENT, STATE, SCRATCH, NO_STACK, CLOSURE, AGAIN = range(11)
STACKS = {
    MADE: stack(("__init__", TORCH + "nn/modules/linear.py"), SCRIPT),
    MOVED: stack(("convert", TORCH + "x.py"), ("_apply", TORCH + "nn/modules/module.py"), SCRIPT),
    FORWARD: stack(("forward", "/home/user/model.py"), MODULE, SCRIPT),
    LOSS: stack(SCRIPT),
    BACKWARD: stack(("torch::autograd::Engine::evaluate_function(x)", "??")),
    GRADIENT: stack(("_engine_run_backward", TORCH + "autograd/graph.py"), SCRIPT),
    STATE: stack(("_init_group", TORCH + "optim/adam.py"), STEP, SCRIPT),
    SCRATCH: stack(("step", "/home/user/my_adam.py"), STEP, SCRIPT),
    NO_STACK: [],
    CLOSURE: stack(("forward", "/home/user/model.py"), MODULE, STEP, SCRIPT),
    AGAIN: stack(MODULE, ("backward", TORCH + "autograd/function.py")),
}  # fmt: skip


class Training(Allocator):
    """Hands out memory with the stacks above, whose numbers take the place of lines."""

    def __init__(self) -> None:
        super().__init__(stacks={**STACKS})

    def step(self, backward: int = BACKWARD) -> None:
        """One step that makes gradients of 16 bytes, state of 32, and frees the rest."""
        activation, loss = self.alloc(64, FORWARD), self.alloc(8, LOSS)
        self.free(self.alloc(2, FORWARD))
        self.alloc(16, backward)
        scratch = self.alloc(4, backward)
        self.free(activation)
        self.free(scratch)
        self.free(loss)
        self.alloc(32, STATE)
        self.free(self.alloc(128, SCRATCH))


@pytest.fixture
def take(tmp_path: Path) -> Any:
    def loaded(training: Allocator) -> MemorySnapshot:
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps(snapshot(training)))
        return load_memory_snapshot(path)

    return loaded


def at_end(over_time: MemoryOverTime | None) -> dict[Category, int]:
    assert over_time is not None
    return held(over_time, -1)


def held(over_time: MemoryOverTime, point: int) -> dict[Category, int]:
    return {
        each: int(size)
        for each, size in zip(Category, over_time.parts[:, point], strict=True)
        if size
    }


def at_peak(over_time: MemoryOverTime | None) -> dict[Category, int]:
    assert over_time is not None
    return {each.category: each.bytes for each in over_time.at_peak()}


def test_a_training_from_the_making_of_its_module(take: Any) -> None:
    training = Training()
    training.recording = False
    training.alloc(1000, MADE)
    training.recording = True
    training.alloc(40, MADE)
    training.alloc(24, MOVED)
    training.free(training.alloc(3, MADE))
    training.step()
    loaded = take(training)
    memory = memory_of_snapshot(loaded, 0)
    lasting = {Category.BEFORE: 1000, Category.PARAMETERS: 64, Category.GRADIENTS: 16}
    assert at_end(memory) == {**lasting, Category.OPTIMIZER: 32}
    assert at_peak(memory) == {**lasting, Category.OPTIMIZER: 32, Category.TEMPORARY: 128}
    assert memory is not None
    assert memory.level.max() == time_line(loaded, 0).bytes.max()
    most = {each: int(memory.parts[each].max()) for each in Category}
    assert most[Category.ACTIVATIONS] == 72
    assert most[Category.OTHER] == 0


@pytest.mark.parametrize("backward", [BACKWARD, GRADIENT, NO_STACK, AGAIN])
def test_each_sign_of_a_backward_pass(take: Any, backward: int) -> None:
    training = Training()
    training.step(backward)
    assert at_end(memory_of_snapshot(take(training), 0))[Category.GRADIENTS] == 16


def test_a_closure_is_no_part_of_the_optimizer(take: Any) -> None:
    training = Training()
    activation = training.alloc(64, CLOSURE)
    training.alloc(16, BACKWARD)
    training.free(activation)
    memory = memory_of_snapshot(take(training), 0)
    assert at_peak(memory) == {Category.ACTIVATIONS: 64, Category.GRADIENTS: 16}


def test_where_memory_runs_out_in_a_step_only_state_is_known_to_last(take: Any) -> None:
    training = Training()
    training.step()
    training.alloc(128, SCRATCH)
    training.events.append({"action": "oom", "size": 9, "device_free": 1, "frames": []})
    found = at_end(memory_of_snapshot(take(training), 0))
    assert found[Category.OPTIMIZER] == 32
    assert found[Category.OTHER] == 128


def test_without_stacks_nothing_is_distinguished(take: Any) -> None:
    training = Training()
    training.alloc(10, NO_STACK)
    training.free(training.alloc(5, NO_STACK))
    assert at_peak(memory_of_snapshot(take(training), 0)) == {Category.OTHER: 15}
    without = Training()
    without.recording = False
    without.alloc(10, FORWARD)
    assert memory_of_snapshot(take(without), 0) is None


def test_reserved_follows_the_segments(take: Any) -> None:
    training = Training()
    segment = {"addr": 1 << 40, "size": 512, "stream": 0, "time_us": 0, "frames": []}
    training.events.append({"action": "segment_alloc", **segment})
    training.alloc(10, FORWARD)
    memory = memory_of_snapshot(take(training), 0)
    assert memory is not None
    assert memory.reserved is not None
    assert memory.reserved.tolist() == [0, 512, 512]


def block(ts: int, size: int, address: int, allocated: int = 0, **more: int) -> dict[str, Any]:
    return memory(ts, size, allocated, Addr=address, **more)


def one_step(at: int) -> list[dict[str, Any]]:
    """100 us: forward 0-30, backward 30-60 on a thread of its own, the optimizer 60-90."""
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    return [
        cpu("aten::linear", at, 29),
        cpu(node, at + 30, 9, tid=2),
        cpu(node, at + 45, 9, tid=2),
        mark("Optimizer.step#Adam.step", at + 60, 30),
        cpu("aten::addcdiv_", at + 61, 5),
    ]


def test_a_trace_of_a_training() -> None:
    events = [
        *one_step(0),
        *one_step(100),
        block(1, 64, 0x10, 1064),  # an activation
        block(2, 2, 0x20, 1066),  # freed before the backward pass
        block(5, -2, 0x20, 1064),
        block(6, 8, 0x28, 1072),  # a batch: the next one takes its place
        block(31, 16, 0x30, 1088, tid=2),  # a gradient
        block(32, 4, 0x40, 1092, tid=2),
        block(41, -4, 0x40, 1088, tid=2),  # between two operators of autograd
        block(47, -64, 0x10, 1024, tid=2),
        block(62, 32, 0x50, 1056),  # state
        block(63, 128, 0x60, 1184),
        block(70, -128, 0x60, 1056),
        block(102, -16, 0x30, 1040),
        block(103, -8, 0x28, 1032),
        block(104, -500, 0x99, 532),  # from before
    ]
    (memory,) = memory_of_trace(load({"traceEvents": events}))
    assert memory.device == 0
    assert memory.absolute
    assert held(memory, 0) == {Category.BEFORE: 1000}
    lasting = {Category.BEFORE: 1000, Category.GRADIENTS: 16, Category.OPTIMIZER: 32}
    assert at_peak(memory) == {**lasting, Category.TEMPORARY: 128, Category.OTHER: 8}
    assert at_end(memory) == {Category.BEFORE: 500, Category.OPTIMIZER: 32}
    assert [each.blocks for each in memory.at_peak()] == [None, 1, 1, 1, 1]
    assert memory.parts[Category.ACTIVATIONS].max() == 64


def test_a_closure_in_the_optimizers_step() -> None:
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    events = [
        mark("Optimizer.step#LBFGS.step", 0, 90),
        cpu("aten::linear", 1, 20),
        cpu(node, 30, 20),
        cpu("aten::add_", 60, 20),
        block(2, 64, 0x10, 64),
        block(31, 16, 0x20, 80),
        block(35, -64, 0x10, 16),
        block(61, 32, 0x30, 48),
    ]
    (memory,) = memory_of_trace(load({"traceEvents": events}))
    assert at_end(memory) == {Category.GRADIENTS: 16, Category.OPTIMIZER: 32}
    assert memory.parts[Category.ACTIVATIONS].max() == 64


def test_what_perftui_marks_as_forward_is_the_models_and_may_be_kept_until_the_next() -> None:
    kept = [mark("perftui::forward", 0, 29), block(1, 64, 0x10, 64), block(101, -64, 0x10, 0)]
    (memory,) = memory_of_trace(load({"traceEvents": [*one_step(0), *one_step(100), *kept]}))
    assert at_peak(memory) == {Category.ACTIVATIONS: 64}


def test_the_gpus_come_first_and_what_the_cpu_held_before_is_not_known() -> None:
    cpus = memory(3, 10, 10, device=-1, Addr=1), memory(4, -7, 0, device=-1, Addr=2)
    events = [cpu("aten::mm", 0, 9), *cpus, block(1, 5, 3, 5, device=1), block(2, 5, 3, 5)]
    found = memory_of_trace(load({"traceEvents": events}))
    assert [each.device for each in found] == [0, 1, NONE]
    assert not found[-1].absolute
    assert held(found[-1], 0) == {Category.BEFORE: 7}


def test_without_addresses_the_level_alone_is_known() -> None:
    events = [cpu("aten::mm", 0, 9), memory(1, 64, 164), memory(2, -32, 132)]
    (memory_,) = memory_of_trace(load({"traceEvents": events}))
    assert at_peak(memory_) == {Category.OTHER: 164}
    assert not memory_.has_categories


def test_a_trace_without_memory_events_has_none() -> None:
    assert memory_of_trace(load({"traceEvents": [cpu("aten::mm", 0, 9)]})) == ()
