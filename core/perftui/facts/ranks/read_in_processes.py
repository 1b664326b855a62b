"""Traces read by processes of this machine, through the death of any of them."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any

from perftui.facts.ranks.read_at_once import Job, Jobs, read_at_once
from perftui.facts.ranks.read_one import ReadRank, read_one
from perftui.facts.ranks.traced_ranks import unread

DIED = "the process that read it died twice, out of memory perhaps"


def read_in_processes(
    jobs: Sequence[Job], processes: int, stopped: Callable[[], bool] | None = None
) -> Iterator[ReadRank]:
    """Each of ``jobs`` as soon as one of so many ``processes`` has read it.

    A process that dies takes the others with it. What they were reading is then read again, each
    trace by a process of its own, so that the one that kills its reader is known by name.

    Raises:
        LoadCancelled: ``stopped`` returned true.
    """
    left, suspects = deque(jobs), Jobs()
    while left:
        suspects += yield from _read(left, processes, stopped)
    for one in suspects:
        if (yield from _read(deque([one]), 1, stopped)):
            yield one[0], unread(one[0], DIED)


def _read(
    left: Jobs, processes: int, stopped: Callable[[], bool] | None
) -> Generator[ReadRank, None, Jobs]:
    """Read what is ``left`` until a process dies; returns what was being read then."""
    pool = _Processes(processes)
    try:
        return (
            yield from read_at_once(
                pool, lambda: processes, read_one, left, BrokenProcessPool, stopped
            )
        )
    finally:
        pool.end()


class _Processes(ProcessPoolExecutor):
    """Processes that end at an interrupt without a traceback, from their first moment on."""

    def __init__(self, count: int) -> None:
        # A fork would copy the threads' locks as they are.
        context = multiprocessing.get_context("spawn")
        super().__init__(count, context, initializer=_begin)
        self._own: list[BaseProcess] = []

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """As any executor does; a process that is started for it inherits the blocked signal, and
        lets it through once it is ready."""
        others = multiprocessing.active_children()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(*args, **kwargs)
        finally:
            started = multiprocessing.active_children()
            self._own += [process for process in started if process not in others]
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Nobody waits for them any more, and leaving would wait for them to end."""
        self.shutdown(wait=False, cancel_futures=True)
        for process in self._own:
            process.terminate()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
