"""A Dask cluster on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

WORKERS = 2


@contextmanager
def two_workers() -> Iterator[str]:
    """The address of a cluster whose workers hold one trace at a time."""
    import distributed

    with distributed.LocalCluster(
        n_workers=WORKERS,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        memory_limit="1GiB",
        silence_logs=50,
    ) as cluster:
        yield cluster.scheduler_address
