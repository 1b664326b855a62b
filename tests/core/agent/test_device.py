"""When the GPU is looked at again."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.agent.recording import output as rings
from perftui.agent.recording.device import LEAST_PAUSE_NS, MOST_PAUSE_NS, SHARE, Device
from perftui.agent.safety.meter import Meter
from perftui.recorder.spool import RingReader
from perftui.wire.ring import FORWARD
from tests.core.agent.test_device_phases import Torch

MS = 1_000_000


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def device(torch: Torch, tmp_path: Path) -> Device:
    ring = rings.create_ring(tmp_path / "ring-1", {"pid": 1, "rank": 0, "world_size": 1}, 100)
    return Device(torch, ring, Meter())


def timed_step(device: Device, torch: Torch, step: int) -> bool:
    device.begin_step(is_recorded=True)
    device.begin(FORWARD, 0)
    torch.cuda.launch(3 * MS)
    device.end(FORWARD)
    return device.end_step(step, 0, is_mixed=False)


def test_what_a_look_cost_decides_when_the_next_one_comes(device: Device) -> None:
    for cost in (0, 10_000, 300_000, 20 * MS):
        pause = device.pay(7 * MS, cost) - 7 * MS
        assert LEAST_PAUSE_NS <= pause <= MOST_PAUSE_NS
        assert pause in (LEAST_PAUSE_NS, MOST_PAUSE_NS, SHARE * cost)


def test_times_that_are_awaited_are_asked_for_soon(
    device: Device, torch: Torch, tmp_path: Path
) -> None:
    assert timed_step(device, torch, 0)
    assert device.pay(0, 20 * MS) == LEAST_PAUSE_NS

    torch.cuda.work()
    device.begin_step(is_recorded=False)
    assert not device.end_step(1, 0, is_mixed=False)
    assert device.pay(0, 20 * MS) == MOST_PAUSE_NS
    reader = RingReader(tmp_path / "ring-1")
    (times,) = (one for one in reader.poll() if one.kind == "device_phases")
    reader.close()
    assert (times.step, times.duration) == (0, 3 * MS)


def test_a_step_that_was_told_late_has_no_times(device: Device, torch: Torch) -> None:
    device.begin_step(is_recorded=True)
    device.begin(FORWARD, 0)
    device.end(FORWARD)
    assert not device.end_step(0, 0, is_mixed=True)
