"""What a loader does: making batches, in its workers or in the training itself, and starting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import steady_mask, steady_rows, steady_span, steady_sums, step_kind
from perftui.run.table import Table

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
    mask = np.isin(workers["loader"], np.asarray(loaders, dtype=np.int64))
    if during is not None:
        began = workers["time"] - workers["elapsed"]
        mask &= (workers["time"] > during[0]) & (began < during[1])
    rows = workers.where(mask)
    batches = int(rows["batches"].sum())
    if not batches:
        return None
    return _work(rows, batches)


def _work(rows: Table, batches: int) -> LoaderWork:
    elapsed, fetch, collate = (int(rows[name].sum()) for name in ("elapsed", "fetch", "collate"))
    in_workers = rows["worker"] >= 0
    size = int(rows["bytes"].sum()) if int(rows["sized"].sum()) == batches else None
    workers = len(np.unique(rows["worker"][in_workers]))
    # Not from the first row to the last: of a long run the rows between are no longer there.
    span = elapsed / max(workers, 1)
    return LoaderWork(
        workers=workers,
        batches=batches,
        fetch=fetch // batches,
        collate=collate // batches,
        busy=min((fetch + collate) / elapsed, 1.0) if in_workers.all() and elapsed else None,
        batch_bytes=None if size is None else size // batches,
        bytes_per_second=None if size is None or not span else size * 1e9 / span,
    )


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
    wait = int(known["input_wait"].sum()) + int(sums.of("input_wait").total)
    busy = int(known["input_cpu"].sum()) + int(sums.of("input_cpu").total)
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
    whole = int(steps["loader_start"][again].sum()) + int(kept.of("loader_start").total)
    return Restarts(whole // (int(mask.sum()) + kept.rows), whole // count, count)
