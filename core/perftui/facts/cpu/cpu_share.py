"""The cores that a training on the CPU may use, how many it asks for, and how many idle."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.settings import settings

BUSY = 0.8
"""Share of the cores a training may use from which on it is bound to them."""

TOO_MANY = 1.5
"""Threads for each core from which on they are too many: a few more than cores cost little."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that set how many threads an operator has, where the script does not."""

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""Variables by which OpenMP keeps each thread to a core of its own: the mask of one thread then
shows nothing of the others."""


@dataclass(frozen=True)
class CpuShare:
    """Cores of one machine while the steady steps ran."""

    threads: int
    """Threads that torch uses within an operator, in each process."""
    ranks: int
    """Processes that train on the machine."""
    allowed: int
    """Cores that they may use, by affinity and quota."""
    installed: int
    used: float
    """Cores that they and what they started kept busy."""
    idle: float
    """Allowed cores that nothing used."""
    idle_outside: float
    """Cores of the machine beside the allowed ones that nothing used."""
    has_workers: bool
    """Whether data-loader workers run beside them."""
    by_quota: bool
    """Whether a quota of the container sets the limit: torch does not know of it, unlike of a
    mask."""

    @property
    def asked(self) -> int:
        """Threads of all processes together."""
        return self.threads * self.ranks

    @property
    def is_crowded(self) -> bool:
        """Whether there are many more threads than cores, and no mask is the reason."""
        many = self.threads > 1 and self.asked >= TOO_MANY * self.allowed
        return many and (self.by_quota or not self.is_bound)

    @property
    def is_bound(self) -> bool:
        """Whether fewer cores than installed are allowed, busy, and asked for more of."""
        is_kept = self.allowed < self.installed and self.idle_outside >= 0.5
        return is_kept and self.used >= BUSY * self.allowed

    @property
    def gain(self) -> float:
        """Share of time that all idle cores would save, if work is split evenly, 0 to 1."""
        return 1 - self.allowed / (self.allowed + self.idle_outside)


@fact
def cpu_share(facts: Facts) -> CpuShare:
    """Cores of the rank's host while the steady steps ran.

    Raises:
        NotApplicableError: the run does not name how many threads torch has, as older ones.
        UnknownError: the use of cores was not sampled.
    """
    known, use = settings(facts), machine_use(facts)
    threads = known.threads.intra_op if known and known.threads else None
    if known is None or threads is None:
        raise NotApplicableError
    if use.machine_cores is None or use.tree_cores is None or not use.cores:
        raise UnknownError("the use of cores was not sampled")
    installed = use.installed_cores or use.cores
    allowed = min(use.cores, installed)
    is_bound_by_openmp = any(name in (known.environment or {}) for name in BINDING)
    if known.cores and known.cores.affinity and not is_bound_by_openmp:
        allowed = min(allowed, known.cores.affinity)
    unused = max(installed - use.machine_cores, 0.0)
    own = min(use.tree_cores, float(allowed))
    idle = max(min(unused, allowed - own), 0.0)
    workers = training_loader(facts)
    return CpuShare(
        threads=threads,
        ranks=ranks_here(facts),
        allowed=allowed,
        installed=installed,
        used=use.tree_cores,
        idle=idle,
        idle_outside=max(min(unused - idle, installed - allowed), 0.0),
        has_workers=bool(workers and workers.num_workers),
        by_quota=bool(known.cores and known.cores.affinity and use.cores < known.cores.affinity),
    )
