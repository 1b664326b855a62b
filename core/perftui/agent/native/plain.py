"""Python equivalents of the compiled classes, for Pythons without those."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...wire.worker_page import COLLATE, FETCH, IDLE, RECORD
from ..safety.signal_handlers import TryLock

if TYPE_CHECKING:
    from ..hooks.watch import Enter, Leave

BRIEF_NS = 5_000_000
"""In the training itself a batch that follows one that took less is stored once it is made, and not
at each stage: that would hold up steps that take no longer themselves."""

SHORTEST_NS = 100_000
"""Collections of the young generation take microseconds and come by the hundred."""


class PlainFastPath:
    """A fast path that is never opened: every step goes the slow path."""

    is_open = is_off = is_fetching = inside = goes_back = False

    def nowhere(self, *_: Any) -> int:
        """Leave the event to the session."""
        return 0

    enter_fetch = leave_fetch = enter_forward = enter_backward = leave = nowhere
    enter_optimizer = leave_optimizer = nowhere


class PlainPage:
    """Sums up times and bytes of batches, and stores them at ``address``, if that is not 0.

    One batch at a time: one that is made for another one, or beside it, is not counted.
    """

    batch_bytes: Callable[[Any], int]
    """Bytes of a batch, -1 if unknown."""

    may_be_brief = is_brief = False
    stage = IDLE
    number = 0
    """Number of the record that was stored last."""
    since = began = 0
    """Start of the stage, and of the batch."""
    batches = sized = bytes = fetch = collate = squares = address = 0

    def __init__(self) -> None:
        self._lock = TryLock()

    def enter(self, whose: object, /) -> bool:
        """A batch begins, known as ``whose``; whether it is counted."""
        if not self._lock.acquire(whose):
            return False
        # The end of the batch before may have been missed.
        self.stage = IDLE
        self.mark(FETCH)
        return True

    def leave(self, whose: object, /) -> None:
        """The batch of ``whose`` has ended, made or not; ignored if it is not the counted one."""
        if not self._lock.is_held_by(whose):
            return
        if self.stage != IDLE:
            self.is_brief = False
            self.mark(IDLE)
        self._lock.release(whose)

    def forget(self) -> None:
        """Another process makes the current batch."""
        self._lock = TryLock()

    def mark(self, stage: int, /) -> None:
        """The batch enters ``stage``."""
        now = perf_counter_ns()
        if self.stage == FETCH:
            self.fetch += now - self.since
        elif self.stage == COLLATE:
            self.collate += now - self.since
        else:
            self.began = now
        self.stage, self.since = stage, now
        if not self.is_brief:
            self._store()

    def count(self, batch: Any, /) -> None:
        """``batch`` is complete."""
        self.mark(IDLE)
        size = self.batch_bytes(batch)
        self.squares += ((self.since - self.began) // 1000) ** 2
        self.batches += 1
        if size >= 0:
            self.sized += 1
            self.bytes += size
        self.is_brief = self.may_be_brief and self.since - self.began < BRIEF_NS
        self._store()

    def _store(self) -> None:
        if not self.address:
            return
        self.number += 1
        # A reader that sees two numbers, or another record at its second look, tries again.
        sums = self.batches, self.sized, self.bytes, self.fetch, self.collate, self.squares
        record = RECORD.pack(self.number, *sums, self.stage, self.since, self.number)
        ctypes.memmove(self.address, record, RECORD.size)


class PlainPauses:
    """Collects the pauses of ``thread``: start by ``perf_counter_ns``, duration, generation."""

    thread: int
    found: list[tuple[int, int, int]]

    def __init__(self) -> None:
        self._start = 0

    def on_phase(self, phase: str, info: dict[str, Any], /) -> None:
        """A collection starts or stops."""
        if get_ident() != self.thread:
            return
        now = perf_counter_ns()
        if phase == "start":
            self._start = now
        elif self._start and now - self._start >= SHORTEST_NS:
            self.found.append((self._start, now - self._start, info["generation"]))


def plain_around(
    original: Callable[..., Any],
    enter: Enter,
    leave: Leave | None,
    fast_path: Any,
    goes_back: bool,
    insists: bool,
) -> Callable[..., Any]:
    """The wrapper of ``put_around``, with a frame of its own, and without ``fast``."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if (fast_path is not None and fast_path.inside) or not args:
            return original(*args, **kwargs)
        token = enter(args, kwargs)
        if token is None:
            return original(*args, **kwargs)
        if isinstance(token, tuple):
            args, kwargs = token
        result, arrived = None, False
        try:
            if fast_path is not None:
                fast_path.inside, fast_path.goes_back = True, goes_back
            result = original(*args, **kwargs)
            arrived = True
            return result
        finally:
            if fast_path is not None:
                fast_path.inside, fast_path.goes_back = fast_path.is_off, False
            if leave is not None:
                try:
                    leave(args, token, result, arrived)
                except BaseException:
                    if insists:
                        leave(args, token, None, False)
                    raise

    return call
