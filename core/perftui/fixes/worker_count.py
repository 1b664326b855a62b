"""How many data-loader workers to try."""

from __future__ import annotations

FIRST_TRY = 4
"""Most workers for a loader that has none: gains level off between two and four a device, while
memory and start-up grow with each."""

UNKNOWN_CORES = 2
"""Workers where the number of cores is not known: fewest that fetch while another collates."""


def worker_count(
    current: int,
    cores: int | None,
    ranks: int = 1,
    busy_elsewhere: float = 0.0,
    idle: float | None = None,
    fetch_cpu: float | None = None,
    carried: int | None = None,
) -> int:
    """Workers to try instead of ``current``, 0 where no core is free for more.

    The training thread keeps a core of its own, other programs keep theirs
    (``busy_elsewhere`` cores), and the ranks of one machine share the rest. Two cores are enough
    for one worker: it fetches while the training thread computes. Workers that wait for a disk or
    a network use no core: where the training thread computes in only ``fetch_cpu`` of the time it
    fetches (0 to 1), a core serves more of them, up to one worker a core, beyond which PyTorch
    warns. A loader that has workers gets up to twice as many; those may outnumber the cores by as
    many as were measured ``idle``. Where it was measured how many the machine carries for all its
    ranks (``carried``, see ``worker_cpu``), it gets no more than its part of these.
    """
    if cores is None:
        return UNKNOWN_CORES if current < UNKNOWN_CORES else 0
    ranks = max(ranks, 1)
    share = cores // ranks
    if share < 2:
        return 0
    free = max(share - 1 - round(busy_elsewhere / ranks), 1)
    if not current and fetch_cpu is not None:
        free = max(free, min(share, int(free / max(fetch_cpu, 1 / share))))
    if current and idle is not None:
        free = max(free, current + int(idle / ranks))
    if current and carried is not None:
        free = min(max(free, share), carried // ranks)
    wanted = min(2 * current if current else FIRST_TRY, free)
    return wanted if wanted > current else 0
