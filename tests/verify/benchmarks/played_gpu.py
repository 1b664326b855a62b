"""A GPU that is played: what the agent asks of it takes as long as beside an H100."""

from __future__ import annotations

import time
from typing import Any

from perftui.agent.recording.device import Device, DevicePhases

RECORD_US, QUERY_US, ELAPSED_US, MEMORY_US = 55, 2, 10, 110
"""To record an event, to ask whether it was passed, to read the time between two, and to read the
memory. In a virtual machine whose cores are two to three times as slow as usual ones six events
took 350 us of a step; a reading of the memory takes 40 us on usual cores."""


class Event:
    """Passed at once."""

    def __init__(self, **_: Any) -> None:
        pass

    def record(self) -> None:
        _take(RECORD_US)

    def query(self) -> bool:
        _take(QUERY_US)
        return True

    def elapsed_time(self, _: Event) -> float:
        _take(ELAPSED_US)
        return 1.0


class PlayedCuda:
    """As much of ``torch.cuda`` as is asked."""

    Event = Event

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return False

    def current_device(self) -> int:
        return 0


def play() -> None:
    """Have every recording that begins from now on look at such a GPU."""

    def make_phases(self: DevicePhases, torch: Any) -> None:
        phases(self, torch)
        self._cuda = PlayedCuda()

    def make_device(self: Device, torch: Any, *others: Any) -> None:
        device(self, torch, *others)
        self._cuda, self._stats = PlayedCuda(), _memory

    phases, device = DevicePhases.__init__, Device.__init__
    DevicePhases.__init__ = make_phases  # type: ignore[method-assign]
    Device.__init__ = make_device  # type: ignore[method-assign]


def _memory(_: int) -> dict[str, dict[str, dict[str, int]]]:
    _take(MEMORY_US)
    return {
        "allocated_bytes": {"all": {"current": 1, "peak": 1}},
        "reserved_bytes": {"all": {"current": 1}},
    }


def _take(microseconds: int) -> None:
    until = time.thread_time_ns() + 1000 * microseconds
    while time.thread_time_ns() < until:
        pass
