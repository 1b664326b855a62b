"""How long the training waits for a core that others take: other programs, or processes that it has
started itself."""

from __future__ import annotations

from perftui.facts.cpu.machine import BUSY_SHARE, busy_host, machine_use, ranks_here
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.settings import settings
from perftui.facts.step.judged_step import judged_step


@fact
def core_wait(facts: Facts) -> float:
    """Share of the time, 0 to 1, in which a thread of the training was ready to run but waited for
    a core because of other programs; 0 if none takes much.

    Raises:
        UnknownError: how long its threads waited was not sampled, or there are too few steps.
    """
    return _waited(facts, machine_use(facts).other_cores) if busy_host(facts) else 0.0


@fact
def wait_for_own_processes(facts: Facts) -> float:
    """Share of the time, 0 to 1, in which a thread of the training was ready to run but waited for
    a core because of processes that the training started and that neither train nor load data; 0
    if they take less than a fifth of the cores.

    Raises:
        UnknownError: as for ``core_wait``.
    """
    use = machine_use(facts)
    taken = use.rest_cores or 0.0
    return _waited(facts, taken) if use.cores and taken >= BUSY_SHARE * use.cores else 0.0


def without_core_wait(facts: Facts, ns: int, mean: int) -> float:
    """``ns`` of Python in a step of ``mean`` as a share of it, without the waits for a core that
    are taken to lie in it as in all else."""
    return ns * (1 - (core_wait.or_none(facts) or 0.0)) / mean if mean else 0.0


def _waited(facts: Facts, taken: float | None) -> float:
    """The part of the wait for cores that is due to who keeps ``taken`` of them busy, and not to
    others or to more threads of the training than cores."""
    use = machine_use(facts)
    if not taken or not use.cores:
        return 0.0
    if use.delayed is None:
        raise UnknownError("how long its threads waited for a core was not sampled")
    known = settings(facts)
    threads = known.threads.intra_op if known and known.threads else None
    asked = 0 if judged_step(facts).on_device else (threads or 1) * ranks_here(facts)
    own = max(asked - use.cores, 0)
    return use.delayed * taken / ((use.other_cores or 0.0) + (use.rest_cores or 0.0) + own)
