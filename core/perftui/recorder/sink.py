"""Journals that survive a full disk, and stay small however long the run lasts.

Rows that cannot be written are counted, not raised, and each cause is reported once;
``run.journal_table`` explains the segments.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from perftui.run.files import replace_file
from perftui.run.journal import Column, JournalWriter
from perftui.run.journal_table import Downsampled, Segments
from perftui.run.manifest import Manifest, overwrite_manifest, write_manifest
from perftui.run.table import Aggregates, GrowingTable, aggregates_of


class FaultLog:
    """Appends lines to ``recorder.log``, or to stderr if even that fails.

    Safe to call from every thread. A ``subject`` is written once.
    """

    def __init__(self, path: Path) -> None:
        self._reported: set[str] = set()
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file: int | None = os.open(path, flags, 0o600)
        except OSError:
            self._file = None

    def report(self, subject: str, problem: object) -> bool:
        """Write ``subject: problem`` unless the subject was reported before; True if it was new."""
        with self._lock:
            if subject in self._reported:
                return False
            self._reported.add(subject)
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._write(f"{stamp} {subject}: {problem}\n".encode("utf-8", "replace"))
        return True

    def _write(self, line: bytes) -> None:
        try:
            if self._file is not None:
                os.write(self._file, line)
                return
        except OSError:
            # A full disk: this very line could not be written.
            self._file = None
        sys.stderr.write(f"perftui: {line.decode()}")


NICENESS = 10
"""Niceness of the threads that drain and sample. The ones that carry the script's output keep the
script's own priority, since it waits for them when a pipe is full."""


class Repeating:
    """Calls ``work`` every ``seconds`` until stopped; errors are reported and it goes on."""

    def __init__(
        self, name: str, seconds: float, work: Callable[[], object], faults: FaultLog
    ) -> None:
        self.name = name
        self._seconds = seconds
        self._work = work
        self._faults = faults
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, patience: float | None = None) -> bool:
        """Let the current turn end, and begin no other.

        Waits for the turn, at most ``patience`` seconds; returns whether it has ended.
        """
        self._stopped.set()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        # Only Linux can lower the priority of this thread alone. A lower priority stays as it is:
        # raising it takes a privilege.
        if sys.platform == "linux":
            thread = threading.get_native_id()
            with suppress(OSError):
                if os.getpriority(os.PRIO_PROCESS, thread) < NICENESS:
                    os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - a bug here must not end the recording
                self._faults.report(f"{self.name}: {type(error).__name__}", error)
            # Missed turns are left out, not caught up with.
            due = max(due + self._seconds, time.monotonic())


SEGMENT_BYTES = 8 * 1024 * 1024
"""Size of a segment: some 80,000 steps or two hours of samples. With the first, those kept and
the one being written, a journal takes four times that."""

STACK_SEGMENT_BYTES = 2 * 1024 * 1024
"""Size of a segment of stacks: half an hour of ten samples a second, each at a new place."""

KEPT_SEGMENTS = 2
"""Complete segments besides the first that are kept row by row."""

ROWS_AT_ONCE = 4096
"""Rows that are aggregated at a time, which takes some hundreds of microseconds."""


class JournalSink:
    """Appends rows to the journal at ``path``, opened with the first of them.

    ``lost`` counts the rows that could not be written; each append tries anew, so that a journal
    goes on once there is space again. ``makes_directory`` is as for a ``JournalWriter``.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[Column],
        faults: FaultLog,
        *,
        makes_directory: bool = True,
    ) -> None:
        self.lost = 0
        self._path = path
        self._columns = tuple(columns)
        self._faults = faults
        self._makes_directory = makes_directory
        self._journal: JournalWriter | None = None

    def append(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Append ``rows`` or count them as lost; whether any were written."""
        if not rows:
            return False
        try:
            if self._journal is None:
                self._journal = JournalWriter(
                    self._path, self._columns, makes_directory=self._makes_directory
                )
            self._journal.append(rows)
        except (OSError, ValueError) as error:
            self.lost += len(rows)
            name = f"{self._path.parent.name}/{self._path.name}"
            self._faults.report(name, f"{error}; rows are lost, the training goes on")
            return False
        return True

    def close(self) -> None:
        """Close the journal if it was ever opened."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


class DownsamplingSink(JournalSink):
    """A journal in segments, whose old ones are replaced by their aggregates.

    ``floats`` is as for a ``GrowingTable``, ``makes_directory`` as for the ``JournalWriter`` of the
    first segment. A segment ends after a step that was not profiled, so that it can be aggregated
    without the one before.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[Column],
        faults: FaultLog,
        *,
        floats: bool = False,
        segment_bytes: int | None = None,
        makes_directory: bool = True,
    ) -> None:
        super().__init__(path, columns, faults, makes_directory=makes_directory)
        self._floats = floats
        self._segment_bytes = segment_bytes or SEGMENT_BYTES
        self._segments = Segments(path)
        self._number = 0
        self._rows = self._no_rows()
        self._sums: deque[Aggregates] = deque()
        """Of the segments after the first, the last of which is being written."""
        self._downsampled = Downsampled()
        names = [column.name for column in columns]
        self._profiled = names.index("profiled") if "profiled" in names else None

    def append(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Append ``rows`` or count them as lost; whether any were written."""
        if not super().append(rows):
            return False
        may_end = self._profiled is None or not rows[-1][self._profiled]
        # The first segment is never removed, and so not aggregated.
        if self._number:
            self._rows.extend(rows)
            if len(self._rows) >= ROWS_AT_ONCE and may_end:
                self._aggregate()
        if may_end and self._size() >= self._segment_bytes:
            self._begin_next()
        return True

    def _size(self) -> int:
        """Bytes of the segment so far, 0 if they cannot be read."""
        try:
            return 0 if self._journal is None else self._journal.size
        except OSError as error:
            self._faults.report(self._path.name, error)
            return 0

    def _no_rows(self) -> GrowingTable:
        return GrowingTable(self._columns, self._floats)

    def _aggregate(self) -> None:
        self._sums[-1] = self._sums[-1].plus(aggregates_of(self._rows.freeze()))
        self._rows = self._no_rows()

    def _begin_next(self) -> None:
        if self._number:
            self._aggregate()
        self._sums.append(Aggregates())
        self.close()
        self._number += 1
        self._path, self._makes_directory = self._segments.path(self._number), True
        try:
            while len(self._sums) > KEPT_SEGMENTS + 1:
                oldest = self._downsampled.segments + 1
                downsampled = Downsampled(oldest, self._downsampled.sums.plus(self._sums[0]))
                replace_file(self._segments.sums, msgspec.json.encode(downsampled))
                self._downsampled = downsampled
                self._sums.popleft()
                self._segments.path(oldest).unlink(missing_ok=True)
        except OSError as error:
            self._faults.report(self._segments.root.name, f"{error}; will retry later")


def stack_journal(path: Path, columns: Sequence[Column], faults: FaultLog) -> DownsamplingSink:
    """The journal of stacks at ``path``, opened with its first row."""
    return DownsamplingSink(path, columns, faults, segment_bytes=STACK_SEGMENT_BYTES)


class LiveManifest:
    """Holds the manifest at ``path``; safe to change from every thread."""

    def __init__(self, path: Path, manifest: Manifest, faults: FaultLog) -> None:
        self._path = path
        self.current = manifest
        """The manifest as it was last changed."""
        self._faults = faults
        self._lock = threading.RLock()

    def update(self, **changes: Any) -> None:
        """Change fields and write; a failed write is reported, the next includes its changes."""
        with self._lock:
            self.current = replace(self.current, **changes)
            try:
                write_manifest(self._path, self.current)
            except OSError as error:
                self._faults.report(self._path.name, error)
                # The end of the training matters more than that readers never see half a manifest.
                try:
                    overwrite_manifest(self._path, self.current)
                except OSError as again:
                    self._faults.report(f"{self._path.name} in place", again)

    def note(self, name: str, fact: Any) -> None:
        """Add a fact to ``profile``."""
        with self._lock:
            self.update(profile={**self.current.profile, name: fact})
