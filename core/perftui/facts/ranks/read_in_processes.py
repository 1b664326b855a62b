"""Traces read by processes of this machine, through the death of any of them."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from perftui.facts.fact import RankPaths
from perftui.facts.ranks.read_ranks import ReadRank, read_one
from perftui.facts.ranks.traced_ranks import unread

PATIENCE = 0.2
"""Seconds between two looks whether anybody still waits for the rest."""

DIED = "the process that read it died twice, out of memory perhaps"


def read_in_processes(
    paths: RankPaths, processes: int, stopped: Callable[[], bool] | None = None
) -> Iterator[ReadRank]:
    """Each of ``paths`` as soon as one of so many ``processes`` has read it.

    A process that dies takes the others with it. What they were reading is then read again, each
    trace by a process of its own, so that the one that kills its reader is known by name.

    Raises:
        LoadCancelled: ``stopped`` returned true.
    """
    left, suspects = deque(paths), deque[tuple[int, Path]]()
    while left:
        suspects += yield from _read(left, processes, stopped)
    while suspects:
        one = suspects.popleft()
        if (yield from _read(deque([one]), 1, stopped)):
            yield one[0], unread(one[0], DIED)


def _read(
    left: deque[tuple[int, Path]], processes: int, stopped: Callable[[], bool] | None
) -> Generator[ReadRank, None, list[tuple[int, Path]]]:
    """Read what is ``left`` until a process dies; returns what was being read then."""
    from perftui.trace.errors import LoadCancelled

    # A fork would copy the threads' locks as they are.
    context, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, context, initializer=_begin)
    running: dict[Future[ReadRank], tuple[int, Path]] = {}
    try:
        while left or running:
            while left and len(running) < processes:
                rank, path = left[0]
                running[pool.submit(read_one, path, rank)] = left.popleft()
            done, _ = wait(running, PATIENCE, FIRST_COMPLETED)
            if stopped is not None and stopped():
                raise LoadCancelled
            for future in done:
                found = future.result()
                del running[future]
                yield found
    except BrokenProcessPool:
        return list(running.values())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if running:
            # Nobody waits for these any more, and leaving would wait for them to end.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
    return []


def _begin() -> None:
    """A process ends at an interrupt without a traceback of its own."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
