"""The loader that feeds the training: how it is set up, and what its workers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from perftui import format as fmt
from perftui.facts.fact import Facts, UnknownError, fact, notes_of
from perftui.facts.settings import fields_of
from perftui.facts.step.steps import (
    steady_mask,
    steady_rows,
    steady_span,
    steady_sums,
    step_kind,
    whole_sum,
)
from perftui.run.table import Table
from perftui.run.worker_curve import WorkerCurve, read_worker_curve

PREFETCH_FACTOR = 2
"""What PyTorch takes for a ``DataLoader`` with workers where the script does not say."""


class LoaderFacts(msgspec.Struct, frozen=True):
    """Configuration of one ``DataLoader`` as it was when it last began an epoch.

    None stands for what the run does not name, everywhere.
    """

    num_workers: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    batch_size: int | None = None
    dataset: str | None = None
    """Class name of the dataset."""
    is_iterable: bool | None = None
    """An ``IterableDataset``, which every worker would read whole unless it shards itself."""
    shards: bool | None = None
    """An iterable dataset that asks for its worker's number."""
    holds_files: bool | None = None
    """The dataset keeps open files or connections, which workers would share."""
    holds_cuda: bool | None = None
    """The dataset keeps tensors of a GPU, which a forked worker cannot touch."""
    collate_is_lambda: bool | None = None
    """Cannot be sent to workers that are spawned rather than forked."""
    start_method: str | None = None
    """``fork``, ``spawn`` or ``forkserver``: how workers would be started."""
    path: str | None = None
    """Where the dataset's data lies: the first path among its attributes."""
    mount: str | None = None
    filesystem: str | None = None
    """The mount that holds it, and its kind: ``ext4``, ``nfs4``, or the scheme of a URL."""
    file: str | None = None
    line: int | None = None
    numbers: tuple[int, ...] = ()
    """Numbers of all loaders that the same call has made, as in the rows of their workers."""
    certain: bool = True
    """Whether this loader is known to feed the training; else it is the likeliest."""
    others: tuple[str, ...] = ()
    """``file:line`` of other calls whose loaders are known to feed the training as well."""

    @property
    def queue_depth(self) -> int:
        """Batches that its workers may hold ready; 0 without workers."""
        return (self.num_workers or 0) * (self.prefetch_factor or PREFETCH_FACTOR)

    @property
    def source(self) -> str | None:
        """``file:line`` of the call that made it."""
        return fmt.source(self.file, self.line)


@fact
def training_loader(facts: Facts) -> LoaderFacts | None:
    """The loader that feeds the steps that are judged; None where none is known.

    A loader is known as that by its role, which is noted once it has fed a step. Before that it
    is the one that shuffles, as training loaders do and evaluation loaders do not; else the first,
    since scripts build it first. Of several made by one call, such as one an epoch, it is the
    newest.
    """
    latest: dict[Any, Mapping[str, Any]] = {}
    for data in notes_of(facts.events, "loader"):
        key = data.get("id", _call(data))
        latest[key] = {**latest.get(key, {}), **data}
    loaders = list(latest.values())
    if not loaders:
        return None
    trained = [data for data in loaders if data.get("role") == step_kind(facts)]
    shuffled = [data for data in loaders if data.get("shuffle")]
    likely = trained or shuffled or loaders
    of_first_call = [data for data in likely if _call(data) == _call(likely[0])]
    calls = list(dict.fromkeys(_call(data) for data in trained or loaders))
    others = [fmt.source(*call) for call in calls if trained and call != _call(likely[0])]
    numbers = tuple(data["id"] for data in of_first_call if isinstance(data.get("id"), int))
    known = fields_of(LoaderFacts, of_first_call[-1])
    return LoaderFacts(
        **{
            **known,
            "numbers": numbers,
            "certain": len(calls) == 1 or bool(trained),
            "others": tuple(other for other in others if other),
        }
    )


def _call(data: Mapping[str, Any]) -> tuple[Any, Any]:
    return data.get("file"), data.get("line")


@fact
def measured_workers(facts: Facts) -> WorkerCurve | None:
    """The curve that a trial measured; None where none has."""
    return read_worker_curve(facts.run.root) if facts.run else None


MOSTLY_KNOWN = 0.9
"""Share of the steps whose waits stand for all: one that begins an epoch has none of its own."""


@dataclass(frozen=True)
class LoaderWork:
    """Means over the batches that were made; times in ns of the wall clock."""

    workers: int
    """Workers that made any; 0 where the training made them itself."""
    batches: int
    fetch: int
    """A batch in the dataset."""
    collate: int
    """A batch in the collate function."""
    busy: float | None
    """Share of their time in which workers made batches, 0 to 1; None without workers."""
    batch_bytes: int | None
    """Tensors and arrays of a batch; None where those of any batch are not known."""
    bytes_per_second: float | None
    """Bytes of batches a second of all workers together, while they were there; None if unknown."""

    @property
    def mostly(self) -> str:
        """What takes the larger part of a batch."""
        return "fetching samples" if self.fetch >= self.collate else "collating"


def work_of(
    workers: Table, loaders: Sequence[int], during: tuple[int, int] | None = None
) -> LoaderWork | None:
    """The work for the loaders of those numbers in ``workers``, by ``WORKER_COLUMNS``.

    Rows that reach into ``during``, (start, end) in ns, count whole. None where no batch was made.
    """
    if "loader" not in workers or not len(workers):
        return None
    rows = _rows_of(workers, loaders, during)
    batches = int(rows["batches"].sum())
    if not batches:
        return None
    elapsed, fetch, collate = (int(rows[name].sum()) for name in ("elapsed", "fetch", "collate"))
    in_workers = rows["worker"] >= 0
    size = int(rows["bytes"].sum()) if int(rows["sized"].sum()) == batches else None
    makers = len(np.unique(rows["worker"][in_workers]))
    # Not from the first row to the last: of a long run the rows between are no longer there.
    span = elapsed / max(makers, 1)
    return LoaderWork(
        workers=makers,
        batches=batches,
        fetch=fetch // batches,
        collate=collate // batches,
        busy=min((fetch + collate) / elapsed, 1.0) if in_workers.all() and elapsed else None,
        batch_bytes=None if size is None else size // batches,
        bytes_per_second=None if size is None or not span else size * 1e9 / span,
    )


def _rows_of(workers: Table, loaders: Sequence[int], during: tuple[int, int] | None) -> Table:
    mask = np.isin(workers["loader"], np.asarray(loaders, dtype=np.int64))
    if during is not None:
        began = workers["time"] - workers["elapsed"]
        mask &= (workers["time"] > during[0]) & (began < during[1])
    return workers.where(mask)


@fact
def loader_work(facts: Facts) -> LoaderWork | None:
    """What making the batches of the loader took during the steady steps; None where unknown."""
    during, feeds = steady_span(facts), training_loader(facts)
    if facts.rank is None or feeds is None or during is None:
        return None
    return work_of(facts.rank.workers, feeds.numbers, during)


@fact
def fetch_cpu(facts: Facts) -> float | None:
    """Share of the data loader wait in which the training thread itself computes, 0 to 1; the rest
    it waits for a disk or a network. None where workers fetch."""
    feeds = training_loader(facts)
    return None if feeds is not None and feeds.num_workers else wait_cpu(facts)


@fact
def fetch_demand(facts: Facts) -> float | None:
    """``fetch_cpu`` with the time in which the thread would compute and waits for a core; None
    where either is unknown."""
    computes, table = fetch_cpu(facts), facts.rank.workers if facts.rank else Table()
    if computes is None or "delayed" not in table or not len(table):
        return None
    own = table["worker"] < 0
    cpu, delayed = int(table["cpu"][own].sum()), int(table["delayed"][own].sum())
    return min(computes * (cpu + delayed) / cpu, 1.0) if cpu else None


@fact
def wait_cpu(facts: Facts) -> float | None:
    """Share of the data loader wait in which the training thread computes, 0 to 1, whoever fetches:
    with workers it then unpacks what they hand over. None where it was not recorded."""
    steps, sums = steady_rows(facts), steady_sums(facts)
    if "input_cpu" not in steps or not len(steps):
        return None
    known = steps.where(steps["input_cpu"] >= 0)
    if len(known) < MOSTLY_KNOWN * len(steps) or sums.of("input_cpu").count < sums.rows:
        return None
    wait, busy = (whole_sum(known, sums, name) for name in ("input_wait", "input_cpu"))
    return min(busy / wait, 1.0) if wait else None


@dataclass(frozen=True)
class Restarts:
    """The starts after the first, as far as they lie in steady steps."""

    per_step: int
    """Time of these starts spread over all steady steps, ns."""
    mean: int
    """Mean of one, ns."""
    count: int


@fact
def loader_starts(facts: Facts) -> Restarts | None:
    """What starting a loader again took; None where it was started once or not at all."""
    steps, mask, kept = facts.steps, steady_mask(facts), steady_sums(facts)
    if "loader_start" not in steps or not mask.any():
        return None
    started = (steps["kind"] == step_kind(facts)) & (steps["loader_start"] > 0)
    # The first of the run is no restart.
    started[: int(np.argmax(started)) + 1] = False
    again = started & mask
    count = int(again.sum()) + kept.of("loader_start").above_zero
    if not count:
        return None
    whole = whole_sum(steps.where(again), kept, "loader_start")
    return Restarts(whole // (int(mask.sum()) + kept.rows), whole // count, count)


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
    """Rows of the workers of the training loader within the steady steps. Unknown if there are
    none."""
    during, feeds = steady_span(facts), training_loader(facts)
    table = facts.rank.workers if facts.rank else Table()
    if feeds is None or during is None or "loader" not in table or not len(table):
        raise UnknownError("no worker of a data loader was recorded")
    return _rows_of(table.where(table["worker"] >= 0), feeds.numbers, during)


@fact
def worker_use(facts: Facts) -> WorkerUse:
    """What the workers of the training loader use over the steady steps. Unknown if the run has no
    counts of it, or of less than ``LEAST_WATCHED``."""
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
    """Unevenness of the training loader's workers over the steady steps. Unknown if the run has no
    rows of its workers."""
    rows = worker_rows(facts)
    batches, took = int(rows["batches"].sum()), int((rows["fetch"] + rows["collate"]).sum())
    if batches < FEWEST_BATCHES or not took:
        raise UnknownError("workers made too few batches")
    squares = int(rows["squares"].sum()) if "squares" in rows else 0
    of_time = squares * 1e6 * batches / took / took
    workers, at = np.unique(rows["worker"], return_inverse=True)
    made = np.bincount(at, rows["batches"])
    spent = np.bincount(at, rows["fetch"] + rows["collate"])
    workers, made, spent = (each[made >= FEWEST_BATCHES] for each in (workers, made, spent))
    if len(workers) < 2:
        return Unevenness(max(of_time, 1.0), None, 1.0)
    slowest = int(np.argmax(spent / made))
    others = np.arange(len(workers)) != slowest
    rest = spent[others].sum() / made[others].sum()
    times = float(spent[slowest] / made[slowest] / rest) if rest else 1.0
    return Unevenness(max(of_time, 1.0), int(workers[slowest]), times)
