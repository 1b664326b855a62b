"""Turns the records of one training thread into rows of the step journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from perftui.recorder.phases import OTHER, Interval, exclusive_times
from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.run.ring import EVAL_FLAG, INFER_FLAG, PROFILED_FLAG, Record

HOLD_NS = 1_000_000_000
"""How long a step waits for records that finish after it (an interval that spans its end, the
memory at its end). The next step ends the wait: only the last step of a stalled run waits long."""

MAX_INTERVALS = 100_000
"""Intervals kept while no step ends; a loop that never trains must not fill the memory."""

UNKNOWN = -1

_PARTS = frozenset(PHASES) - {OTHER}


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

    def add(self, record: Record, now: int) -> list[list[int | str]]:
        """Take one record, in ring order; returns rows of steps it completes.

        ``now`` is any clock in ns, the same as for ``expire``.
        """
        if record.kind == "step":
            rows = self._complete()
            self._waiting, self._waits_since = record, now
            return rows
        if record.kind in _PARTS:
            self._keep(record)
        elif record.kind in ("memory", "memory_peak"):
            self._memory[record.kind, record.step] = record
        elif record.kind == "input_cpu":
            self._fetch_cpu[record.step] = self._fetch_cpu.get(record.step, 0) + record.value
        return []

    def expire(self, now: int, hold: int = HOLD_NS) -> list[list[int | str]]:
        """Complete the step that has waited for ``hold`` ns; 0 at the end of the run."""
        if self._waiting is None or now - self._waits_since < hold:
            return []
        return self._complete()

    def _keep(self, record: Record) -> None:
        if len(self._intervals) >= MAX_INTERVALS:
            self._intervals.popleft()
            self.dropped += 1
        interval = Interval(record.start, record.start + record.duration, record.kind)
        self._intervals.append((interval, record.value))

    def _complete(self) -> list[list[int | str]]:
        step, self._waiting = self._waiting, None
        if step is None:
            return []
        end = step.start + step.duration
        inside = [kept for kept in self._intervals if kept[0].start < end]
        phases = exclusive_times(step.start, end, [interval for interval, _ in inside])
        fetch_cpu = self._fetch_cpu.get(step.step, UNKNOWN)
        self._fetch_cpu = {at: cpu for at, cpu in self._fetch_cpu.items() if at > step.step}
        row = _row(step, phases, _fewest_ready(step, inside), fetch_cpu, self._memory)
        # Those of the steps to come stay: an agent writes them before the record of their step.
        self._memory = {key: one for key, one in self._memory.items() if key[1] > step.step}
        while self._intervals and self._intervals[0][0].end <= end:
            self._intervals.popleft()
        return [row]


def _fewest_ready(step: Record, inside: Sequence[tuple[Interval, int]]) -> int:
    """The emptiest the loader's queue was at a fetch of this step, -1 where no fetch could tell."""
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


def _row(
    step: Record,
    phases: dict[str, int],
    ready: int,
    fetch_cpu: int,
    memory: dict[tuple[str, int], Record],
) -> list[int | str]:
    at_end = memory.get(("memory", step.step))
    peak = memory.get(("memory_peak", step.step))
    values: dict[str, int | str] = {
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
    }
    return [values[column.name] for column in STEP_COLUMNS]
