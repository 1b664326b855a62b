"""One rank's trace, read where a job runs: here, in a process or by a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perftui.facts.ranks.traced_ranks import TracedRank, tried
from perftui.trace.remote import RemoteFile

ReadRank = tuple[int, TracedRank | str]
"""A rank with what its trace holds, or with why that is left out."""


def read_one(
    place: Path | RemoteFile, rank: int, stopped: Callable[[], bool] | None = None
) -> ReadRank:
    """The rank whose trace is at ``place``, or why it is left out.

    Raises:
        LoadCancelled: ``stopped`` returned true.
    """
    return rank, tried(place, rank, stopped)
