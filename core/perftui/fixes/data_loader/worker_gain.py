"""What workers would gain: a step with them, reckoned from fetch, hand-over and cores."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.loader_use import worker_use
from perftui.facts.data_loader.loader_work import fetch_demand, loader_work
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import micro_batches, step_breakdown

HAND_OVER = 400_000
"""CPU time in ns that a batch of a few tensors takes on its way from a worker to the training, on
each side. Measured: 0.3 to 0.45 ms for one and two tensors, 1.4 ms for ten."""

PACKED_BYTES = 1.0
UNPACKED_BYTES = 8.0
"""Bytes a ns that a worker copies into shared memory, and that the training maps."""

START = 100_000_000
"""CPU time in ns of starting a worker by a fork of a process that holds torch."""

SEVERAL = 1.2
"""Cores that a training of one thread hardly uses."""

SHARED = 0.1
"""Cores that may be asked for beyond those there are before it is felt."""

LEAST_GAIN = 1.1
"""Times as fast, from which on workers are worth their processes and their memory."""


@dataclass(frozen=True)
class StepCost:
    """What a step consists of, ns of it; ``..._cpu`` of a core, the others of the wall clock."""

    now: float
    """The step as it is."""
    without_wait: float
    training_cpu: float
    """Time without waiting, and CPU time, of everything but making batches."""
    batches: int
    make_cpu: float
    make_blocked: float
    """Making a batch: computing, and waiting for a disk or a network."""
    packed: float
    unpacked: float
    """Handing a batch over, in the worker and in the training."""
    cores: float
    """Cores that a rank may use, besides other programs."""
    steps: int
    """Steps recorded so far, over which a start is spread."""

    def with_workers(self, count: int) -> float:
        """The step with ``count`` workers: bound by the training, by them, or by the cores."""
        busy = self.make_cpu + self.packed
        made = busy + self.make_blocked
        if self._collide(count * busy / made):
            made += busy
        training = self.without_wait + self.batches * self.unpacked
        each = self.make_cpu + self.packed + self.unpacked
        computed = (self.training_cpu + self.batches * each) / max(self.cores, 1.0)
        start = START * count / max(self.steps, 1) / max(min(self.cores, count), 1.0)
        return max(training, self.batches * made / count, computed) + start

    def _collide(self, computing: float) -> bool:
        """Whether ``computing`` workers share cores with a training of several threads.

        These spin while they wait for the one that a worker has pushed aside, so each worker gets
        half of a core. Measured on two cores, with two threads and one worker: 1.1 and 1.4 times
        as long a step as without.
        """
        used = self.training_cpu / max(self.without_wait, 1.0)
        return used > SEVERAL and used + computing > self.cores + SHARED

    def gain(self, count: int) -> float:
        """How many times as fast a step would be."""
        return self.now / self.with_workers(count)


@fact
def step_cost(facts: Facts) -> StepCost | None:
    """The parts of the step that decide over workers; None where they are not known."""
    step, work, feeds = step_breakdown(facts), loader_work(facts), training_loader(facts)
    use = machine_use(facts)
    if step is None or feeds is None or work is None or use.cores is None or not step.mean:
        return None
    if feeds.num_workers is None:
        return None
    ranks = max(ranks_here(facts), 1)
    batches = max(micro_batches(facts) or 1, 1)
    made = work.fetch + work.collate
    computing = _computing(facts, feeds.num_workers)
    wait = step.part("input_wait")
    left = float(step.mean - wait)
    whole = left
    if use.tree_cores is not None:
        own = max(use.tree_cores - (use.workers_cores or 0.0), 0.0) / ranks * step.mean
        fetched = 0 if feeds.num_workers else batches * made * computing
        # More than all cores for its time is not the training's: operators in the dataset run on
        # as many threads as there are cores, and on one each in workers.
        whole = min(max(left, own - fetched), left * max(use.cores / ranks, 1.0))
    size = work.batch_bytes or 0
    return StepCost(
        now=float(step.mean),
        without_wait=left,
        training_cpu=whole,
        batches=batches,
        make_cpu=made * computing,
        make_blocked=made * (1 - computing),
        packed=HAND_OVER + size / PACKED_BYTES,
        unpacked=HAND_OVER + size / UNPACKED_BYTES,
        cores=(use.cores - (use.other_cores or 0.0)) / ranks,
        steps=step.count,
    )


def _computing(facts: Facts, workers: int) -> float:
    """Share of making a batch that takes a core, waits for one counted in."""
    if not workers:
        found = fetch_demand(facts)
        return 1.0 if found is None else found
    use = worker_use.or_none(facts)
    return 1.0 if use is None else use.computing
