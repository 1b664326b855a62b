"""The machine during the steady steps: its use, its cores, and waits for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact, finite, samples
from perftui.facts.gpu.cards import own_gpus, peak_reserved
from perftui.facts.settings import settings
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import steady_span
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.table import Aggregates, Table
from perftui.telemetry.gpu.names import bits_of, gpu_name, gpu_prefixes

BUSY_SHARE = 0.2
"""Share of the cores from which other programs slow a training that uses all of them."""

BUSY_PRESSURE = 10.0
"""Percent of stalled time (/proc/pressure/cpu). Above it, a change that is 8 % slower on an idle
machine measured as 9x faster. Below it no task had to wait for a core, whoever used the others."""


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one GPU over a whole run, in bytes."""

    prefix: str
    """Column prefix: ``gpu0``, or ``gpu0.mig1`` for a MIG device."""
    total: int
    peak: int
    """Peak use sampled, of all processes: others on the card take room too."""

    @property
    def name(self) -> str:
        """Display name of the GPU."""
        return gpu_name(self.prefix)

    @property
    def share(self) -> float:
        """Peak over total."""
        return self.peak / self.total


@dataclass(frozen=True)
class MachineFacts:
    """Means over the steady steps; None if not sampled."""

    cores: int | None = None
    """Cores the training may use."""
    installed_cores: int | None = None
    """Cores of the whole machine: a container or an affinity may allow fewer."""
    tree_cores: float | None = None
    """Cores kept busy by the training and its workers."""
    workers_cores: float | None = None
    """Cores kept busy by the data loader workers of all ranks on the machine."""
    rest_cores: float | None = None
    """Cores kept busy by other processes of the training: neither ranks nor workers."""
    perftui_cores: float | None = None
    """Cores kept busy by perftui itself; None in older runs."""
    workers_read: float | None = None
    """Bytes a second that workers read from storage."""
    machine_cores: float | None = None
    """Cores kept busy by everything on the machine."""
    pressure: float | None = None
    """Percent of time some task waited for a core (pressure stall information)."""
    delayed: float | None = None
    """Share of time in which a training process had a runnable thread waiting for a core, 0 to
    1."""
    system_share: float | None = None
    """Share of the CPU time of the processes that train that they spend in the kernel, 0 to 1."""
    minor_faults: float | None = None
    """Pages a second that they use for the first time; both None in older runs."""
    swapped_in: float | None = None
    """Bytes a second that the machine read back from swap."""
    memory_pressure: float | None = None
    """Percent of time some task waited for memory (pressure stall information)."""
    cards: int = 0
    """Sampled cards of the machine, whoever uses them."""
    holds_memory: bool = False
    """Whether a card lists memory of the run's own processes. It may not even if they hold some: in
    a container the driver uses process ids of another namespace."""
    gpu_busy: float | None = None
    """Share of time with a kernel running, sampled by NVML, of the busiest card the run uses; 0 to
    1. Also None if its cards are unknown."""
    idle_cards: int = 0
    """Cards without any kernel, whoever might have used them."""
    memory: tuple[DeviceMemory, ...] = ()
    """Memory of the cards the run uses, as far as they are known."""

    @property
    def other_cores(self) -> float | None:
        """Allowed cores taken by other programs.

        On a machine with more cores, others are assumed to use the cores outside first."""
        if self.tree_cores is None or self.machine_cores is None:
            return None
        of_run = self.tree_cores + (self.perftui_cores or 0.0)
        return max(self.machine_cores - of_run - self._out_of_reach, 0.0)

    @property
    def idle_cores(self) -> float | None:
        """Allowed cores that nothing used."""
        if self.cores is None or self.machine_cores is None:
            return None
        idle = self.cores + self._out_of_reach - self.machine_cores
        return max(min(idle, self.cores - (self.tree_cores or 0.0)), 0.0)

    @property
    def _out_of_reach(self) -> int:
        """Cores of the machine that the training may not use."""
        if self.cores is None or self.installed_cores is None:
            return 0
        return max(self.installed_cores - self.cores, 0)


def _mean(table: Table, name: str, unit: float = 1.0) -> float | None:
    """Mean of the metric ``name`` in ``unit``; None if not sampled."""
    values, sums = finite(table, name), table.sums.of().of(name)
    count = len(values) + sums.count
    return (float(values.sum()) + sums.total) / count / unit if count else None


@fact
def machine_use(facts: Facts) -> MachineFacts:
    """Use of the rank's host over its steady steps."""
    run, rank = facts.run, facts.rank
    if run is None or rank is None:
        return MachineFacts()
    table = samples(facts)
    sums = table.sums.of()
    mean = partial(_mean, _within(table, steady_span(facts)))
    cores, counted = run.manifest.cpu_count or None, mean("cpu.cores")
    installed = cores if counted is None else round(counted)
    busy = mean("cpu.utilization", 100)
    # In older runs the column covers everything the training had started.
    tells_workers = "processes.ranks_cpu" in table
    gpus = gpu_prefixes(column.name for column in table.columns)
    cards = [gpu for gpu in gpus if "." not in gpu]
    # GPUs of which the run's own processes held memory at some time.
    used = holding = [
        gpu
        for gpu, name in ((gpu, f"{gpu}.process_memory") for gpu in gpus)
        if (finite(table, name) > 0).any() or sums.of(name).above_zero
    ]
    # Of a card in MIG mode, only its MIG devices are used.
    whole_ones = [gpu for gpu in gpus if not any(other.startswith(f"{gpu}.") for other in gpus)]
    if not holding and len(whole_ones) == 1 and computes_on_gpu(facts):
        used = whole_ones
    own = [own_gpus.or_none(facts.of_rank(place)) for place in _places_here(facts)]
    # Unknown of any rank, the cards of the others are not all.
    if None not in own and (of_ranks := {gpu for of_rank in own for gpu in of_rank or ()}):
        used = [gpu for gpu in gpus if gpu in of_ranks]
    shares = [mean(f"{gpu}.utilization", 100) for gpu in used]
    system, trains = mean("processes.ranks_system"), mean("processes.ranks_cpu")
    return MachineFacts(
        cores=cores,
        installed_cores=installed,
        tree_cores=mean("processes.cpu", 100),
        workers_cores=mean("processes.workers_cpu", 100) if tells_workers else None,
        rest_cores=mean("processes.rest_cpu", 100) if tells_workers else None,
        perftui_cores=mean("processes.perftui_cpu", 100),
        workers_read=mean("processes.workers_read"),
        machine_cores=None if busy is None or not installed else busy * installed,
        pressure=mean("pressure.cpu"),
        system_share=min(system / trains, 1.0) if system is not None and trains else None,
        minor_faults=mean("processes.ranks_minor_faults"),
        swapped_in=mean("swap.in"),
        memory_pressure=mean("pressure.memory"),
        delayed=mean("processes.delayed", 100),
        cards=len(cards),
        holds_memory=bool(holding),
        gpu_busy=max((share for share in shares if share is not None), default=None),
        idle_cards=sum(mean(f"{card}.utilization") == 0 for card in cards),
        memory=tuple(_memory(table, used)),
    )


def _within(table: Table, during: tuple[int, int] | None) -> Table:
    """Samples taken inside ``during``; all if there are none (steps shorter than the interval)."""
    if during is None:
        return table
    rows, sums = table, table.sums.of()
    if "time" in table:
        inside = (table["time"] >= during[0]) & (table["time"] <= during[1])
        rows = table.where(inside) if inside.any() else table
    is_within = during[0] <= sums.first <= sums.last <= during[1]
    return replace(rows, sums=table.sums if is_within else Aggregates())


@fact
def has_gpu(facts: Facts) -> bool | None:
    """Whether the training has a GPU; None if unknown."""
    if computes_on_gpu(facts) or machine_use(facts).holds_memory:
        return True
    if facts.run is None:
        return None
    # A card in the machine proves nothing: many a training there computes on the CPU.
    steps_tell = "reserved" in facts.steps and len(facts.steps)
    return False if steps_tell or not facts.run.manifest.gpus else None


def computes_on_gpu(facts: Facts) -> bool:
    """Whether PyTorch held GPU memory at the end of any step, or a trace shows GPU work."""
    trace = trace_steps.or_none(facts)
    return peak_reserved(facts) is not None or bool(trace and trace.has_gpu)


def _memory(table: Table, gpus: list[str]) -> Iterator[DeviceMemory]:
    """Peaks over the whole run: memory that ran short in the warm-up ran short."""
    for gpu in gpus:
        used = finite(table, f"{gpu}.memory_used")
        total = finite(table, f"{gpu}.memory_total")
        if len(used) and len(total) and total.max() > 0:
            peak = max(used.max(), table.sums.of().of(f"{gpu}.memory_used").highest)
            yield DeviceMemory(gpu, int(total.max()), int(peak))


@fact
def ranks_here(facts: Facts) -> int:
    """Training processes on the rank's host, which share its cores."""
    return len(_places_here(facts)) or 1


def _places_here(facts: Facts) -> set[int]:
    if facts.run is None or facts.rank is None:
        return set()
    return {rank.place for rank in facts.run.ranks if rank.host == facts.rank.host}


@fact
def busy_host(facts: Facts) -> str:
    """Why the rank's host was too busy to measure on; empty if it was not."""
    use = machine_use(facts)
    if use.pressure is not None and use.pressure <= BUSY_PRESSURE:
        return ""
    if use.other_cores is not None and use.cores:
        is_much = use.other_cores >= BUSY_SHARE * use.cores
        return f"other programs used {use.other_cores:.1f} of {use.cores} cores" if is_much else ""
    if use.pressure is None:
        return ""
    return f"tasks waited for a core {use.pressure:.0f} % of the time"


BUSY = 0.8
"""Share of the allowed cores from which a training is limited by them."""

TOO_MANY = 1.5
"""Threads per core from which there are too many: a few more than cores cost little."""

BUSY_WORKER = 0.1
"""Cores kept busy by workers from which one needs a core: on two, one of them for a worker, a step
took 20 ms with one thread and 26 with two."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that set the threads of an operator, if the script does not."""

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""Variables by which OpenMP pins each thread to its own core: the affinity of one thread then says
nothing about the others."""


@dataclass(frozen=True)
class CpuShare:
    """Cores of one machine during the steady steps."""

    threads: int
    """Threads that torch uses within an operator, in each process."""
    ranks: int
    """Training processes on the machine."""
    allowed: int
    """Cores that they may use, by affinity and quota."""
    installed: int
    used: float
    """Cores kept busy by them and their child processes."""
    idle: float
    """Allowed cores that nothing used."""
    idle_outside: float
    """Cores outside the allowed ones that nothing used."""
    has_workers: bool
    """Whether there are data loader workers."""
    for_workers: int
    """Cores that busy workers need: work that is split over them waits for the slowest core."""
    by_quota: bool
    """Whether a container's quota sets the limit: torch knows an affinity, but not a quota."""

    @property
    def asked(self) -> int:
        """Threads of all processes together."""
        return self.threads * self.ranks

    @property
    def is_crowded(self) -> bool:
        """Whether there are many more threads than cores, and not because of an affinity mask."""
        many = self.threads > 1 and self.asked >= TOO_MANY * self.allowed
        return many and (self.by_quota or not self.is_bound)

    @property
    def is_bound(self) -> bool:
        """Whether fewer cores than installed are allowed, these are busy, and others idle."""
        is_kept = self.allowed < self.installed and self.idle_outside >= 0.5
        return is_kept and self.used >= BUSY * self.allowed

    @property
    def gain(self) -> float:
        """Share of time that all idle cores would save if work split evenly, 0 to 1."""
        return 1 - self.allowed / (self.allowed + self.idle_outside)


@fact
def cpu_share(facts: Facts) -> CpuShare:
    """Cores of the rank's host during the steady steps. Not applicable if the run does not name
    torch's number of threads, as older ones. Unknown if the use of cores was not sampled."""
    setup, use = settings(facts), machine_use(facts)
    threads = setup.threads.intra_op
    if threads is None:
        raise NotApplicableError
    if use.machine_cores is None or use.tree_cores is None or not use.cores:
        raise UnknownError("the use of cores was not sampled")
    installed = use.installed_cores or use.cores
    allowed = min(use.cores, installed)
    is_bound_by_openmp = any(name in (setup.environment or {}) for name in BINDING)
    if setup.cores.affinity and not is_bound_by_openmp:
        allowed = min(allowed, setup.cores.affinity)
    unused = max(installed - use.machine_cores, 0.0)
    idle = max(min(unused, allowed - min(use.tree_cores, float(allowed))), 0.0)
    workers = training_loader(facts)
    working = use.workers_cores or 0.0
    return CpuShare(
        threads=threads,
        ranks=ranks_here(facts),
        allowed=allowed,
        installed=installed,
        used=use.tree_cores,
        idle=idle,
        idle_outside=max(min(unused - idle, installed - allowed), 0.0),
        has_workers=bool(workers and workers.num_workers),
        for_workers=math.ceil(working) if working >= BUSY_WORKER else 0,
        by_quota=bool(setup.cores.affinity and use.cores < setup.cores.affinity),
    )


@fact
def core_wait(facts: Facts) -> float:
    """Share of time, 0 to 1, in which a runnable thread of the training waited for a core because
    of other programs; 0 if none takes much. Unknown if waits were not sampled, or there are too few
    steps."""
    return _waited(facts, machine_use(facts).other_cores) if busy_host(facts) else 0.0


@fact
def wait_for_own_processes(facts: Facts) -> float:
    """Share of time, 0 to 1, in which a runnable thread of the training waited for a core because
    of child processes that neither train nor load data; 0 if they take less than a fifth of the
    cores. Unknown as for ``core_wait``."""
    return wait_for(facts, machine_use(facts).rest_cores)


def wait_for(facts: Facts, taken: float | None) -> float:
    """Share of time, 0 to 1, in which a runnable thread of the training waited for a core because
    of processes that keep ``taken`` cores busy; 0 if that is less than a fifth of the cores."""
    cores = machine_use(facts).cores
    return _waited(facts, taken) if cores and taken and taken >= BUSY_SHARE * cores else 0.0


def without_core_wait(facts: Facts, ns: int) -> int:
    """Python's ``ns`` of a step without waits for a core, which are assumed to be spread evenly
    over the step."""
    return round(ns * (1 - (core_wait.or_none(facts) or 0.0)))


def _waited(facts: Facts, taken: float | None) -> float:
    """The part of the wait for cores due to programs that keep ``taken`` cores busy, not to others
    or to more threads of the training than cores."""
    use = machine_use(facts)
    if not taken or not use.cores:
        return 0.0
    if use.delayed is None:
        raise UnknownError("how long its threads waited for a core was not sampled")
    return use.delayed * taken / _wanted_beside(facts)


def _wanted_beside(facts: Facts) -> float:
    """Cores that programs, children and workers keep busy, and that the training's own threads
    would need more than there are."""
    use, threads = machine_use(facts), settings(facts).threads.intra_op or 1
    asked = 0 if judged_step(facts).on_device else threads * ranks_here(facts)
    beside = (use.other_cores, use.rest_cores, use.workers_cores)
    return sum(cores or 0.0 for cores in beside) + max(asked - (use.cores or 0), 0)


def wait_for_thread(facts: Facts, taken: float) -> float:
    """Share of time, 0 to 1, in which a runnable thread of the training waited for a core because
    of one more thread of its process, which runs Python that share of the time; 0 if that is less
    than a fifth of the cores, or waits were not sampled."""
    use = machine_use(facts)
    if not use.delayed or not use.cores or taken < BUSY_SHARE * use.cores:
        return 0.0
    return use.delayed * taken / (taken + _wanted_beside(facts))


FEWEST_SAMPLES = 5
"""Fewest samples for a meaningful share."""


@dataclass(frozen=True, eq=False)
class GpuCard:
    """What was sampled of one card; shares are 0 to 1, None if not sampled."""

    prefix: str
    """Column prefix: ``gpu0``, or ``gpu0.mig1`` for a MIG device."""
    samples: Table

    @property
    def name(self) -> str:
        """Display name of the GPU."""
        return gpu_name(self.prefix)

    def values(self, metric: str) -> npt.NDArray[np.float64]:
        """Finite samples of a metric: clocks, heat and the link of a MIG device are of its card."""
        own = f"{self.prefix}.{metric}"
        of_card = f"{self.prefix.partition('.')[0]}.{metric}"
        return finite(self.samples, own if own in self.samples else of_card)

    def most(self, metric: str) -> float | None:
        """The highest sample of a metric."""
        return max(self.values(metric).tolist(), default=None)

    def mean(self, metric: str) -> float | None:
        """The mean sample of a metric."""
        values = self.values(metric)
        return float(values.mean()) if len(values) else None

    def held_down(self, kind: str) -> float | None:
        """Share of samples with clocks held down by ``THERMAL`` or ``POWER``."""
        reasons = self.values("throttle_reasons").astype(np.int64)
        return float(np.mean(reasons & bits_of(kind) != 0)) if len(reasons) else None

    @property
    def clock(self) -> float | None:
        """Mean SM clock over the maximum, while it computed."""
        clock, most = self.mean("clock_sm"), self.most("clock_sm_max")
        return clock / most if clock and most else None

    @property
    def memory_others(self) -> float | None:
        """Bytes that other processes held at all times."""
        used, mine = self.values("memory_used"), self.values("process_memory")
        return float((used - mine).min()) if len(used) == len(mine) > 0 else None


@fact
def cards(facts: Facts) -> tuple[GpuCard, ...]:
    """Cards of the rank's host; empty if none was sampled, or its own are unknown."""
    table, during = samples(facts) if facts.rank else Table(), steady_span(facts)
    if during is not None and "time" in table:
        table = table.where((table["time"] >= during[0]) & (table["time"] <= during[1]))
    if len(table) < FEWEST_SAMPLES:
        return ()
    return tuple(GpuCard(memory.prefix, table) for memory in machine_use(facts).memory)
