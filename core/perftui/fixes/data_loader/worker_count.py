"""How many data-loader workers to try, and what those that there are take of the processor."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.loader_work import loader_work
from perftui.facts.fact import Facts
from perftui.facts.step.steps import step_breakdown

FIRST_TRY = 4
"""Most workers for a loader that has none: gains level off between two and four a device, while
memory and start-up grow with each."""

UNKNOWN_CORES = 2
"""Workers where the number of cores is not known: fewest that fetch while another collates."""

LEAST_BUSY = 0.2
"""Workers that make batches in less of their time show little of what one takes that does."""

LEAST_CPU = 0.02
"""Share of a core of a worker that waits for a disk: it still unpickles, copies and hands over."""

HARDLY = 0.05
"""Share of a core up to which a worker mostly waits."""

MOST_WAIT = 0.95
"""Share of a step beyond which what the training takes without waiting is mostly a guess."""

ROUNDED = 0.05
"""Share of a worker within which a count is the next whole number, as samples are not exact."""


@dataclass(frozen=True)
class WorkerCpu:
    """Measured over the steady steps, in cores."""

    worker: float
    """One worker while it makes batches."""
    training: float
    """Everything of the run but the workers, as it will be when it does not wait for data. A
    training thread that is fed uses a core, so it is one for each rank at least."""

    def carried(self, cores: int, elsewhere: float) -> int:
        """Workers that make batches all the time on ``cores``, besides the training and what other
        programs take (``elsewhere``)."""
        count = max(int((cores - elsewhere - self.training) / self.worker + ROUNDED), 0)
        # What hardly computes is let in between whatever else runs.
        return count if self.worker > HARDLY else max(count, cores)


def worker_cpu(facts: Facts) -> WorkerCpu | None:
    """What the workers take; None where it is not known: no workers, no samples of them, or
    workers that do next to nothing.

    The samples are of all ranks of the machine, which are taken for alike.
    """
    loader, machine = training_loader(facts), machine_use(facts)
    work, share = loader_work(facts), step_breakdown(facts)
    if loader is None or work is None or share is None or not loader.num_workers:
        return None
    used, whole = machine.workers_cores, machine.tree_cores
    if used is None or whole is None or work.busy is None or work.busy < LEAST_BUSY:
        return None
    ranks = max(ranks_here(facts), 1)
    worker = used / (loader.num_workers * ranks * work.busy)
    waits = min(share.part("input_wait") / share.mean, MOST_WAIT) if share.mean else 0.0
    training = max(whole - used, 0.0) / (1 - waits)
    return WorkerCpu(max(worker, LEAST_CPU), max(training, float(ranks)))


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
    ranks (``carried``), it gets no more than its part of these.
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
