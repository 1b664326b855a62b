"""What workers do while they make batches: compute, wait for a core, or wait for something else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.step.steps import steady_span
from perftui.run.table import Table

LEAST_WATCHED = 1_000_000_000
"""Time of making batches, or of other threads, ns, below which clocks that tick every 10 ms say
little of it."""

LONE_THREADS = 3
"""Threads of a worker that has none for computing: its own, the one that hands batches over, and
one more of Python's or of a library."""


@dataclass(frozen=True)
class WorkerUse:
    """Shares of the time in which workers make batches, 0 to 1."""

    cpu: float
    """Share in which workers compute."""
    delayed: float
    """Share in which workers wait for a core."""
    others: float
    """Cores that their other threads use meanwhile: torch's own, OpenCV's, or the one that hands
    batches over."""
    threads: float
    """Threads of a worker, in the mean."""
    read: float
    """Bytes a second that all of them read from storage."""
    reads: float
    """Read calls a second of all of them."""
    mean_read: float | None
    """Bytes of such a call, from storage or from memory."""
    faults: float
    """Pages a second that had to be read from storage, of all of them."""

    @property
    def blocked(self) -> float:
        """Share in which workers wait for a disk, a network, a lock or a clock."""
        return max(1 - self.cpu - self.delayed, 0.0)

    @property
    def has_threads(self) -> bool:
        """Whether they compute on threads of their own."""
        return self.computing_threads >= 2

    @property
    def computing_threads(self) -> float:
        """Threads that a worker computes on, 1 at least."""
        return max(self.threads - LONE_THREADS + 1, 1.0)

    @property
    def computing(self) -> float:
        """Share of computing in the time in which workers do not wait for a core."""
        return self.cpu / max(self.cpu + self.blocked, 0.01)


@fact
def worker_rows(facts: Facts) -> Table:
    """Rows of the workers of the training loader within the steady steps.

    Raises:
        UnknownError: there are none.
    """
    during, feeds = steady_span(facts), training_loader(facts)
    table = facts.rank.workers if facts.rank else Table()
    if feeds is None or during is None or "loader" not in table or not len(table):
        raise UnknownError("no worker of a data loader was recorded")
    chosen = np.isin(table["loader"], np.asarray(feeds.numbers, dtype=np.int64))
    chosen &= table["worker"] >= 0
    chosen &= (table["time"] > during[0]) & (table["time"] - table["elapsed"] < during[1])
    return table.where(chosen)


@fact
def worker_use(facts: Facts) -> WorkerUse:
    """What the workers of the training loader use over the steady steps.

    Raises:
        UnknownError: the run has no counts of it, or of less than ``LEAST_WATCHED``.
    """
    rows = worker_rows(facts)
    if "watched" not in rows:
        raise UnknownError("the run does not record what its workers use")
    rows = rows.where(rows["threads"] > 0)
    total = {name: int(rows[name].sum()) for name in _SUMMED}
    making = max(total["watched"], 1)
    if max(making, total["others"]) < LEAST_WATCHED:
        raise UnknownError("too little is known about what the workers use")
    span = int(rows["elapsed"].sum()) / max(len(np.unique(rows["worker"])), 1) / 1e9
    return WorkerUse(
        cpu=min(total["cpu"] / making, 1.0),
        delayed=min(total["delayed"] / making, 1.0),
        others=total["others"] / making,
        threads=total["threads"] / total["elapsed"],
        read=total["read"] / span,
        reads=total["reads"] / span,
        mean_read=total["asked"] / total["reads"] if total["reads"] else None,
        faults=total["faults"] / span,
    )


_SUMMED = (
    *("elapsed", "watched", "cpu", "delayed", "others", "threads"),
    *("read", "asked", "reads", "faults"),
)


FEWEST_BATCHES = 10
"""Of all workers, or of one of them: with fewer, a single slow one makes them look uneven."""


@dataclass(frozen=True)
class Unevenness:
    """How much the batches of a loader differ in what they take to make."""

    of_time: float
    """The batch that a moment of making falls into, in the mean, over the mean batch: 1 where all
    are alike, n where one in n takes all the time."""
    worker: int | None
    """The one that takes longest for its batches, where there are several."""
    times: float
    """What that one takes over what the others take."""


@fact
def unevenness(facts: Facts) -> Unevenness:
    """Unevenness of the training loader's workers over the steady steps.

    Raises:
        UnknownError: the run has no rows of its workers.
    """
    rows = worker_rows(facts)
    batches, took = int(rows["batches"].sum()), int((rows["fetch"] + rows["collate"]).sum())
    if batches < FEWEST_BATCHES or not took:
        raise UnknownError("workers made too few batches")
    squares = int(rows["squares"].sum()) if "squares" in rows else 0
    of_time = squares * 1e6 * batches / took / took
    worker, times = _slowest(rows)
    return Unevenness(max(of_time, 1.0), worker, times)


def _slowest(rows: Table) -> tuple[int | None, float]:
    means: dict[int, tuple[float, int, int]] = {}
    for worker in np.unique(rows["worker"]).tolist():
        own = rows["worker"] == worker
        batches = int(rows["batches"][own].sum())
        took = int((rows["fetch"] + rows["collate"])[own].sum())
        if batches >= FEWEST_BATCHES:
            means[worker] = took / batches, took, batches
    if len(means) < 2:
        return None, 1.0
    slowest = max(means, key=lambda worker: means[worker][0])
    others = [(took, batches) for worker, (_, took, batches) in means.items() if worker != slowest]
    rest = sum(took for took, _ in others) / sum(batches for _, batches in others)
    return slowest, means[slowest][0] / rest if rest else 1.0
