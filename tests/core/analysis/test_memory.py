"""What memory is for, by the stacks of a snapshot and by the operators of a trace."""

import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.memory_categories import (
    NEVER,
    Allocations,
    Category,
    MemoryOverTime,
    Phase,
    Runs,
    categories,
    memory_of_snapshot,
    memory_of_trace,
    over_time,
    without_blocks,
)
from perftui.analysis.memory_snapshot import Lifetimes, time_line
from perftui.trace.formats import load_trace
from perftui.trace.memory_pickle import load_memory_snapshot
from perftui.trace.memory_snapshot import MemorySnapshot
from perftui.trace.model import NONE
from tests.core.trace.memory_files import Allocator, snapshot
from tests.traces.events import cpu, load, mark, memory

TORCH = "/venv/lib/python3.12/site-packages/torch/"


def stack(*calls: tuple[str, str]) -> list[dict[str, Any]]:
    """Calls of a stack, innermost first, as function and file."""
    return [{"name": name, "filename": file, "line": 1} for name, file in calls]


SCRIPT = ("<module>", "/home/user/train.py")
MODULE = ("_call_impl", TORCH + "nn/modules/module.py")
OF_STEP = ("wrapper", TORCH + "optim/optimizer.py")
MADE, MOVED, FORWARD, LOSS, BACKWARD, GRADIENT, STATE, SCRATCH, NO_STACK, CLOSURE, AGAIN = range(11)
STACKS = {
    MADE: stack(("__init__", TORCH + "nn/modules/linear.py"), SCRIPT),
    MOVED: stack(("convert", TORCH + "x.py"), ("_apply", TORCH + "nn/modules/module.py"), SCRIPT),
    FORWARD: stack(("forward", "/home/user/model.py"), MODULE, SCRIPT),
    LOSS: stack(SCRIPT),
    BACKWARD: stack(("torch::autograd::Engine::evaluate_function(x)", "??")),
    GRADIENT: stack(("_engine_run_backward", TORCH + "autograd/graph.py"), SCRIPT),
    STATE: stack(("_init_group", TORCH + "optim/adam.py"), OF_STEP, SCRIPT),
    SCRATCH: stack(("step", "/home/user/my_adam.py"), OF_STEP, SCRIPT),
    NO_STACK: [],
    CLOSURE: stack(("forward", "/home/user/model.py"), MODULE, OF_STEP, SCRIPT),
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


def test_without_addresses_the_level_alone_is_known_and_without_events_nothing() -> None:
    events = [cpu("aten::mm", 0, 9), memory(1, 64, 164), memory(2, -32, 132)]
    (memory_,) = memory_of_trace(load({"traceEvents": events}))
    assert at_peak(memory_) == {Category.OTHER: 164}
    assert not memory_.has_categories
    assert memory_of_trace(load({"traceEvents": [cpu("aten::mm", 0, 9)]})) == ()


@dataclass(frozen=True)
class Event:
    """One event: of an address that is taken or released, some time after the one before."""

    address: int
    takes: bool
    size: int
    category: Category
    later: int


KINDS = [each for each in Category if each is not Category.BEFORE]
EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 4),
        st.booleans(),
        st.integers(1, 9),
        st.sampled_from(KINDS),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=30,
)
"""Also a release without its allocation, and an address that is taken twice."""


def replayed(events: list[Event], before: int) -> list[list[int]]:
    """What each category holds at the start and after each event, one by one."""
    held: dict[int, Event] = {}
    levels = [[before] + [0] * (len(Category) - 1)]
    for event in events:
        now = list(levels[-1])
        old = held.pop(event.address, None)
        if old is not None:
            now[old.category] -= old.size
        elif not event.takes:
            now[Category.BEFORE] -= event.size
        if event.takes:
            held[event.address] = event
            now[event.category] += event.size
        levels.append(now)
    return levels


def made(events: list[Event], before: int | None) -> MemoryOverTime:
    takes = np.array([event.takes for event in events])
    lives = Lifetimes.of(np.array([event.address for event in events]), takes, ~takes)
    kinds = np.array([int(event.category) for event in events])
    return over_time(
        device=0,
        time=np.cumsum([event.later for event in events]),
        sizes=np.array([event.size for event in events]),
        lives=lives,
        category=np.where(lives.first == NONE, 0, kinds[lives.first]),
        before=before,
    )


def released_of_before(events: list[Event]) -> int:
    return -min(level[Category.BEFORE] for level in replayed(events, 0))


@pytest.mark.slow
@given(EVENTS, st.integers(0, 20))
def test_parts_are_those_of_a_replay_and_sum_to_the_level(events: list[Event], more: int) -> None:
    before = released_of_before(events) + more
    memory = made(events, before)
    levels = replayed(events, before)
    assert memory.parts.T.tolist() == levels
    assert memory.level.tolist() == [sum(level) for level in levels]
    assert memory.absolute
    assert sum(each.bytes for each in memory.at_peak()) == max(map(sum, levels))


@pytest.mark.slow
@given(EVENTS)
def test_what_was_held_before_is_at_least_what_is_released_of_it(events: list[Event]) -> None:
    unknown = made(events, None)
    least = released_of_before(events)
    assert not unknown.absolute
    assert unknown.parts.T.tolist() == replayed(events, least)
    if least:
        assert made(events, least - 1).parts.tolist() == unknown.parts.tolist()


@pytest.mark.slow
@given(EVENTS, st.integers(1, 40))
def test_columns_show_their_highest_moment(events: list[Event], count: int) -> None:
    memory = made(events, released_of_before(events))
    columns = memory.columns(count)
    shown = columns.parts.sum(axis=0)
    first, span = int(memory.time[0]), memory.span
    for column in range(count):
        left, right = (first + round(at * (span / count)) for at in (column, column + 1))
        inside = [
            int(level)
            for at, level in enumerate(memory.level.tolist())
            if left <= memory.time[at] <= right
            or (memory.time[at] <= left and (at + 1 == len(memory) or memory.time[at + 1] > left))
        ]
        assert shown[column] == max(inside)
        assert columns.parts[:, column].tolist() in memory.parts.T.tolist()
    assert shown.max() == shown[columns.peak] == memory.level.max()


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=20), st.none() | st.integers(0, 200))
def test_without_blocks_the_level_is_known_alone(change: list[int], before: int | None) -> None:
    memory = without_blocks(0, np.arange(len(change)), np.array(change), before, None)
    sums = [sum(change[:count]) for count in range(len(change) + 1)]
    base = before if before is not None and before >= -min(sums) else -min(sums)
    assert memory.level.tolist() == [base + each for each in sums]
    assert memory.absolute == (before is not None and base == before)
    assert not memory.has_categories


# What memory is for. Time runs 0-9 forward, 10-19 backward, 20-29 optimizer, and over again.

STEP = 30
PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def told(
    phase: Phase,
    taken: int,
    released: int = NEVER,
    *,
    module: bool = False,
    state: bool = False,
    steps: int = 3,
    cut: bool = False,
) -> Category:
    """The category of one allocation of a training of some steps."""
    marks = [
        (step * STEP + 10 * at, each) for step in range(steps) for at, each in enumerate(PHASES)
    ]
    times, phases = np.array([at for at, _ in marks]), np.array([int(each) for _, each in marks])
    one = Allocations(*(np.array([each]) for each in (taken, released, int(phase), module, state)))
    return Category(int(categories(one, Runs.of(times, phases), cut)[0]))


LAST = 2 * STEP

LASTING: list[tuple[Category, tuple[Any, ...], dict[str, Any]]] = [
    # State of the optimizer outlives the step that makes it.
    (Category.OPTIMIZER, (Phase.OPTIMIZER, 25), {}),
    (Category.OPTIMIZER, (Phase.OPTIMIZER, 25, STEP + 25), {}),
    (Category.TEMPORARY, (Phase.OPTIMIZER, 25, 27), {}),
    (Category.OPTIMIZER, (Phase.OPTIMIZER, LAST + 25), {}),
    # A step in which memory runs out says only what torch makes as state.
    (Category.OTHER, (Phase.OPTIMIZER, LAST + 25), {"cut": True}),
    (Category.OPTIMIZER, (Phase.OPTIMIZER, LAST + 25), {"state": True, "cut": True}),
    (Category.OPTIMIZER, (Phase.OPTIMIZER, 25), {"cut": True}),
    # Gradients outlive the backward pass, for which activations are held.
    (Category.GRADIENTS, (Phase.BACKWARD, 12, 25), {}),
    (Category.TEMPORARY, (Phase.BACKWARD, 12, 18), {}),
    (Category.GRADIENTS, (Phase.BACKWARD, LAST + 12), {}),
    (Category.ACTIVATIONS, (Phase.FORWARD, 5, 15), {}),
    (Category.TEMPORARY, (Phase.FORWARD, 5, 8), {}),
    # The output of a module is one while the script holds it until the next.
    (Category.ACTIVATIONS, (Phase.FORWARD, 5, STEP + 5), {"module": True}),
    (Category.OTHER, (Phase.FORWARD, 5, STEP + 5), {}),
    (Category.OTHER, (Phase.FORWARD, 5, STEP + 15), {"module": True}),
    (Category.OTHER, (Phase.FORWARD, 5), {"module": True}),
    # Nothing follows the last forward pass.
    (Category.ACTIVATIONS, (Phase.FORWARD, LAST + 25), {"module": True}),
    (Category.OTHER, (Phase.FORWARD, LAST + 25), {}),
    (Category.TEMPORARY, (Phase.FORWARD, LAST + 25, LAST + 27), {"module": True}),
    (Category.TEMPORARY, (Phase.FORWARD, 5, 8), {"steps": 0}),
    # Parameters outlive the making of a module; an unknown phase says nothing.
    (Category.PARAMETERS, (Phase.SETUP, 0), {"steps": 0}),
    (Category.OTHER, (Phase.UNKNOWN, 5, 15), {}),
]


@pytest.mark.parametrize(("category", "allocation", "more"), LASTING)
def test_what_memory_is_for_is_told_by_when_it_is_taken_and_released(
    category: Category, allocation: tuple[Any, ...], more: dict[str, Any]
) -> None:
    assert told(*allocation, **more) is category


@given(st.sampled_from(Phase), st.integers(0, 99), st.integers(1, 99), st.booleans(), st.booleans())
def test_only_the_phase_that_took_it_names_what_lasts(
    phase: Phase, taken: int, later: int, module: bool, cut: bool
) -> None:
    found = told(phase, taken, taken + later, module=module, cut=cut)
    of_phase = {
        Phase.UNKNOWN: set(),
        Phase.SETUP: {Category.PARAMETERS, Category.TEMPORARY},
        Phase.FORWARD: {Category.ACTIVATIONS, Category.TEMPORARY},
        Phase.BACKWARD: {Category.GRADIENTS, Category.TEMPORARY},
        Phase.OPTIMIZER: {Category.OPTIMIZER, Category.TEMPORARY},
    }
    assert found in of_phase[phase] | {Category.OTHER}


TRAINING = """
import sys
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.Adam(model.parameters())
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
) as profiler:
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.arange(32) % 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
profiler.export_chrome_trace(sys.argv[1])
print(sum(each.numel() * each.element_size() for each in model.parameters()))
print(sum(state.numel() * state.element_size() for each in optimizer.state.values()
          for state in each.values()))
"""


@pytest.mark.subprocess
@pytest.mark.slow
def test_gradients_and_state_are_as_large_as_torch_says(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    made = subprocess.run(
        [sys.executable, "-c", TRAINING, str(path)], check=True, capture_output=True, text=True
    )
    parameters, state = map(int, made.stdout.split())
    (memory,) = memory_of_trace(load_trace(path))
    assert memory.device == NONE
    most = {category: int(memory.parts[category].max()) for category in Category}
    assert most[Category.GRADIENTS] == parameters
    assert most[Category.OPTIMIZER] == state
    # What relu and the last layer keep for the backward pass: 32 rows of 256 floats.
    assert 32 * 256 * 4 <= most[Category.ACTIVATIONS] <= 2 * 32 * 256 * 4
    assert int(memory.parts[Category.GRADIENTS, -1]) == parameters
    assert int(memory.parts[Category.OPTIMIZER, -1]) == state
