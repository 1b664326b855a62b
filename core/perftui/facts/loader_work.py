"""What making batches took, in the workers of a loader or in the training itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.run.table import Table


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
    """Of all workers together, while they were there."""

    @property
    def mostly(self) -> str:
        """What takes the larger part of a batch."""
        return "fetching samples" if self.fetch >= self.collate else "collating"


def loader_work(
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
