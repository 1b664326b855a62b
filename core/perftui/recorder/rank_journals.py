"""The journals of one training process, and the steps assembled from its records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from perftui.recorder.sink import DownsamplingSink, FaultLog, JournalSink, stack_journal
from perftui.recorder.spool import Note, Record
from perftui.recorder.windows import (
    SpoolFileError,
    count_kernels,
    keep_file,
    limit_windows,
    problem_of,
    take_samples,
)
from perftui.run.columns import EVENT_COLUMNS, MEMORY_SNAPSHOT, PHASES, STACK_COLUMNS, STEP_COLUMNS
from perftui.run.layout import RankLayout
from perftui.telemetry.files import mount_of
from perftui.wire.ring import DEVICE_FLAG, EVAL_FLAG, INFER_FLAG, PROFILED_FLAG
from perftui.wire.spool import Spool

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
    shorter one, of equal intervals to the one that finished first. Uncovered time is ``other``.
    """
    numbered = [(i.start, -i.end, -n, i.kind) for n, i in enumerate(intervals) if i.end > i.start]
    clipped = [
        (min(max(begin, start), end), min(max(-negative, start), end), kind)
        for begin, negative, _, kind in sorted(numbered)
    ]
    edges = sorted({start, end, *(edge for span in clipped for edge in span[:2])})
    at = {edge: number for number, edge in enumerate(edges)}
    kinds = [OTHER] * (len(edges) - 1)
    # The last to be written is the one that began last.
    for begin, stop, kind in clipped:
        kinds[at[begin] : at[stop]] = [kind] * (at[stop] - at[begin])
    totals = dict.fromkeys(PHASES, 0)
    for kind, (low, high) in zip(kinds, pairwise(edges), strict=True):
        totals[kind] += high - low
    return totals


HOLD_NS = 1_000_000_000
"""How long a step waits for records that finish after it (an interval that spans its end, the
memory at its end). The next step ends the wait: only the last step of a stalled run waits long."""

DEVICE_HOLD_NS = 10_000_000_000
"""How long a step waits for its phases' times on the GPU, which the training usually learns in the
step after."""

MAX_INTERVALS = 100_000
"""Intervals kept while no step ends; a loop that never trains must not fill the memory."""

UNKNOWN = -1


class _Pending(NamedTuple):
    """A step that is complete except for its times on the GPU."""

    step: Record
    phases: dict[str, int]
    ready: int
    """The shortest that the loader's queue was at a fetch of this step."""
    since: int


_BESIDE = ("memory", "memory_peak", "memory_trouble", "input_cpu", "device_phases")
"""Kinds of records that name the step that they belong to."""

Beside = dict[str, Record]
"""Such records of one step, by kind."""


class StepAssembler:
    """Collects intervals until their step is complete.

    ``dropped`` counts intervals forgotten because no step ended for too long; the phases of the
    next step then miss them.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._intervals: deque[tuple[Interval, int]] = deque()
        self._beside: dict[int, Beside] = {}
        """By number of the step."""
        self._waiting: Record | None = None
        self._waits_since = 0
        self._pending: deque[_Pending] = deque()

    def add(self, record: Record, now: int) -> list[list[int | str]]:
        """Take one record, in ring order; returns rows of steps it completes.

        ``now`` is any clock in ns, the same as for ``expire``.
        """
        if record.kind == "step":
            self._complete(now)
            self._waiting, self._waits_since = record, now
            return self._release(now)
        if record.kind in PHASES and record.kind != OTHER:
            self._keep(record)
        elif record.kind in _BESIDE:
            beside = self._beside.setdefault(record.step, {})
            if record.kind == "input_cpu" and record.kind in beside:
                # A step may fetch several batches.
                record = record._replace(value=record.value + beside[record.kind].value)
            beside[record.kind] = record
        return self._release(now) if record.kind == "device_phases" else []

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
        inside = [entry for entry in self._intervals if entry[0].start < end]
        phases = exclusive_times(step.start, end, [interval for interval, _ in inside])
        queued = (
            ready
            for interval, ready in inside
            if interval.kind == "input_wait" and interval.start >= step.start and ready >= 0
        )
        self._pending.append(_Pending(step, phases, min(queued, default=UNKNOWN), now))
        while self._intervals and self._intervals[0][0].end <= end:
            self._intervals.popleft()

    def _release(self, now: int, hold: int = DEVICE_HOLD_NS) -> list[list[int | str]]:
        """Rows of the oldest pending steps that need not wait any longer, in order."""
        rows = []
        # The training learns the times in the order of steps.
        timed = (at for at, beside in self._beside.items() if "device_phases" in beside)
        newest = max(timed, default=UNKNOWN)
        while self._pending:
            pending = self._pending[0]
            number, beside = pending.step.step, self._beside.get(pending.step.step, {})
            is_late = newest > number or now - pending.since >= hold
            if pending.step.flag & DEVICE_FLAG and "device_phases" not in beside and not is_late:
                break
            rows.append(_row(self._pending.popleft(), beside))
            # Entries of later steps stay: an agent writes them before the record of their step.
            self._beside = {at: other for at, other in self._beside.items() if at > number}
        return rows


def _row(pending: _Pending, beside: Beside) -> list[int | str]:
    step = pending.step
    memory, peak, trouble, fetched, device = (beside.get(kind) for kind in _BESIDE)
    no_trouble = 0 if memory else UNKNOWN
    values = {
        "index": step.step,
        "kind": "infer" if step.flag & INFER_FLAG else "eval" if step.flag & EVAL_FLAG else "train",
        "start": step.start,
        "duration": step.duration,
        **pending.phases,
        "micro_batches": step.value,
        "profiled": int(bool(step.flag & PROFILED_FLAG)),
        "overhead": step.extra,
        "batches_ready": pending.ready,
        "allocated": memory.value if memory else UNKNOWN,
        "reserved": memory.extra if memory else UNKNOWN,
        "peak_allocated": peak.value if peak else UNKNOWN,
        "input_cpu": fetched.value if fetched else UNKNOWN,
        "alloc_retries": trouble.value if trouble else no_trouble,
        "alloc_failures": trouble.extra if trouble else no_trouble,
        "device_forward": device.duration if device else UNKNOWN,
        "device_backward": device.value if device else UNKNOWN,
        "device_optimizer": device.extra if device else UNKNOWN,
    }
    return [values[column.name] for column in STEP_COLUMNS]


ONE_BY_ONE = 1000
"""Pauses that get a row each; later only sums matter."""

SHARED_ROW_NS = 300_000_000_000
"""Later ones share a row for each generation and five minutes: 1 MB in a week at most."""


class Pauses:
    """Turns records of pauses into rows; the sum of their durations is exact.

    A row for several pauses begins when the first did, and holds their ``count``.
    """

    def __init__(self) -> None:
        self._written = 0
        self._shared: dict[int, list[Any]] = {}

    def rows(self, records: Iterable[Record]) -> list[list[Any]]:
        """The rows that ``records`` complete; records of other kinds are skipped."""
        done: list[list[Any]] = []
        for record in records:
            if record.kind != "gc":
                continue
            data = {"generation": record.value}
            row = [record.start, "gc", record.duration, record.step, data]
            shared = self._shared.get(record.value)
            if self._written < ONE_BY_ONE:
                self._written += 1
                done.append(row)
            elif shared is not None and record.start - shared[0] < SHARED_ROW_NS:
                shared[2] += record.duration
                shared[4]["count"] += 1
            else:
                data["count"] = 1
                self._shared[record.value] = row
                done += [] if shared is None else [shared]
        return done

    def rest(self) -> list[list[Any]]:
        """Rows of pauses that still wait for others to share their row."""
        done, self._shared = list(self._shared.values()), {}
        return done


WINDOW = "window"
"""Kind of the notes that name the file of a window."""


class RankJournals:
    """Writes the reports of one process into the directory of its rank."""

    def __init__(self, layout: RankLayout, spool: Spool, faults: FaultLog) -> None:
        self.layout = layout
        self._spool = spool
        self._faults = faults
        self._steps = DownsamplingSink(layout.steps, STEP_COLUMNS, faults)
        self._events = JournalSink(layout.events, EVENT_COLUMNS, faults)
        self._samples = stack_journal(layout.window_stacks, STACK_COLUMNS, faults)
        self._assembler = StepAssembler()
        self._pauses = Pauses()
        self.last_end = 0
        """When the latest of its records ended, wall clock in ns."""
        self._missed = self._missed_reported = 0
        self._warned: set[str] = set()

    def records(self, records: Sequence[Record]) -> None:
        """Write the steps that ``records`` complete, and the pauses among them."""
        now = time.monotonic_ns()
        ends = (record.start + record.duration for record in records)
        self.last_end = max(ends, default=self.last_end)
        rows = [row for record in records for row in self._assembler.add(record, now)]
        rows += self._assembler.expire(now)
        self._steps.append(rows)
        self._events.append(self._pauses.rows(records))
        if self._assembler.dropped:
            self.warn(
                f"no step ended for {MAX_INTERVALS:,} intervals; "
                "the next one shows less than it did"
            )

    def notes(self, notes: Sequence[Note]) -> None:
        """Write ``notes``, and move the windows that they name.

        A note that only names the processes of a loader is not written: rows of workers name it,
        too, and loaders that start their workers anew note it with each epoch.
        """
        self._events.append(
            [
                self._row(note)
                for note in notes
                if note.kind != "loader" or note.data.keys() != {"id", "workers"}
            ]
        )

    def warn(self, message: str) -> None:
        """Write a warning once."""
        if message not in self._warned:
            self._warned.add(message)
            self._events.append([[time.time_ns(), "warning", 0, -1, {"message": message}]])

    def missed(self, count: int) -> None:
        """``count`` records were overwritten before they were read: the disk or the machine hung.

        Reported at the first, whenever they have doubled, and at the end.
        """
        self._missed += count
        if self._missed > 2 * self._missed_reported:
            self._report_missed()

    def follow(self, rank: int) -> None:
        """The process claims ``rank``, as did an earlier one that had ended."""
        self._events.append([[time.time_ns(), "follows", 0, -1, {"rank": rank}]])

    def begin_anew(self) -> None:
        """The process has replaced itself; its steps count from 0 again."""
        self._write_waiting()
        self._assembler = StepAssembler()
        self.warn("the process replaced itself (exec); steps are counted from 0 again")

    def finish(self) -> None:
        """Write everything that waits, report losses, and close."""
        self._write_waiting()
        if self._missed > self._missed_reported:
            self._report_missed()
        self._events.append(self._pauses.rest())
        lost = self._steps.lost + self._events.lost + self._samples.lost
        if lost:
            self.warn(f"{lost} journal rows could not be written")
        self._steps.close()
        self._events.close()
        self._samples.close()

    def _report_missed(self) -> None:
        self._missed_reported = self._missed
        self.warn(
            f"{self._missed} records of the training were lost: the recorder stalled for longer "
            "than the ring keeps them; steps are missing"
        )

    def _write_waiting(self) -> None:
        self._steps.append(self._assembler.expire(time.monotonic_ns(), hold=0))

    def _row(self, note: Note) -> list[Any]:
        data = note.data
        if note.kind == "loader" and "path" in data and "filesystem" not in data:
            mount = mount_of(Path(data["path"]))
            if mount is not None:
                data = {**data, "mount": mount.point, "filesystem": mount.kind}
        if note.kind in (MEMORY_SNAPSHOT, WINDOW):
            try:
                path = keep_file(self._spool, note, self.layout)
            except SpoolFileError as error:
                return [note.time, "warning", 0, note.step, {**data, "message": str(error)}]
            data = {**data, "file": str(path.relative_to(self.layout.root))}
        if note.kind == WINDOW:
            if data.get("cuda"):
                self._report_missing_kernels(path)
            try:
                limit_windows(self.layout)
            except OSError as error:
                self._faults.report("windows", f"{error}; older ones are kept")
            if "stack_samples" in data:
                try:
                    self._samples.append(take_samples(self._spool, data.pop("stack_samples")))
                except SpoolFileError as error:
                    self.warn(str(error))
        return [note.time, note.kind, note.duration, note.step, data]

    def _report_missing_kernels(self, window: Path) -> None:
        try:
            problem = problem_of(*count_kernels(window))
        except OSError as error:
            self._faults.report("windows", f"{error}; its kernels were not counted")
            return
        if problem is not None:
            self.warn(problem)
