"""What is recorded of a GPU that is played, whose events finish late, or never."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.recording import device as devices
from perftui.agent.recording import output as rings
from perftui.agent.recording.device import (
    LEAST_PAUSE_NS,
    MOST_PAUSE_NS,
    MOST_PENDING,
    SHARE,
    Device,
    DevicePhases,
)
from perftui.agent.recording.recording import Recording
from perftui.agent.recording.steps import TRAIN, Boundary, StepMachine
from perftui.agent.safety.meter import Meter
from perftui.recorder.spool import RingReader
from perftui.wire.ring import BACKWARD, DEVICE_FLAG, FORWARD, INPUT_WAIT, OPTIMIZER


class Event:
    """Of a stream: passed once the GPU has done what came before it."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.at: int | None = None

    def record(self) -> None:
        assert not self._gpu.is_capturing
        self.at = None
        self._gpu.queue.append(self)

    def query(self) -> bool:
        assert not self._gpu.is_capturing
        return self.at is not None

    def elapsed_time(self, end: Event) -> float:
        assert self.at is not None
        assert end.at is not None
        return (end.at - self.at) / 1e6

    def synchronize(self) -> None:
        raise AssertionError("the training was made to wait")

    wait = synchronize


class Gpu:
    """``torch.cuda`` with one stream, of which the test says how far it has come."""

    def __init__(self) -> None:
        self.queue: deque[Event | int] = deque()
        self.clock = 0
        self.made = 0
        self.device = 0
        self.is_used = True
        self.is_capturing = False
        self.stats: dict[str, Any] = {}

    def Event(self, enable_timing: bool) -> Event:  # noqa: N802 - torch calls it so
        assert enable_timing
        self.made += 1
        return Event(self)

    def is_initialized(self) -> bool:
        return self.is_used

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def current_device(self) -> int:
        return self.device

    def synchronize(self) -> None:
        raise AssertionError("the training was made to wait")

    def launch(self, ns: int) -> None:
        """Something for the GPU to do."""
        self.queue.append(ns)

    def work(self) -> None:
        """Do everything there is."""
        while self.queue:
            one = self.queue.popleft()
            if isinstance(one, Event):
                one.at = self.clock
            else:
                self.clock += one


class Torch:
    """The parts of torch that are asked."""

    def __init__(self) -> None:
        self.cuda = Gpu()
        self._C = self

    def _cuda_memoryStats(self, device: int) -> dict[str, Any]:  # noqa: N802 - torch calls it so
        assert device == self.cuda.device
        return self.cuda.stats


@pytest.fixture
def torch() -> Torch:
    return Torch()


def eager(torch: Torch) -> DevicePhases:
    """Phases that are timed in every step."""
    phases = DevicePhases(torch)
    phases.begin_step(1 << 60)
    return phases


def phase(phases: DevicePhases, gpu: Gpu, kind: int, ns: int) -> None:
    phases.begin(kind)
    gpu.launch(ns)
    phases.end(kind)


def step(phases: DevicePhases, gpu: Gpu, number: int, *ns: int) -> bool:
    for kind, spent in zip((FORWARD, BACKWARD, OPTIMIZER), ns, strict=False):
        phase(phases, gpu, kind, spent)
    ended = phases.end_step(number)
    phases.begin_step(1 << 61)
    return ended


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), max_size=20), st.sets(st.integers(0, 19)))
def test_every_step_gets_its_own_times_in_order_whenever_the_gpu_works(
    steps: list[tuple[int, int, int]], works_after: set[int]
) -> None:
    torch = Torch()
    phases, taken = eager(torch), []
    for number, times in enumerate(steps):
        assert step(phases, torch.cuda, number, *times)
        if number in works_after:
            torch.cuda.work()
        else:
            assert phases.take() == []
        taken += phases.take()
    torch.cuda.work()
    taken += phases.take()

    assert taken == [(number, *times) for number, times in enumerate(steps)]


def test_events_are_used_again(torch: Torch) -> None:
    phases = eager(torch)
    for number in range(50):
        step(phases, torch.cuda, number, 1, 1, 1)
        torch.cuda.work()
        phases.take()

    assert torch.cuda.made == 6


def test_a_gpu_that_never_comes_fills_no_memory(torch: Torch) -> None:
    phases = eager(torch)
    for number in range(10 * MOST_PENDING):
        step(phases, torch.cuda, number, 1, 1, 1)

    assert phases.take() == []
    assert len(phases.pending) == MOST_PENDING
    assert torch.cuda.made <= 6 * (MOST_PENDING + 2)


def test_phases_of_a_closure_are_no_part_of_the_optimizer_and_waits_are_none(torch: Torch) -> None:
    phases, gpu = eager(torch), torch.cuda
    phases.begin(OPTIMIZER)
    for kind, ns in ((FORWARD, 10), (BACKWARD, 20), (INPUT_WAIT, 5)) * 3:
        phase(phases, gpu, kind, ns)
    phases.end(OPTIMIZER)
    phases.end_step(0)
    gpu.work()

    assert phases.take() == [(0, 30, 60, 15)]


def test_a_phase_that_raised_is_forgotten(torch: Torch) -> None:
    phases, gpu = eager(torch), torch.cuda
    phases.begin(OPTIMIZER)
    phases.begin(FORWARD)
    phases.end(OPTIMIZER)
    phase(phases, gpu, BACKWARD, 20)
    phases.end_step(0)
    gpu.work()

    assert phases.take() == [(0, 0, 20, 0)]


@pytest.mark.parametrize("moment", ["begin", "end", "between"])
def test_nothing_is_marked_or_asked_while_a_graph_is_captured(torch: Torch, moment: str) -> None:
    phases, gpu = eager(torch), torch.cuda
    step(phases, gpu, 0, 1, 2, 3)
    gpu.work()
    gpu.is_capturing = moment == "begin"
    phases.begin(FORWARD)
    gpu.is_capturing = True
    assert phases.take() == []
    gpu.is_capturing = moment == "end"
    phases.end(FORWARD)
    if moment != "between":
        assert not phases.end_step(1)
    gpu.is_capturing = False

    assert phases.take() == [(0, 1, 2, 3)]


def test_a_phase_on_two_devices_or_in_two_steps_is_not_reported(torch: Torch) -> None:
    phases = eager(torch)
    phase(phases, torch.cuda, FORWARD, 3)
    phases.begin(OPTIMIZER)
    assert not phases.end_step(0)

    phases.begin_step(1 << 61)
    phases.begin(FORWARD)
    torch.cuda.device = 1
    phases.end(FORWARD)
    assert not phases.end_step(1)


def test_a_gpu_that_is_not_used_is_left_alone(torch: Torch) -> None:
    torch.cuda.is_used = False
    phases = DevicePhases(torch)
    phases.begin_step(1 << 60)

    assert not phases.is_timing
    assert torch.cuda.made == 0


def test_steps_are_timed_as_seldom_as_that_is_cheap(torch: Torch) -> None:
    phases, now = DevicePhases(torch), 10**9
    timed = []
    for number in range(1000):
        phases.begin_step(now, is_recorded=number == 700)
        for kind in (FORWARD, BACKWARD, OPTIMIZER):
            if phases.is_timing:
                phase(phases, torch.cuda, kind, 1)
        now += 10**6
        if phases.end_step(number):
            timed.append(number)
        phases.pay(now, 300_000)
        torch.cuda.work()
        phases.take()

    # Each costs 0.3 of steps of 1 ms, hence one of 300 is timed; those of windows are besides.
    assert timed == [0, 301, 602, 700]


def test_what_a_recording_writes_of_a_gpu(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "PHASE_BUDGET", 0)
    monkeypatch.setattr(devices, "BUDGET", 0)
    ring = rings.create_ring(tmp_path / "ring-1", {"pid": 1, "rank": 0, "world_size": 1}, 100)
    machine = StepMachine(lambda: True, lambda: False)
    meter = Meter()
    recording = Recording(ring, machine, meter, 0, Device(torch, ring, meter))
    gpu = torch.cuda
    gpu.stats = {
        "allocated_bytes": {"all": {"current": 5, "peak": 9}},
        "reserved_bytes": {"all": {"current": 8}},
        "num_alloc_retries": 2,
        "num_ooms": 1,
    }
    for number in range(3):
        recording.now()
        for kind, ns in ((FORWARD, 3000), (BACKWARD, 5000), (OPTIMIZER, 1000)):
            start = recording.begin(kind)
            gpu.launch(ns)
            recording.end(kind, start)
        recording.ended([Boundary(TRAIN, recording.now(), 1)])
        if number == 1:
            gpu.work()
    recording.close()

    reader = RingReader(tmp_path / "ring-1")
    records = reader.poll()
    reader.close()
    steps = [one for one in records if one.kind == "step"]
    # The first begins before it is known that there is a GPU.
    assert [one.flag for one in steps] == [0, DEVICE_FLAG, DEVICE_FLAG]
    found = [one for one in records if one.kind == "device_phases"]
    assert [(one.step, one.duration, one.value, one.extra) for one in found] == [
        (1, 3000, 5000, 1000)
    ]
    trouble = [one for one in records if one.kind == "memory_trouble"]
    assert [(one.step, one.value, one.extra) for one in trouble] == [(0, 2, 1)]


MS = 1_000_000


@pytest.fixture
def looks(torch: Torch, tmp_path: Path) -> Device:
    ring = rings.create_ring(tmp_path / "ring-1", {"pid": 1, "rank": 0, "world_size": 1}, 100)
    return Device(torch, ring, Meter())


def timed_step(looks: Device, torch: Torch, step: int) -> bool:
    looks.phases.begin_step(0, is_recorded=True)
    looks.begin(FORWARD, 0)
    torch.cuda.launch(3 * MS)
    looks.end(FORWARD)
    return looks.end_step(step, 0, is_mixed=False)


def test_what_a_look_cost_decides_when_the_next_one_comes(looks: Device) -> None:
    for cost in (0, 10_000, 300_000, 20 * MS):
        pause = looks.pay(7 * MS, cost) - 7 * MS
        assert LEAST_PAUSE_NS <= pause <= MOST_PAUSE_NS
        assert pause in (LEAST_PAUSE_NS, MOST_PAUSE_NS, SHARE * cost)


def test_times_that_are_awaited_are_asked_for_soon(
    looks: Device, torch: Torch, tmp_path: Path
) -> None:
    assert timed_step(looks, torch, 0)
    assert looks.pay(0, 20 * MS) == LEAST_PAUSE_NS

    torch.cuda.work()
    looks.phases.begin_step(0, is_recorded=False)
    assert not looks.end_step(1, 0, is_mixed=False)
    assert looks.pay(0, 20 * MS) == MOST_PAUSE_NS
    reader = RingReader(tmp_path / "ring-1")
    (times,) = (one for one in reader.poll() if one.kind == "device_phases")
    reader.close()
    assert (times.step, times.duration) == (0, 3 * MS)


def test_a_step_that_was_told_late_has_no_times(looks: Device, torch: Torch) -> None:
    looks.phases.begin_step(0, is_recorded=True)
    looks.begin(FORWARD, 0)
    looks.end(FORWARD)
    assert not looks.end_step(0, 0, is_mixed=True)
