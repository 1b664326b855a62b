"""Workers of a data loader: how many, what they would gain, and none where they cost more."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from perftui import format as fmt
from perftui.facts.cpu.machine import busy_host, machine_use, ranks_here
from perftui.facts.data_loader.input_wait import step_without_workers
from perftui.facts.data_loader.loader import (
    LoaderFacts,
    fetch_cpu,
    fetch_demand,
    loader_work,
    measured_workers,
    training_loader,
    worker_use,
)
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import micro_batches, steady_step, step_breakdown
from perftui.fixes.data_loader import WITHOUT_WORKERS, lacks_workers, loader_change
from perftui.fixes.fix import CallChange, fix, offered
from perftui.fixes.option import FixOption, Risk
from perftui.script.command_line import script_of
from perftui.script.program import PatchRefusedError, parse_program, read_source

FIRST_TRY = 4
"""Most workers for a loader that has none: gains level off between two and four a device, while
memory and start-up grow with each."""

UNKNOWN_CORES = 2
"""Workers where the number of cores is not known: fewest that fetch while another collates."""

LEAST_BUSY = 0.2
"""Workers that are busy for less of their time show little of what a busy one takes."""

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
    """CPU use over the steady steps, in cores."""

    worker: float
    """Cores of one worker while it makes batches."""
    training: float
    """Cores of the rest of the run when it does not wait for data. A training thread that is fed
    uses a core, so it is one for each rank at least."""

    def carried(self, cores: int, elsewhere: float) -> int:
        """Workers that make batches all the time on ``cores``, besides the training and what other
        programs take (``elsewhere``)."""
        count = max(int((cores - elsewhere - self.training) / self.worker + ROUNDED), 0)
        # Workers that hardly compute are let in between whatever else runs.
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
    """Parts of a step, ns: of a core for ``..._cpu``, else of the wall clock."""

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
        batch = busy + self.make_blocked
        if self._collide(count * busy / batch):
            batch += busy
        training = self.without_wait + self.batches * self.unpacked
        cost = self.make_cpu + self.packed + self.unpacked
        computed = (self.training_cpu + self.batches * cost) / max(self.cores, 1.0)
        start = START * count / max(self.steps, 1) / max(min(self.cores, count), 1.0)
        return max(training, self.batches * batch / count, computed) + start

    def _collide(self, computing: float) -> bool:
        """Whether ``computing`` workers share cores with a training of several threads.

        These spin while they wait for the one that a worker has pushed aside, so each worker gets
        half of a core. Measured on two cores, with two threads and one worker: 1.1 and 1.4 times
        as long a step as without.
        """
        used = self.training_cpu / max(self.without_wait, 1.0)
        return used > SEVERAL and used + computing > self.cores + SHARED

    def gain(self, count: int) -> float:
        """Speed-up of a step with ``count`` workers."""
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
    making = work.fetch + work.collate
    # Share of making a batch that takes a core, with its waits.
    share, used = fetch_demand(facts), worker_use.or_none(facts)
    computing = 1.0 if share is None else share
    if feeds.num_workers:
        computing = 1.0 if used is None else used.computing
    left = float(step.mean - step.part("input_wait"))
    whole = left
    if use.tree_cores is not None:
        own = max(use.tree_cores - (use.workers_cores or 0.0), 0.0) / ranks * step.mean
        fetched = 0 if feeds.num_workers else batches * making * computing
        # More than all cores for that time is not the training's: operators in the dataset run on
        # as many threads as there are cores, but on one each in workers.
        whole = min(max(left, own - fetched), left * max(use.cores / ranks, 1.0))
    size = work.batch_bytes or 0
    return StepCost(
        now=float(step.mean),
        without_wait=left,
        training_cpu=whole,
        batches=batches,
        make_cpu=making * computing,
        make_blocked=making * (1 - computing),
        packed=HAND_OVER + size / PACKED_BYTES,
        unpacked=HAND_OVER + size / UNPACKED_BYTES,
        cores=(use.cores - (use.other_cores or 0.0)) / ranks,
        steps=step.count,
    )


ENOUGH_IDLE = 0.75
"""Share of the cores new workers need that has to be idle before: other programs come and go, and a
step that computes on one thread of two cores leaves a little less than one."""


def with_workers(facts: Facts, count: int) -> FixOption | None:
    """The fix with ``count`` workers, whatever these would gain."""
    loader = training_loader(facts)
    if loader is None:
        return None
    return offered(loader_workers, _change(facts, loader, count, _unsafe(facts, loader)), facts)


@fix(
    what="fetch batches in worker processes while the step computes",
    risks=(Risk.CORES, Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY),
)
def loader_workers(facts: Facts) -> CallChange | None:
    """Worker processes fetch and collate batches while the step computes, and stay alive between
    epochs. Samples stay the same, and so does their order in the first epoch; later epochs are
    shuffled differently, because persistent workers draw fewer random numbers. Random augmentation
    draws different values: each worker has its own seed. Each worker holds a copy of the data that
    the dataset touches."""
    # More workers for the loader that feeds the training: as many as were measured to serve it
    # best, else as many as the machine carries.
    loader = training_loader(facts)
    if loader is None:
        return None
    curve = measured_workers(facts)
    if curve is not None and curve.best is not None:
        return _change(facts, loader, curve.best, _unsafe(facts, loader))
    machine, taken = machine_use(facts), worker_cpu(facts)
    elsewhere = machine.other_cores or 0.0
    wanted = worker_count(
        loader.num_workers or 0,
        machine.cores,
        ranks=ranks_here(facts),
        busy_elsewhere=elsewhere,
        idle=machine.idle_cores,
        fetch_cpu=_fetching(facts),
        carried=taken.carried(machine.cores, elsewhere) if taken and machine.cores else None,
    )
    return _change(facts, loader, wanted, refused(facts, loader, wanted))


def _change(facts: Facts, loader: LoaderFacts, wanted: int, why_not: str) -> CallChange:
    current = loader.num_workers or 0
    more = f"more than {fmt.several(current, 'worker')}"
    title = f"num_workers {current} -> {wanted}" if wanted else more
    arguments = {"num_workers": wanted, "persistent_workers": True}
    return loader_change(loader, title, arguments, why_not, risks=_risks(facts, wanted - current))


def _fetching(facts: Facts) -> float | None:
    """Share of fetching that takes a core. Measured computing stands for it only where no other
    program takes the cores."""
    demand = fetch_demand(facts)
    return fetch_cpu(facts) if demand is None and not busy_host(facts) else demand


def _risks(facts: Facts, added: int) -> tuple[Risk, ...]:
    """Workers that compute take cores from a step that computes on all of them.

    Measured on two cores: a network with two intra-op threads and one worker took 1.4 times as
    long as without, as its threads wait for one another; with one thread it was 1.6 times faster.
    """
    risks = (Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY)
    idle = machine_use(facts).idle_cores
    taken = worker_cpu(facts)
    computes = _fetching(facts)
    per_worker = taken.worker if taken else 1.0 if computes is None else computes
    needed = added * per_worker
    scarce = idle is not None and idle < ENOUGH_IDLE * needed
    return (Risk.CORES, *risks) if scarce else risks


def refused(facts: Facts, loader: LoaderFacts, wanted: int) -> str:
    """Why workers would be wrong or useless here, empty where nothing speaks against them."""
    if wanted == 0:
        cores, taken = machine_use(facts).cores, worker_cpu(facts)
        if cores is None:
            return "it is not known how many cores are free for more workers"
        why = f"of {fmt.several(cores, 'core')}"
        if taken is not None:
            training = f"the training {taken.training:.1f} without waiting"
            why = f"a busy worker uses {taken.worker:.1f} {why}, {training}"
        return f"no core is free for more workers ({why})"
    return _unsafe(facts, loader) or _without_gain(facts, wanted)


def _unsafe(facts: Facts, loader: LoaderFacts) -> str:
    """Why workers would be wrong here, empty where nothing speaks against them."""
    if loader.is_iterable and not loader.shards:
        return (
            "the dataset is iterable and does not shard itself across workers: each worker would "
            "yield every sample"
        )
    if loader.holds_files:
        return "the dataset holds open files or generators, which workers would share"
    if loader.holds_cuda:
        return "the dataset holds tensors on the GPU, which forked workers cannot use"
    if loader.dataset == "TensorDataset":
        return (
            "the samples are already tensors in memory: copying them between processes costs more"
        )
    # Workers that are not forked import the script again and receive everything pickled.
    if loader.start_method in (None, "fork"):
        return ""
    if loader.collate_is_lambda:
        return f"collate_fn is a lambda, which cannot be sent to workers ({loader.start_method})"
    again = f"workers start by {loader.start_method}, which runs the script again"
    guarded = _has_main_guard(facts)
    if guarded is None:
        return f"{again}, and the command does not show which script that is"
    if not guarded:
        return f'{again}: it needs `if __name__ == "__main__":` around the training'
    return ""


def _without_gain(facts: Facts, wanted: int) -> str:
    """Why workers would not help; empty where the step gets shorter."""
    cost = step_cost(facts)
    if cost is None or cost.gain(wanted) >= LEAST_GAIN:
        return ""
    made = fmt.duration(cost.make_cpu + cost.make_blocked)
    handed = fmt.duration(cost.packed + cost.unpacked)
    now, then = fmt.duration(cost.now), fmt.duration(cost.with_workers(wanted))
    return (
        f"{fmt.several(wanted, 'worker')} would gain nothing: a batch takes {made} to make and "
        f"{handed} to hand over, {cost.cores:.1f} cores are left for both, and the step would take "
        f"{then} instead of {now}"
    )


def _has_main_guard(facts: Facts) -> bool | None:
    """Whether the script is certain to test ``__name__``; None where it cannot be read."""
    script = script_of(facts.manifest)
    if script is None:
        return None
    try:
        program = parse_program(read_source(script.path))
    except PatchRefusedError:
        return None
    tests = (node.test for node in program.tree.body if isinstance(node, ast.If))
    return any("__name__" in ast.unparse(test) for test in tests)


@fix(
    what="make batches in the training process, without handing them over",
    risks=(Risk.RANDOMNESS, Risk.ORDER),
)
def loader_no_workers(facts: Facts) -> CallChange | None:
    """The training process makes each batch itself: nothing is packed, sent or unpacked. Samples
    stay the same, and so does their order in the first epoch; if workers stayed between epochs,
    later epochs are shuffled differently. Random augmentation draws different values, now from the
    training's own random state. Changes that the dataset makes to itself persist."""
    loader = training_loader(facts)
    if loader is None:
        return None
    title = f"num_workers {loader.num_workers} -> 0" if loader.num_workers else "no workers"
    # Arguments that only workers can have are left out with them.
    change = loader_change(
        loader, title, {"num_workers": 0}, _why_not_without(facts, loader), WITHOUT_WORKERS
    )
    lacks = "without prefetch_factor and other arguments for workers"
    return replace(change, advice=f"{change.advice} {lacks}")


def _why_not_without(facts: Facts, loader: LoaderFacts) -> str:
    if why_not := lacks_workers(loader):
        return why_not
    if loader.is_iterable:
        return "the dataset is iterable: without workers its samples come in another order"
    step, then = steady_step.or_none(facts), step_without_workers.or_none(facts)
    if step is None or then is None or step.mean >= LEAST_GAIN * then:
        return ""
    return (
        f"without workers a step would take {fmt.duration(then)} instead of "
        f"{fmt.duration(step.mean)}"
    )
