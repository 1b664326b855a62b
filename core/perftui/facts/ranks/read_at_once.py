"""Traces given to several readers at once: processes of this machine, or workers of a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path

from perftui.facts.ranks.read_one import ReadRank
from perftui.trace.model import LoadCancelled
from perftui.trace.remote import RemoteFile

Job = tuple[int, Path | RemoteFile]
Jobs = deque[Job]
"""Ranks, each with the trace to read."""

PATIENCE = 0.2
"""Seconds between two looks whether anybody still waits for the rest."""


def read_at_once(
    executor: Executor,
    readers: Callable[[], int],
    read: Callable[[Path | RemoteFile, int], ReadRank],
    left: Jobs,
    lost: type[Exception],
    stopped: Callable[[], bool] | None = None,
) -> Generator[ReadRank, None, Jobs]:
    """What ``read`` finds of each of ``left``, in any order; returns those whose readers died.

    No more are read at a time than there are ``readers``, so that none holds two. ``lost`` is
    raised where a reader died. If that breaks the executor, what it has not begun stays ``left``.

    Raises:
        LoadCancelled: ``stopped`` returned true.
    """
    running: dict[Future[ReadRank], Job] = {}
    dead: Jobs = deque()
    broken = False
    while running or (left and not broken):
        try:
            while left and not broken and len(running) < readers():
                rank, place = left[0]
                future = executor.submit(read, place, rank)
                running[future] = left.popleft()
        except BrokenExecutor:
            broken = True
        done, _ = wait(running, PATIENCE, FIRST_COMPLETED)
        if stopped is not None and stopped():
            raise LoadCancelled
        for future in done:
            job = running.pop(future)
            try:
                yield future.result()
            except lost:
                dead.append(job)
    return dead
