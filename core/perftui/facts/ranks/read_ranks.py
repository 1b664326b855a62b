"""Read the traces of many ranks independently: one by one, in local processes, or on a cluster. The
results are identical; only the time differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from perftui.facts.fact import RankPaths
from perftui.facts.ranks.traced_ranks import TracedRank, read_rank_or_reason
from perftui.telemetry.limits import usable_cores, usable_memory
from perftui.trace.remote import RemoteFile, remote_of

ReadRank = tuple[int, TracedRank | str]
"""A rank with its trace's contents, or with the reason it is left out."""


def read_one(
    place: Path | RemoteFile, rank: int, stopped: Callable[[], bool] | None = None
) -> ReadRank:
    """The rank whose trace is at ``place``, or why it is left out.

    Raises:
        LoadCancelled: ``stopped`` returned true.
    """
    return rank, read_rank_or_reason(place, rank, stopped)


WORTH_PROCESSES = 100 << 20
"""Total bytes of text from which processes pay off: a fifth is read in the second that one takes to
start."""

GZIP_RATIO = 12
"""Bytes of text per byte of a compressed trace, at most in the traces at hand."""

MEMORY_PER_TEXT = 0.4
"""Most bytes of memory per byte of text: docs/performance.md."""

MEMORY_AT_LEAST = 64 << 20
"""Bytes of a process with the reading code imported."""

MEMORY_SHARE = 0.5
"""Share of the usable memory that all processes may take together."""


def read_ranks(
    paths: RankPaths, stopped: Callable[[], bool] | None = None, scheduler: str = ""
) -> Iterator[ReadRank]:
    """Each of ``paths`` as soon as it has been read; in any order from processes or a cluster.

    With the address of a Dask ``scheduler``, its workers read them and must see the same files.
    Remote traces are copied by their reader while it reads.

    Raises:
        ClusterError: the cluster cannot be used.
        LoadCancelled: ``stopped`` returned true.
    """
    jobs = [(rank, remote_of(path) or path) for rank, path in paths]
    if scheduler:
        from perftui.facts.ranks.parallel_reading import read_on_cluster

        return read_on_cluster(jobs, scheduler, stopped)
    processes = processes_for([_text_size(path) for _, path in paths])
    if processes < 2:
        return (read_one(place, rank, stopped) for rank, place in jobs)
    from perftui.facts.ranks.parallel_reading import read_in_processes

    return read_in_processes(jobs, processes, stopped)


def processes_for(sizes: list[int], cores: int | None = None, memory: int | None = None) -> int:
    """Number of processes to read traces of so many bytes of text; 1 if this process is as fast.
    Limited so that none runs out of memory while each reads a trace of the largest size."""
    if len(sizes) < 2 or sum(sizes) < WORTH_PROCESSES:
        return 1
    need = MEMORY_AT_LEAST + MEMORY_PER_TEXT * max(sizes)
    room = MEMORY_SHARE * (usable_memory() if memory is None else memory)
    most = usable_cores() if cores is None else cores
    return max(1, min(most, len(sizes), int(room // need)))


def _text_size(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    return size * GZIP_RATIO if path.suffix == ".gz" else size
