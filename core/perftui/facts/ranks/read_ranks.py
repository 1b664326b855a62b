"""The traces of many ranks, each read by itself: in turn, in processes of this machine, or on a
cluster. What comes of it is the same, value by value; only the time differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from perftui.facts.fact import RankPaths
from perftui.facts.ranks.traced_ranks import TracedRank, read_rank_or_reason
from perftui.telemetry.limits import usable_cores, usable_memory
from perftui.trace.remote import RemoteFile, remote_of

ReadRank = tuple[int, TracedRank | str]
"""A rank with what its trace holds, or with why that is left out."""


def read_one(
    place: Path | RemoteFile, rank: int, stopped: Callable[[], bool] | None = None
) -> ReadRank:
    """The rank whose trace is at ``place``, or why it is left out.

    Raises:
        LoadCancelled: ``stopped`` returned true.
    """
    return rank, read_rank_or_reason(place, rank, stopped)


WORTH_PROCESSES = 100 << 20
"""Bytes of text in all from which on processes pay: a fifth of that is read in the second that one
takes to start."""

GZIP_RATIO = 12
"""Bytes of text for each of a compressed trace, at most in the traces at hand."""

MEMORY_PER_TEXT = 0.4
"""Bytes that are held at most for each of text: docs/performance.md."""

MEMORY_AT_LEAST = 64 << 20
"""Bytes of a process that has imported what reads traces."""

MEMORY_SHARE = 0.5
"""Of the memory that may be used, what all processes may take together."""


def read_ranks(
    paths: RankPaths, stopped: Callable[[], bool] | None = None, scheduler: str = ""
) -> Iterator[ReadRank]:
    """Each of ``paths`` as soon as it has been read; those of a cluster and of processes come in
    any order.

    With the address of a Dask ``scheduler`` its workers read them, which must see the same files.
    Who reads a remote trace copies it first, for that time alone.

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
    """How many processes read traces of so many bytes of text; 1 where that is as quick in this
    one. None of them may run out of memory while each of the others reads the largest trace."""
    if len(sizes) < 2 or sum(sizes) < WORTH_PROCESSES:
        return 1
    each = MEMORY_AT_LEAST + MEMORY_PER_TEXT * max(sizes)
    room = MEMORY_SHARE * (usable_memory() if memory is None else memory)
    most = usable_cores() if cores is None else cores
    return max(1, min(most, len(sizes), int(room // each)))


def _text_size(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    return size * GZIP_RATIO if path.suffix == ".gz" else size
