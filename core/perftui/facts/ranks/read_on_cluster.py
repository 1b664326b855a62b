"""Traces read by the workers of a Dask cluster, through the loss of any of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui import __version__
from perftui.facts.ranks.read_at_once import Job, read_at_once
from perftui.facts.ranks.read_one import ReadRank
from perftui.facts.ranks.traced_ranks import tried, unread
from perftui.trace.remote import RemoteFile

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0

NO_DASK = "reading on a cluster needs Dask: pip install 'perftui[cluster]'"
LOST = "every worker that read it was lost, out of memory perhaps"


class ClusterError(Exception):
    """The cluster cannot be used; the message says why and what to do."""


def read_on_cluster(
    jobs: Sequence[Job], scheduler: str, stopped: Callable[[], bool] | None = None
) -> Iterator[ReadRank]:
    """Each of ``jobs`` as soon as a worker of the cluster at ``scheduler`` has read it.

    No more traces are read at a time than there are workers, so that none holds two. What a lost
    worker was reading is read again by another, up to the scheduler's ``allowed-failures`` times.

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
    """``read_one`` on a worker: remote traces are copied to where Dask clears up after it."""
    from distributed import get_worker

    return rank, tried(place, rank, directory=Path(get_worker().local_directory))


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
