"""How much of the processor the workers of a loader take, and how many more the machine carries."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.fact import Facts
from perftui.facts.loader import training_loader
from perftui.facts.loader_work import loader_work
from perftui.facts.machine import machine_use, ranks_here
from perftui.facts.steps import step_breakdown

LEAST_BUSY = 0.2
"""Workers that make batches in less of their time tell little of what one takes that does."""

LEAST_CPU = 0.02
"""Of a core: a worker that waits for a disk all the time still unpickles, copies and hands over."""

MOST_WAIT = 0.95
"""Share of a step beyond which what the training takes without waiting is mostly a guess."""

ROUNDED = 0.05
"""Of a worker: what is so near the next whole number is that number, as far as samples tell."""


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
        return max(int((cores - elsewhere - self.training) / self.worker + ROUNDED), 0)


def worker_cpu(facts: Facts) -> WorkerCpu | None:
    """What the workers take; None where the run does not say: no workers, no samples of them, or
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
