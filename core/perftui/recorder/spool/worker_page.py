"""Reads the page of a data-loader worker: ``wire.worker_page`` describes the format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perftui.run.versioned import DAMAGE
from perftui.wire.worker_page import COLLATE, FETCH, IDLE, PAGE, RECORD

TRIES = 4
"""Copies of a record that is being stored anew, until two in a row agree."""


class PageHeader(msgspec.Struct, frozen=True):
    """What the process writes about itself."""

    version: int
    record: str
    record_offset: int
    pid: int
    owner: int
    worker: int
    """The worker's number in the loader; -1 where the training itself fetches."""
    loader: int
    """The loader's number, as in ``loader`` notes; -1 in a worker, which does not know it."""
    wall_ns: int
    monotonic_ns: int
    """``time.time_ns()`` and ``time.perf_counter_ns()`` when the page was begun."""


@dataclass(frozen=True)
class WorkerCounts:
    """What a worker has done since its page was begun; times in ns."""

    batches: int = 0
    sized: int = 0
    """Batches whose bytes are known."""
    bytes: int = 0
    """Bytes of the batches in ``sized``."""
    fetch: int = 0
    collate: int = 0
    squares: int = 0
    """Sum of the squares of what each batch took, us."""
    stage: int = IDLE
    since: int = 0
    """When the stage began, by ``time.perf_counter_ns()``."""

    def until(self, now: int) -> tuple[int, int]:
        """(fetch, collate) with the part of the batch that goes on; ``now`` as ``since``."""
        going_on = max(now - self.since, 0)
        fetching, collating = self.stage == FETCH, self.stage == COLLATE
        return self.fetch + fetching * going_on, self.collate + collating * going_on


class PageError(ValueError):
    """The file is not a page that this version can read."""


class WorkerPageReader:
    """One page, opened for as long as it is followed.

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
            if self.header.record != RECORD.format or not 0 <= self.header.record_offset < PAGE:
                raise PageError(f"{path}: records of another version ({self.header.record})")
        except DAMAGE as error:
            os.close(self._file)
            raise PageError(f"{path}: {error}") from error
        except BaseException:
            os.close(self._file)
            raise

    def read(self) -> WorkerCounts | None:
        """The counts now; None where they changed with every read."""
        before = b""
        for _ in range(TRIES):
            copy = os.pread(self._file, RECORD.size, self.header.record_offset)
            if copy == before and len(copy) == RECORD.size:
                number, *values, again = RECORD.unpack(copy)
                return WorkerCounts(*values) if number == again else None
            before = copy
        return None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
