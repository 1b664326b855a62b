"""The journals of one training process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perftui.recorder.faults import FaultLog
from perftui.recorder.journals.sink import DownsamplingSink, JournalSink, stack_journal
from perftui.recorder.journals.steps import MAX_INTERVALS, StepAssembler
from perftui.recorder.spool.directory import Note
from perftui.recorder.spool.ring import Record
from perftui.recorder.spool.windows import (
    SpoolFileError,
    count_kernels,
    keep_snapshot,
    keep_window,
    limit_windows,
    take_samples,
)
from perftui.run.columns import EVENT_COLUMNS, MEMORY_SNAPSHOT, STEP_COLUMNS, STEP_TEXT
from perftui.run.layout import RankLayout
from perftui.run.stack_samples import STACK_COLUMNS
from perftui.wire.spool import Spool

ONE_BY_ONE = 1000
"""Pauses that get a row each; of a long run only sums are asked for."""

SHARED_ROW_NS = 300_000_000_000
"""Later ones share a row for each generation and five minutes: 1 MB in a week at most."""


class Pauses:
    """Turns records of pauses into rows; the sum of their durations is exact.

    A row that stands for several begins when the first of them did, and holds their ``count``.
    """

    def __init__(self) -> None:
        self._written = 0
        self._shared: dict[int, list[Any]] = {}

    def rows(self, records: Iterable[Record]) -> list[list[Any]]:
        """The rows that ``records`` complete; those of other kinds are passed over."""
        done = []
        for record in records:
            if record.kind != "gc":
                continue
            data = {"generation": record.value}
            row = [record.start, "gc", record.duration, record.step, data]
            if self._written < ONE_BY_ONE:
                self._written += 1
                done.append(row)
            else:
                done += self._add(record, row)
        return done

    def rest(self) -> list[list[Any]]:
        """What still waits for others to share its row."""
        done, self._shared = list(self._shared.values()), {}
        return done

    def _add(self, record: Record, row: list[Any]) -> list[list[Any]]:
        shared = self._shared.get(record.value)
        if shared is not None and record.start - shared[0] < SHARED_ROW_NS:
            shared[2] += record.duration
            shared[4]["count"] += 1
            return []
        row[4]["count"] = 1
        self._shared[record.value] = row
        return [] if shared is None else [shared]


WINDOW = "window"
"""Kind of the notes that name the file of a window."""


class RankJournals:
    """Writes what one process reported into the directory of its rank."""

    def __init__(self, layout: RankLayout, spool: Spool, faults: FaultLog) -> None:
        self.layout = layout
        self._spool = spool
        self._faults = faults
        self._steps = DownsamplingSink(layout.steps, STEP_COLUMNS, faults, text=STEP_TEXT)
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
        """Write ``notes``, moving the windows that they name."""
        self._events.append([self._row(note) for note in notes if not _is_for_recorder(note)])

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
        """The process calls itself ``rank`` as one before it did, which had ended."""
        self._events.append([[time.time_ns(), "follows", 0, -1, {"rank": rank}]])

    def begin_anew(self) -> None:
        """The process has replaced itself; what comes counts its steps from 0 again."""
        self._write_waiting()
        self._assembler = StepAssembler()
        self.warn("the process replaced itself (exec); steps are counted from 0 again")

    def finish(self) -> None:
        """Write what was still waiting, report what was lost, and close."""
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
        if note.kind in (MEMORY_SNAPSHOT, WINDOW):
            keep = keep_window if note.kind == WINDOW else keep_snapshot
            try:
                kept = keep(self._spool, note, self.layout)
            except SpoolFileError as error:
                return [note.time, "warning", 0, note.step, {**data, "message": str(error)}]
            data = {**data, "file": str(kept.relative_to(self.layout.root))}
        if note.kind == WINDOW:
            if data.get("cuda"):
                self._report_missing_kernels(kept)
            self._limit_windows()
            if "stack_samples" in data:
                self._keep_samples(data.pop("stack_samples"))
        return [note.time, note.kind, note.duration, note.step, data]

    def _keep_samples(self, name: Any) -> None:
        try:
            self._samples.append(take_samples(self._spool, name))
        except SpoolFileError as error:
            self.warn(str(error))

    def _report_missing_kernels(self, window: Path) -> None:
        try:
            problem = count_kernels(window).problem
        except OSError as error:
            self._faults.report("windows", f"{error}; its kernels were not counted")
            return
        if problem is not None:
            self.warn(problem)

    def _limit_windows(self) -> None:
        try:
            limit_windows(self.layout)
        except OSError as error:
            self._faults.report("windows", f"{error}; older ones are kept")


def _is_for_recorder(note: Note) -> bool:
    """Whether ``note`` only names the processes that serve a loader: rows of workers name it, too,
    and loaders that start their workers anew note it with each epoch."""
    return note.kind == "loader" and note.data.keys() == {"id", "workers"}
