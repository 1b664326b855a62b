"""Traces read by the workers of a Dask cluster, through the loss of any of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui import __version__
from perftui.facts.fact import RankPaths
from perftui.facts.ranks.read_ranks import ReadRank, read_one
from perftui.facts.ranks.traced_ranks import unread

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0

PATIENCE = 0.5
"""Seconds between two looks whether anybody still waits for the rest."""

NO_DASK = "reading on a cluster needs Dask: pip install 'perftui[cluster]'"
LOST = "every worker that read it was lost, out of memory perhaps"


class ClusterError(Exception):
    """The cluster cannot be used; the message says why and what to do."""


def read_on_cluster(
    paths: RankPaths, scheduler: str, stopped: Callable[[], bool] | None = None
) -> Iterator[ReadRank]:
    """Each of ``paths`` as soon as a worker of the cluster at ``scheduler`` has read it.

    No more traces are read at a time than there are workers, so that none holds two. What a lost
    worker was reading is read again by another, up to the scheduler's ``allowed-failures`` times.

    Raises:
        ClusterError: it cannot be reached, has no workers, or they have another perftui or none.
        LoadCancelled: ``stopped`` returned true.
    """
    with _connected(scheduler) as client:
        yield from _read(client, deque(paths), stopped)


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
        _check_workers(client, scheduler)
    except BaseException:
        client.close()
        raise
    return client


def _check_workers(client: Client, scheduler: str) -> None:
    """Each must run this perftui: another might work out other figures."""
    found: Mapping[str, Any] = client.run(_version, on_error="return")
    if not found:
        raise ClusterError(f"the Dask scheduler {scheduler} has no workers")
    for worker, version in found.items():
        if isinstance(version, Exception):
            raise ClusterError(f"worker {worker} has no perftui: install perftui {__version__}")
        if version != __version__:
            raise ClusterError(f"worker {worker} has perftui {version}, and this is {__version__}")


def _version() -> str:
    return __version__


def _read(
    client: Client, left: deque[tuple[int, Path]], stopped: Callable[[], bool] | None
) -> Iterator[ReadRank]:
    from distributed import KilledWorker, wait

    from perftui.trace.errors import LoadCancelled

    running: dict[Future[ReadRank], int] = {}
    while left or running:
        workers = max(1, len(client.nthreads()))
        while left and len(running) < workers:
            rank, path = left.popleft()
            running[client.submit(read_one, path, rank, pure=False)] = rank
        try:
            with client.as_current():
                done = wait(list(running), PATIENCE, "FIRST_COMPLETED").done
        except TimeoutError:
            done = set()
        if stopped is not None and stopped():
            raise LoadCancelled
        for future in done:
            rank = running.pop(future)
            try:
                yield future.result()
            except KilledWorker:
                yield rank, unread(rank, LOST)
