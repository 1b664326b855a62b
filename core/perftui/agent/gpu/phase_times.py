"""What the phases take on the GPU, by CUDA events that are read once the GPU has passed them."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Optional

from ...wire.ring import BACKWARD, FORWARD, OPTIMIZER

PHASES = (FORWARD, BACKWARD, OPTIMIZER)

BUDGET = 1000
"""A step that is timed may cost one part in this of the time since the last one. In a virtual
machine with slow cores and an H100 one took 1.4 ms, a third of it for six events: one in 1.4 s."""

MOST_PAUSE_NS = 5_000_000_000
"""Longest pause after a timed step, however costly it was: the first that is timed takes long."""

MOST_PENDING = 64
"""Timed steps that the GPU may be behind; the oldest are given up."""


class DeviceTimes(NamedTuple):
    """Nanoseconds of one step, each between its beginning and its end on the stream."""

    step: int
    forward: int
    backward: int
    optimizer: int


class _Interval(NamedTuple):
    kind: int
    outer: Optional[int]
    """The phase in which it lies, of which it is no part then."""
    device: int
    begin: Any
    end: Any


class DevicePhases:
    """Marks the stream that is current where phases begin and end, in as many steps as it may.

    Nothing here ever waits for the GPU: an event is asked whether it was passed, and read after.
    While a CUDA graph is captured nothing is marked or asked, both would break it, and the step
    stays without times.
    """

    def __init__(self, torch: Any) -> None:
        self.is_timing = False
        """Whether the phases of this step are marked."""
        self.pending: deque[tuple[int, list[_Interval]]] = deque()
        """Timed steps, oldest first, that the GPU has not been seen to finish."""
        self._cuda = torch.cuda
        self._free: dict[int, list[Any]] = {}
        self._open: list[tuple[int, int, Any]] = []
        self._intervals: list[_Interval] = []
        self._marks = 0
        """Events in the step that goes on."""
        self._not_before = 0

    def is_used(self) -> bool:
        """Whether the script uses CUDA by now."""
        return bool(self._cuda.is_initialized())

    def begin_step(self, now: int, *, is_recorded: bool = False) -> None:
        """A step begins; decides whether it is timed, as those that a window records all are."""
        self._give_back()
        self.is_timing = (is_recorded or now >= self._not_before) and self.is_used()

    def begin(self, kind: int) -> None:
        """The phase ``kind`` begins."""
        if kind in PHASES:
            mark = self._mark()
            if mark is not None:
                self._open.append((kind, *mark))

    def end(self, kind: int) -> None:
        """The phase ``kind`` ends; those inside it that raised are forgotten."""
        while kind in PHASES and self._open:
            opened, device, begin = self._open.pop()
            if opened != kind:
                self._free[device].append(begin)
                continue
            mark = self._mark()
            if mark is None or mark[0] != device:
                self._free[device].append(begin)
                if mark is not None:
                    self._free[mark[0]].append(mark[1])
                self.abandon()
                return
            outer = self._open[-1][0] if self._open else None
            self._intervals.append(_Interval(kind, outer, device, begin, mark[1]))
            return

    def abandon(self) -> None:
        """The phases of this step cannot be timed."""
        self.is_timing = False
        self._give_back()

    def pay(self, now: int, cost: int) -> None:
        """The step that ended at ``now`` took ``cost`` ns of ours, if it was timed."""
        if self._marks:
            self._not_before = now + min(BUDGET * cost, MOST_PAUSE_NS)
            self._marks = 0

    def end_step(self, step: int) -> bool:
        """Step ``step`` ends; whether its times will come."""
        if not self.is_timing or self._open or not self._intervals:
            return False
        self.pending.append((step, self._intervals))
        self._intervals = []
        if len(self.pending) > MOST_PENDING:
            self._reuse(self.pending.popleft()[1])
        return True

    def take(self) -> list[DeviceTimes]:
        """Times of the steps that the GPU has finished, in order."""
        taken: list[DeviceTimes] = []
        if not self.pending or self._cuda.is_current_stream_capturing():
            return taken
        while self.pending and all(one.end.query() for one in reversed(self.pending[0][1])):
            step, intervals = self.pending.popleft()
            taken.append(_times(step, intervals))
            self._reuse(intervals)
        return taken

    def _mark(self) -> tuple[int, Any] | None:
        if self._cuda.is_current_stream_capturing():
            self.abandon()
            return None
        device = self._cuda.current_device()
        free = self._free.setdefault(device, [])
        event = free.pop() if free else self._cuda.Event(enable_timing=True)
        event.record()
        self._marks += 1
        return device, event

    def _give_back(self) -> None:
        for _, device, event in self._open:
            self._free[device].append(event)
        self._open = []
        self._reuse(self._intervals)
        self._intervals = []

    def _reuse(self, intervals: list[_Interval]) -> None:
        for one in intervals:
            self._free[one.device] += (one.begin, one.end)


def _times(step: int, intervals: list[_Interval]) -> DeviceTimes:
    spent = dict.fromkeys(PHASES, 0)
    for one in intervals:
        ns = round(one.begin.elapsed_time(one.end) * 1e6)
        spent[one.kind] += ns
        if one.outer is not None:
            spent[one.outer] -= ns
    return DeviceTimes(step, spent[FORWARD], spent[BACKWARD], spent[OPTIMIZER])
