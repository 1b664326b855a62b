"""Follows the pages of all processes that make batches for one training process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from perftui.recorder.sink import DownsamplingSink, FaultLog
from perftui.recorder.spool import Note
from perftui.run.columns import WORKER_COLUMNS
from perftui.run.files import DAMAGE
from perftui.run.manifest import is_alive
from perftui.wire.spool import Spool
from perftui.wire.worker_page import (
    COLLATE,
    ENDED,
    FETCH,
    IDLE,
    PAGE,
    RECORD,
    RECORD_OFFSET,
    VERSION,
)

PROC = Path("/proc")

TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ProcessUse(NamedTuple):
    """Counters of one process, in the order of the last columns of ``WORKER_COLUMNS``."""

    cpu: int
    """CPU time of the process's main thread, ns."""
    delayed: int
    """Time in which that thread waited for a core, ns."""
    others: int
    """CPU time of the process's other threads, ns."""
    threads: int
    """Number of threads now."""
    read: int
    """Bytes from storage."""
    asked: int
    """Bytes from storage or from memory."""
    reads: int
    """Read calls."""
    faults: int
    """Major page faults."""


def process_use(pid: int, root: Path = PROC) -> ProcessUse | None:
    """The counters now; None if the process has ended, or the kernel lacks them."""
    directory = root / str(pid)
    try:
        cpu, delayed, _ = map(int, (directory / "schedstat").read_text().split())
        # The name of the process stands in parentheses and may hold anything.
        fields = (directory / "stat").read_text().rpartition(")")[2].split()
        counters = dict(line.split(": ") for line in (directory / "io").read_text().splitlines())
        faults, used, threads = int(fields[9]), int(fields[11]) + int(fields[12]), int(fields[17])
        read, chars, reads = (int(counters[name]) for name in ("read_bytes", "rchar", "syscr"))
    except (OSError, ValueError, IndexError, KeyError):
        return None
    return ProcessUse(cpu, delayed, max(used * TICK - cpu, 0), threads, read, chars, reads, faults)


TRIES = 4
"""Attempts to copy a record that is being stored, until two copies in a row agree."""


class PageHeader(msgspec.Struct, frozen=True):
    """The process's description of itself."""

    version: int
    pid: int
    owner: int
    worker: int
    """The worker's number in the loader; -1 where the training itself fetches."""
    loader: int
    """The loader's number, as in ``loader`` notes; -1 in a worker, which does not know it."""
    wall_ns: int
    monotonic_ns: int
    """``time.time_ns()`` and ``time.perf_counter_ns()`` when the page was begun."""


class WorkerCounts(NamedTuple):
    """Work of a worker since its page was begun; times in ns."""

    batches: int = 0
    sized: int = 0
    """Batches whose bytes are known."""
    bytes: int = 0
    """Bytes of the batches in ``sized``."""
    fetch: int = 0
    collate: int = 0
    squares: int = 0
    """Sum of the squares of the batches' times, us."""
    stage: int = IDLE
    since: int = 0
    """Start of the stage, by ``time.perf_counter_ns()``."""

    def until(self, now: int) -> WorkerCounts:
        """With the times of the unfinished batch; ``now`` on the clock of ``since``."""
        going_on = max(now - self.since, 0)
        fetching, collating = self.stage == FETCH, self.stage == COLLATE
        fetch, collate = self.fetch + fetching * going_on, self.collate + collating * going_on
        return self._replace(fetch=fetch, collate=collate)


class PageError(ValueError):
    """The file is not a page that this version can read."""


class WorkerPageReader:
    """One page, open while it is followed.

    Raises:
        PageError: the file is no page.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.pread(self._file, PAGE, 0).split(b"\0", 1)[0]
            self.header = msgspec.json.decode(text, type=PageHeader)
            if self.header.version != VERSION:
                raise PageError(f"{path}: a page of another version ({self.header.version})")
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, DAMAGE):
                raise PageError(f"{path}: {error}") from error
            raise

    def read(self) -> WorkerCounts | None:
        """The counts now; None if they changed during every read."""
        before = b""
        for _ in range(TRIES):
            copy = os.pread(self._file, RECORD.size, RECORD_OFFSET)
            if copy == before and len(copy) == RECORD.size:
                number, *values, again = RECORD.unpack(copy)
                return WorkerCounts(*values) if number == again else None
            before = copy
        return None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


SHORTEST = 1_000_000_000
LONGEST = 10_000_000_000
"""Ns between two rows of a worker: one a second while somebody is likely to look, ten times fewer
in a run of a day, which keeps hours of newest rows."""

SLOWER_BY = 120
"""The time between rows is this part of the time so far."""

PATIENCE = 30_000_000_000
"""How long a worker's counts wait, ns, for the note that names the loader it serves: a loader that
spawns many workers writes it long after the first has begun."""

UNKNOWN = -1


@dataclass
class _Page:
    """A page and what was last written of it."""

    reader: WorkerPageReader
    loader: int
    at: int
    """When the last row was written, by ``perf_counter_ns``."""
    written: WorkerCounts
    use: ProcessUse | None = None
    """Counters of the process when the last row was written; None before any."""

    def used(self, elapsed: int, making: int) -> list[int]:
        """Use by the process in the ``elapsed`` ns since the last row, in which it made batches for
        ``making`` ns, by ``WORKER_COLUMNS`` from ``watched`` on."""
        header, before = self.reader.header, self.use
        self.use = now = process_use(header.pid)
        if before is None or now is None:
            return [0] * (len(ProcessUse._fields) + 1)
        changes = (new - old for new, old in zip(now, before, strict=True))
        use = ProcessUse(*changes)._replace(threads=now.threads * elapsed)
        return [making, *(max(change, 0) for change in use)]


class LoaderWorkers:
    """The pages that belong to the training process ``owner``.

    A page is removed from the spool once its process has ended: epochs start workers anew.
    """

    def __init__(self, spool: Spool, owner: int, path: Path, faults: FaultLog) -> None:
        self._spool = spool
        self._owner = owner
        self._faults = faults
        self._journal = DownsamplingSink(path, WORKER_COLUMNS, faults)
        self._pages: dict[Path, _Page] = {}
        self._refused: set[Path] = set()
        self._loaders: dict[int, int] = {}
        self._start = self._due = time.perf_counter_ns()

    def notes(self, notes: Sequence[Note]) -> None:
        """Learn from the ``loader`` notes which process serves which loader."""
        for note in notes:
            number, pids = note.data.get("id"), note.data.get("workers")
            if note.kind == "loader" and isinstance(number, int) and isinstance(pids, list):
                self._loaders.update(dict.fromkeys(pids, number))
        for page in self._pages.values():
            self._learn(page)

    def serving(self) -> dict[int, int]:
        """Loader number of each worker process, if known. Any thread may ask."""
        pages = list(self._pages.values())
        served = ((page.reader.header, page.loader) for page in pages if page.loader != UNKNOWN)
        return {header.pid: loader for header, loader in served if header.worker >= 0}

    def poll(self) -> None:
        """Write the new counts of pages that are due."""
        now = time.perf_counter_ns()
        if now >= self._due:
            self._due = now + min(max((now - self._start) // SLOWER_BY, SHORTEST), LONGEST)
            self._look(now, is_last=False)

    def finish(self) -> int:
        """Write the rest and close; returns how many rows could not be written."""
        self._look(time.perf_counter_ns(), is_last=True)
        for page in self._pages.values():
            page.reader.close()
        self._pages.clear()
        self._journal.close()
        return self._journal.lost

    def _look(self, now: int, is_last: bool) -> None:
        self._find()
        rows = []
        for path, page in list(self._pages.items()):
            # Checked before the counts are read: those of an ended process are complete.
            header = page.reader.header
            has_ended = is_last or not is_alive(header.pid, (header.wall_ns + SHORTEST) / 1e9)
            counts = page.reader.read()
            has_ended |= counts is not None and counts.stage == ENDED
            is_known = page.loader != UNKNOWN or now - page.at > PATIENCE or has_ended
            if counts and is_known and (row := _row(page, counts, now, has_ended)):
                rows.append(row)
            if has_ended:
                self._forget(path, page)
        self._journal.append(rows)

    def _find(self) -> None:
        for path in self._spool.worker_pages(self._owner):
            if path in self._pages or path in self._refused:
                continue
            try:
                reader = WorkerPageReader(path)
            except (PageError, OSError) as error:
                self._refused.add(path)
                self._faults.report(path.name, error)
                continue
            header = reader.header
            page = _Page(reader, header.loader, header.monotonic_ns, WorkerCounts())
            self._learn(page)
            self._pages[path] = page

    def _learn(self, page: _Page) -> None:
        if page.loader == UNKNOWN:
            page.loader = self._loaders.get(page.reader.header.pid, UNKNOWN)

    def _forget(self, path: Path, page: _Page) -> None:
        page.reader.close()
        del self._pages[path]
        self._loaders.pop(page.reader.header.pid, None)
        with suppress(FileNotFoundError):
            path.unlink()


def _row(page: _Page, counts: WorkerCounts, now: int, has_ended: bool) -> list[int] | None:
    """A row of ``WORKER_COLUMNS`` for new counts, None if there are none.

    For an ended process time counts up to its last batch: nobody knows when it ended.
    """
    end = max(min(counts.since, now), page.at) if has_ended else now
    counts, before, elapsed = counts.until(end), page.written, end - page.at
    if not has_ended and counts.stage == IDLE and counts.since == before.since:
        return None
    changes = WorkerCounts(*(new - old for new, old in zip(counts, before, strict=True)))
    header = page.reader.header
    row = [
        *(time.time_ns() - (now - end), page.loader, header.worker, header.pid, elapsed),
        *(changes.batches, changes.sized, changes.bytes),
        *(changes.fetch, changes.collate, changes.squares),
        *page.used(elapsed, changes.fetch + changes.collate),
    ]
    page.at, page.written = end, counts
    return row if any(row[4:]) else None
