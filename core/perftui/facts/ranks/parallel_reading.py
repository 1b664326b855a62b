"""Read traces in parallel, in processes of this machine or by workers of a Dask cluster, surviving
the loss of any of them."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui import __version__
from perftui.facts.ranks.traced_ranks import ReadRank, read_one, unread
from perftui.trace.model import LoadCancelled
from perftui.trace.remote import RemoteFile

if TYPE_CHECKING:
    from distributed import Client

Job = tuple[int, Path | RemoteFile]
Jobs = deque[Job]
"""Ranks, each with the trace to read."""

PATIENCE = 0.2
"""Seconds between checks whether anybody still waits for the rest."""


def read_at_once(
    executor: Executor,
    readers: Callable[[], int],
    read: Callable[[Path | RemoteFile, int], ReadRank],
    left: Jobs,
    lost: type[Exception],
    stopped: Callable[[], bool] | None = None,
) -> Generator[ReadRank, None, Jobs]:
    """Results of ``read`` for ``left``, in any order; returns the jobs whose readers died.

    At most ``readers()`` are read at a time, so that no reader holds two. A dead reader raises
    ``lost``. If that breaks the executor, jobs not yet begun stay in ``left``. Raises LoadCancelled
    if ``stopped`` returned true."""
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


DIED = "the process that read it died twice, out of memory perhaps"


def read_in_processes(
    jobs: Sequence[Job], processes: int, stopped: Callable[[], bool] | None = None
) -> Iterator[ReadRank]:
    """Each of ``jobs`` as soon as one of the ``processes`` has read it.

    A process that dies takes the others with it. The interrupted traces are then read again, each
    in a process of its own, to identify the trace that kills its reader. Raises LoadCancelled if
    ``stopped`` returned true."""
    left, suspects = deque(jobs), Jobs()
    while left:
        suspects += yield from _read(left, processes, stopped)
    for job in suspects:
        if (yield from _read(deque([job]), 1, stopped)):
            yield job[0], unread(job[0], DIED)


def _read(
    left: Jobs, processes: int, stopped: Callable[[], bool] | None
) -> Generator[ReadRank, None, Jobs]:
    """Read the jobs ``left`` until a process dies; returns the jobs interrupted by that."""
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
    """Processes that end at an interrupt without a traceback, from the beginning."""

    def __init__(self, count: int) -> None:
        # A fork would copy locks held by threads.
        super().__init__(count, multiprocessing.get_context("spawn"), initializer=_begin)
        self._own: list[BaseProcess] = []

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """As any executor; a process started for it inherits the blocked signal, and unblocks it
        once it is ready."""
        others = multiprocessing.active_children()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(*args, **kwargs)
        finally:
            started = multiprocessing.active_children()
            self._own += [process for process in started if process not in others]
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Terminate the processes: nobody waits for them any more, and exiting would."""
        self.shutdown(wait=False, cancel_futures=True)
        for process in self._own:
            process.terminate()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


CONNECT_SECONDS = 10.0

NO_DASK = "reading on a cluster needs Dask: pip install 'perftui[cluster]'"
LOST = "every worker that read it was lost, out of memory perhaps"


class ClusterError(Exception):
    """The cluster cannot be used; the message says why and what to do."""


def read_on_cluster(
    jobs: Sequence[Job], scheduler: str, stopped: Callable[[], bool] | None = None
) -> Iterator[ReadRank]:
    """Each of ``jobs`` as soon as a worker of the cluster at ``scheduler`` has read it.

    At most one trace per worker is read at a time, so that none holds two. A lost worker's trace is
    read again by another, up to the scheduler's ``allowed-failures`` times.

    Raises:
        ClusterError: it cannot be reached, has no workers, or they have another perftui or none.
        LoadCancelled: ``stopped`` returned true.
    """
    with _connected(scheduler) as client:
        from distributed import KilledWorker

        executor = client.get_executor(pure=False)
        try:
            lost = yield from read_at_once(
                executor,
                lambda: max(1, len(client.nthreads())),
                _read_there,
                deque(jobs),
                KilledWorker,
                stopped,
            )
        finally:
            executor.shutdown(wait=False)
    for rank, _ in lost:
        yield rank, unread(rank, LOST)


def _read_there(place: Path | RemoteFile, rank: int) -> ReadRank:
    """``read_one`` on a worker: remote traces are copied to a directory that Dask cleans up."""
    from distributed import get_worker

    return read_one(place, rank, directory=Path(get_worker().local_directory))


def _connected(scheduler: str) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterError(NO_DASK) from error
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"the Dask scheduler {scheduler} cannot be reached: {error}") from error
    try:
        # Each must run this version: another might compute different figures.
        versions: Mapping[str, Any] = client.run(_version, on_error="return")
        if not versions:
            raise ClusterError(f"the Dask scheduler {scheduler} has no workers")
        for worker, version in versions.items():
            if isinstance(version, Exception):
                raise ClusterError(f"worker {worker} has no perftui: install perftui {__version__}")
            if version != __version__:
                other = f"perftui {version}, and this is {__version__}"
                raise ClusterError(f"worker {worker} has {other}")
    except BaseException:
        client.close()
        raise
    return client


def _version() -> str:
    return __version__
