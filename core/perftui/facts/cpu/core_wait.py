"""How long the training waits for a core that other programs take."""

from __future__ import annotations

from perftui.facts.cpu.machine import busy_host, machine_use, ranks_here
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.settings import settings
from perftui.facts.step.judged_step import judged_step


@fact
def core_wait(facts: Facts) -> float:
    """Share of the time, 0 to 1, in which a thread of the training was ready to run and waited for
    a core, as far as others were the reason and not more threads of its own than cores; 0 where no
    other program takes much.

    Raises:
        UnknownError: how long its threads waited was not sampled, or there are too few steps.
    """
    use = machine_use(facts)
    if not busy_host(facts) or not use.other_cores or not use.cores:
        return 0.0
    if use.delayed is None:
        raise UnknownError("how long its threads waited for a core was not sampled")
    known = settings(facts)
    threads = known.threads.intra_op if known and known.threads else None
    asked = 0 if judged_step(facts).on_device else (threads or 1) * ranks_here(facts)
    own = max(asked - use.cores, 0)
    return use.delayed * use.other_cores / (use.other_cores + own)


def without_core_wait(facts: Facts, ns: int, mean: int) -> float:
    """``ns`` of Python in a step of ``mean`` as a share of it, without the waits for a core that
    are taken to lie in it as in all else."""
    return ns * (1 - (core_wait.or_none(facts) or 0.0)) / mean if mean else 0.0
