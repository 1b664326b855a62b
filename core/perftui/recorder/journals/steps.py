"""Turns the records of one training thread into rows of the step journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from perftui.recorder.spool.ring import Record
from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.wire.ring import DEVICE_FLAG, EVAL_FLAG, INFER_FLAG, PROFILED_FLAG

OTHER = "other"


class Interval(NamedTuple):
    """One finished interval of the training thread, ``[start, end)`` in ns."""

    start: int
    end: int
    kind: str


def exclusive_times(start: int, end: int, intervals: Iterable[Interval]) -> dict[str, int]:
    """Nanoseconds of each phase inside ``[start, end)``; together exactly ``end - start``.

    ``intervals`` come in the order in which they finished. They are clipped to the range; an
    instant belongs to the interval that covers it and began last, of equal beginnings to the
    shorter one, of equal intervals to the one that finished first. What none covers is ``other``.
    """
    sweep = _Sweep(start, end)
    numbered = [(i.start, -i.end, -n, i.kind) for n, i in enumerate(intervals) if i.end > i.start]
    for opened, negative_end, _, kind in sorted(numbered):
        sweep.advance(min(max(opened, start), end))
        sweep.open(min(-negative_end, end), kind)
    sweep.advance(end)
    return sweep.totals


class _Sweep:
    """Walks forward in time with the stack of open intervals, outermost at the bottom."""

    def __init__(self, start: int, end: int) -> None:
        self.totals = dict.fromkeys(PHASES, 0)
        self._at = start
        self._end = end
        self._open: list[tuple[int, str]] = []

    def open(self, end: int, kind: str) -> None:
        if end > self._at:
            self._open.append((end, kind))

    def advance(self, to: int) -> None:
        while self._open and self._at < to:
            end, kind = self._open[-1]
            self._give(kind, min(end, to))
            if end <= to:
                self._open.pop()
        self._give(OTHER, to)

    def _give(self, kind: str, until: int) -> None:
        if until > self._at:
            self.totals[kind] += until - self._at
            self._at = until


HOLD_NS = 1_000_000_000
"""How long a step waits for records that finish after it (an interval that spans its end, the
memory at its end). The next step ends the wait: only the last step of a stalled run waits long."""

DEVICE_HOLD_NS = 10_000_000_000
"""How long a step waits for what its phases took on the GPU, which the training learns when it next
asks: in the step after, as a rule."""

MAX_INTERVALS = 100_000
"""Intervals kept while no step ends; a loop that never trains must not fill the memory."""

UNKNOWN = -1

Values = dict[str, int | str]

_PARTS = frozenset(PHASES) - {OTHER}


class _Pending(NamedTuple):
    """A step that is complete but for its times on the GPU."""

    step: int
    values: Values
    awaits_device: bool
    since: int


class StepAssembler:
    """Collects intervals until their step is complete.

    ``dropped`` counts intervals forgotten because no step ended for too long; the phases of the
    next step then miss them.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._intervals: deque[tuple[Interval, int]] = deque()
        self._memory: dict[tuple[str, int], Record] = {}
        self._fetch_cpu: dict[int, int] = {}
        self._waiting: Record | None = None
        self._waits_since = 0
        self._pending: deque[_Pending] = deque()
        self._device: dict[int, Record] = {}

    def add(self, record: Record, now: int) -> list[list[int | str]]:
        """Take one record, in ring order; returns rows of steps it completes.

        ``now`` is any clock in ns, the same as for ``expire``.
        """
        if record.kind == "step":
            self._complete(now)
            self._waiting, self._waits_since = record, now
            return self._release(now)
        if record.kind in _PARTS:
            self._keep(record)
        elif record.kind in _MEMORY:
            self._memory[record.kind, record.step] = record
        elif record.kind == "input_cpu":
            self._fetch_cpu[record.step] = self._fetch_cpu.get(record.step, 0) + record.value
        elif record.kind == "device_phases":
            self._device[record.step] = record
            return self._release(now)
        return []

    def expire(self, now: int, hold: int = HOLD_NS) -> list[list[int | str]]:
        """Complete the step that has waited for ``hold`` ns; 0 at the end of the run."""
        if now - self._waits_since >= hold:
            self._complete(now)
        return self._release(now, DEVICE_HOLD_NS if hold else 0)

    def _keep(self, record: Record) -> None:
        if len(self._intervals) >= MAX_INTERVALS:
            self._intervals.popleft()
            self.dropped += 1
        interval = Interval(record.start, record.start + record.duration, record.kind)
        self._intervals.append((interval, record.value))

    def _complete(self, now: int) -> None:
        step, self._waiting = self._waiting, None
        if step is None:
            return
        end = step.start + step.duration
        inside = [kept for kept in self._intervals if kept[0].start < end]
        phases = exclusive_times(step.start, end, [interval for interval, _ in inside])
        fetch_cpu = self._fetch_cpu.get(step.step, UNKNOWN)
        self._fetch_cpu = {at: cpu for at, cpu in self._fetch_cpu.items() if at > step.step}
        values = _values(step, phases, _fewest_ready(step, inside), fetch_cpu, self._memory)
        self._pending.append(_Pending(step.step, values, bool(step.flag & DEVICE_FLAG), now))
        # Those of the steps to come stay: an agent writes them before the record of their step.
        self._memory = {key: one for key, one in self._memory.items() if key[1] > step.step}
        while self._intervals and self._intervals[0][0].end <= end:
            self._intervals.popleft()

    def _release(self, now: int, hold: int = DEVICE_HOLD_NS) -> list[list[int | str]]:
        """Rows of the oldest pending steps that need not wait any longer, in order."""
        rows = []
        # The training learns the times in the order of the steps.
        newest = max(self._device, default=UNKNOWN)
        while self._pending:
            pending = self._pending[0]
            is_late = newest > pending.step or now - pending.since >= hold
            device = self._device.get(pending.step)
            if pending.awaits_device and device is None and not is_late:
                break
            self._pending.popleft()
            rows.append(_row(pending.values, device))
            self._device = {at: one for at, one in self._device.items() if at > pending.step}
        return rows


def _fewest_ready(step: Record, inside: Sequence[tuple[Interval, int]]) -> int:
    """The emptiest the loader's queue was at a fetch of this step, -1 where it was never known."""
    known = [
        ready
        for interval, ready in inside
        if interval.kind == "input_wait" and interval.start >= step.start and ready >= 0
    ]
    return min(known, default=UNKNOWN)


def _kind(flag: int) -> str:
    if flag & INFER_FLAG:
        return "infer"
    return "eval" if flag & EVAL_FLAG else "train"


_MEMORY = frozenset(("memory", "memory_peak", "memory_trouble"))


def _values(
    step: Record,
    phases: dict[str, int],
    ready: int,
    fetch_cpu: int,
    memory: dict[tuple[str, int], Record],
) -> Values:
    at_end = memory.get(("memory", step.step))
    trouble = memory.get(("memory_trouble", step.step))
    no_trouble = 0 if at_end else UNKNOWN
    peak = memory.get(("memory_peak", step.step))
    return {
        "index": step.step,
        "kind": _kind(step.flag),
        "start": step.start,
        "duration": step.duration,
        **phases,
        "micro_batches": step.value,
        "profiled": int(bool(step.flag & PROFILED_FLAG)),
        "overhead": step.extra,
        "batches_ready": ready,
        "allocated": at_end.value if at_end else UNKNOWN,
        "reserved": at_end.extra if at_end else UNKNOWN,
        "peak_allocated": peak.value if peak else UNKNOWN,
        "input_cpu": fetch_cpu,
        "alloc_retries": trouble.value if trouble else no_trouble,
        "alloc_failures": trouble.extra if trouble else no_trouble,
    }


def _row(step: Values, device: Record | None) -> list[int | str]:
    values = {
        **step,
        "device_forward": device.duration if device else UNKNOWN,
        "device_backward": device.value if device else UNKNOWN,
        "device_optimizer": device.extra if device else UNKNOWN,
    }
    return [values[column.name] for column in STEP_COLUMNS]
