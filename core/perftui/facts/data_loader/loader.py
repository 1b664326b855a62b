"""The loader that feeds the training: its configuration, what its workers do, and the step
with several numbers of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
from perftui.run.files import read_or_none, replace_file
from perftui.run.layout import RunLayout
from perftui.run.table import Table

SCHEMA = 1

LARGEST = 1 << 16
"""Most bytes of one of our files."""

LEVEL = 0.03
"""Share of the step that another worker has to save: below it the curve is level."""


@dataclass(frozen=True)
class CurvePoint:
    """The mean step of one run with this number of workers."""

    workers: int
    step_ns: int


@dataclass(frozen=True)
class WorkerCurve:
    """Runs that differ only in the number of workers, fewest first."""

    points: tuple[CurvePoint, ...]
    schema: int = SCHEMA

    @property
    def best(self) -> int | None:
        """The fewest workers whose step is within ``LEVEL`` of the shortest; None without
        points."""
        shortest = min((point.step_ns for point in self.points), default=0)
        enough = (point.workers for point in self.points if point.step_ns <= shortest * (1 + LEVEL))
        return min(enough, default=None)

    @property
    def is_level(self) -> bool:
        """Whether the largest number was no better than the best before it."""
        steps = [point.step_ns for point in self.points]
        return len(steps) > 1 and steps[-1] > min(steps[:-1]) * (1 - LEVEL)


def write_worker_curve(root: Path, curve: WorkerCurve) -> None:
    """Store ``curve`` in the run directory ``root``. Raises OSError if the directory cannot be
    written."""
    replace_file(RunLayout(root).worker_curve, msgspec.json.encode(curve))


def read_worker_curve(root: Path) -> WorkerCurve | None:
    """The curve stored in ``root``; None if there is none, or it cannot be read."""
    path = RunLayout(root).worker_curve
    return read_or_none(path, WorkerCurve, SCHEMA, "a curve of workers", LARGEST)


PREFETCH_FACTOR = 2
"""PyTorch's default for a ``DataLoader`` with workers."""


class LoaderFacts(msgspec.Struct, frozen=True):
    """Configuration of one ``DataLoader`` when it last began an epoch.

    None stands for what the run did not note, in every field."""

    num_workers: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    batch_size: int | None = None
    dataset: str | None = None
    """Class name of the dataset."""
    is_iterable: bool | None = None
    """Whether it is an ``IterableDataset``: workers each read all of it unless it shards itself."""
    shards: bool | None = None
    """Whether an iterable dataset requests its worker's number."""
    holds_files: bool | None = None
    """Whether the dataset keeps open files or connections, which workers would share."""
    holds_cuda: bool | None = None
    """Whether the dataset keeps GPU tensors, which a forked worker cannot touch."""
    collate_fn: str | None = None
    """Module and name of the collate function."""
    collate_is_lambda: bool | None = None
    """Whether the collate function is a lambda, which spawned workers cannot receive."""
    start_method: str | None = None
    """``fork``, ``spawn`` or ``forkserver``: how workers would be started."""
    path: str | None = None
    """Location of the dataset's data: the first path among its attributes."""
    mount: str | None = None
    filesystem: str | None = None
    """The mount of ``path``, and its kind: ``ext4``, ``nfs4``, or the scheme of a URL."""
    file: str | None = None
    line: int | None = None
    numbers: tuple[int, ...] = ()
    """Numbers of all loaders made by the same call, as in the rows of their workers."""
    certain: bool = True
    """Whether this loader surely feeds the training; else it is the likeliest."""
    others: tuple[str, ...] = ()
    """``file:line`` of other calls whose loaders also feed the training."""

    @property
    def queue_depth(self) -> int:
        """Batches that its workers can hold ready; 0 without workers."""
        return (self.num_workers or 0) * (self.prefetch_factor or PREFETCH_FACTOR)

    @property
    def source(self) -> str | None:
        """``file:line`` of the call that made the loader."""
        return fmt.source(self.file, self.line)


@fact
def training_loader(facts: Facts) -> LoaderFacts | None:
    """The loader that feeds the judged steps; None if unknown.

    It is known by its role, noted once it has fed a step. Before that, it is the loader that
    shuffles, as training loaders do and evaluation loaders do not; else the first, since scripts
    build it first. Of several made by one call, such as one per epoch, it is the newest."""
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
    fields = fields_of(LoaderFacts, of_first_call[-1])
    return LoaderFacts(
        **{
            **fields,
            "numbers": numbers,
            "certain": len(calls) == 1 or bool(trained),
            "others": tuple(other for other in others if other),
        }
    )


def _call(data: Mapping[str, Any]) -> tuple[Any, Any]:
    return data.get("file"), data.get("line")


@fact
def measured_workers(facts: Facts) -> WorkerCurve | None:
    """The curve of workers measured by a trial; None without one."""
    return read_worker_curve(facts.run.root) if facts.run else None


MOSTLY_KNOWN = 0.9
"""Share of steps with a known wait that stand for all: the first step of an epoch has none."""


@dataclass(frozen=True)
class LoaderWork:
    """Means over the batches made; times in ns of the wall clock."""

    workers: int
    """Workers that made batches; 0 if the training thread made them."""
    fetch: int
    """ns per batch in the dataset."""
    collate: int
    """ns per batch in the collate function."""
    busy: float | None
    """Share of their time in which workers made batches, 0 to 1; None without workers."""
    batch_bytes: int | None
    """Bytes of a batch's tensors and arrays; None if unknown for any batch."""
    bytes_per_second: float | None
    """Bytes of batches a second of all workers together, while they existed; None if unknown."""


def work_of(
    workers: Table, loaders: Sequence[int], during: tuple[int, int] | None = None
) -> LoaderWork | None:
    """The work for the loaders of those numbers in ``workers``, by ``WORKER_COLUMNS``.

    Rows that reach into ``during``, (start, end) in ns, count as a whole. None without batches."""
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
    # Not from the first row to the last: in a long run, rows between are dropped.
    span = elapsed / max(makers, 1)
    return LoaderWork(
        workers=makers,
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
    """Work of making the loader's batches during the steady steps; None if unknown."""
    during, feeds = steady_span(facts), training_loader(facts)
    if facts.rank is None or feeds is None or during is None:
        return None
    return work_of(facts.rank.workers, feeds.numbers, during)


@fact
def fetch_cpu(facts: Facts) -> float | None:
    """Share of the data loader wait in which the training thread itself computes, 0 to 1; in the
    rest it waits for a disk or a network. None if workers fetch."""
    feeds = training_loader(facts)
    return None if feeds is not None and feeds.num_workers else wait_cpu(facts)


@fact
def fetch_demand(facts: Facts) -> float | None:
    """``fetch_cpu`` including time in which the thread waits for a core; None if unknown."""
    computes, table = fetch_cpu(facts), facts.rank.workers if facts.rank else Table()
    if computes is None or "delayed" not in table or not len(table):
        return None
    own = table["worker"] < 0
    cpu, delayed = int(table["cpu"][own].sum()), int(table["delayed"][own].sum())
    return min(computes * (cpu + delayed) / cpu, 1.0) if cpu else None


@fact
def wait_cpu(facts: Facts) -> float | None:
    """Share of the data loader wait in which the training thread computes, 0 to 1, whoever fetches:
    with workers it unpacks their batches. None if not recorded."""
    steps, sums = steady_rows(facts), steady_sums(facts)
    if "input_cpu" not in steps or not len(steps):
        return None
    valid = steps.where(steps["input_cpu"] >= 0)
    if len(valid) < MOSTLY_KNOWN * len(steps) or sums.of("input_cpu").count < sums.rows:
        return None
    wait, busy = (whole_sum(valid, sums, name) for name in ("input_wait", "input_cpu"))
    return min(busy / wait, 1.0) if wait else None


@fact
def loader_starts(facts: Facts) -> tuple[int, int, int]:
    """Loader starts after the first, within steady steps: their time spread over all of these, the
    mean of a start, ns, and their number."""
    steps, mask, sums = facts.steps, steady_mask(facts), steady_sums(facts)
    if "loader_start" not in steps or not mask.any():
        return 0, 0, 0
    started = (steps["kind"] == step_kind(facts)) & (steps["loader_start"] > 0)
    # The first start of the run is no restart.
    started[: int(np.argmax(started)) + 1] = False
    again = started & mask
    count = int(again.sum()) + sums.of("loader_start").above_zero
    whole = whole_sum(steps.where(again), sums, "loader_start")
    return whole // (int(mask.sum()) + sums.rows), whole // max(count, 1), count


LEAST_WATCHED = 1_000_000_000
"""Fewest ns of making batches, or of other threads, for CPU clocks that tick every 10 ms to be of
use."""

LONE_THREADS = 3
"""Threads of a worker that does not compute on extra threads: its own, the one that hands batches
over, and one more of Python's or of a library."""


@dataclass(frozen=True)
class WorkerUse:
    """Use of resources while workers make batches; shares 0 to 1."""

    cpu: float
    """Share in which workers compute."""
    delayed: float
    """Share in which workers wait for a core."""
    others: float
    """Cores used meanwhile by workers' other threads: torch's, OpenCV's, or the one that hands
    batches over."""
    threads: float
    """Mean number of threads of a worker."""
    read: float
    """Bytes a second that all workers read from storage."""
    reads: float
    """Read calls a second of all workers."""
    mean_read: float | None
    """Bytes per read call, from storage or from memory."""
    faults: float
    """Pages a second read from storage, of all workers."""

    @property
    def blocked(self) -> float:
        """Share in which workers wait for a disk, a network, a lock or a clock."""
        return max(1 - self.cpu - self.delayed, 0.0)

    @property
    def has_threads(self) -> bool:
        """Whether workers compute on threads of their own."""
        return self.computing_threads >= 2

    @property
    def computing_threads(self) -> float:
        """Threads that a worker computes on, at least 1."""
        return max(self.threads - LONE_THREADS + 1, 1.0)

    @property
    def computing(self) -> float:
        """Share of computing in the time in which workers do not wait for a core."""
        return self.cpu / max(self.cpu + self.blocked, 0.01)


@fact
def worker_rows(facts: Facts) -> Table:
    """Rows of the training loader's workers within the steady steps. Unknown without any."""
    during, feeds = steady_span(facts), training_loader(facts)
    table = facts.rank.workers if facts.rank else Table()
    if feeds is None or during is None or "loader" not in table or not len(table):
        raise UnknownError("no worker of a data loader was recorded")
    return _rows_of(table.where(table["worker"] >= 0), feeds.numbers, during)


@fact
def worker_use(facts: Facts) -> WorkerUse:
    """Resource use of the training loader's workers over the steady steps. Unknown if not recorded,
    or for less than ``LEAST_WATCHED``."""
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
"""Fewest batches of all workers, or of one: below, a single slow one makes them look uneven."""


@fact
def unevenness(facts: Facts) -> tuple[float, int | None, float]:
    """How much the times to make the training loader's batches differ over the steady steps.
    Unknown without rows of workers.

    Mean time of the batch being made at a random moment, over the mean batch: 1 if all are alike, n
    if one in n takes all the time; the slowest worker, None if fewer than two made enough batches;
    and its time per batch over that of the others."""
    rows = worker_rows(facts)
    batches, took = int(rows["batches"].sum()), int((rows["fetch"] + rows["collate"]).sum())
    if batches < FEWEST_BATCHES or not took:
        raise UnknownError("workers made too few batches")
    squares = int(rows["squares"].sum()) if "squares" in rows else 0
    of_time = squares * 1e6 * batches / took / took
    workers, at = np.unique(rows["worker"], return_inverse=True)
    counts = np.bincount(at, rows["batches"])
    spent = np.bincount(at, rows["fetch"] + rows["collate"])
    workers, counts, spent = (part[counts >= FEWEST_BATCHES] for part in (workers, counts, spent))
    if len(workers) < 2:
        return max(of_time, 1.0), None, 1.0
    slowest = int(np.argmax(spent / counts))
    others = np.arange(len(workers)) != slowest
    rest = spent[others].sum() / counts[others].sum()
    times = float(spent[slowest] / counts[slowest] / rest) if rest else 1.0
    return max(of_time, 1.0), int(workers[slowest]), times
