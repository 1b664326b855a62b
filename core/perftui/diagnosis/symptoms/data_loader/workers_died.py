"""Workers of the data loader die."""

from __future__ import annotations

from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.data_loader.worker_deaths import worker_death
from perftui.facts.fact import Facts, NotApplicableError

_WHY = {
    "shared memory": "it ran out of shared memory, through which workers hand over batches",
    "open files": "each tensor handed over takes an open file, and the limit is reached",
    "killed": "a signal killed it, as when the machine runs out of memory",
    "ended": "it exited by itself; its own error is further up in the output",
}


def _died(facts: Facts) -> Lost | None:
    """What it costs is not known: mostly it is the run."""
    death = worker_death.or_none(facts)
    if facts.run is None:
        raise NotApplicableError
    if death is None:
        return None
    return Lost(
        0,
        None,
        f'A worker of the data loader failed ("{death.message}"): {_WHY[death.cause]}.',
        (Figure("messages of this kind", death.messages, "count"),),
        share=WORKERS_DIED.limits.info,
    )


WORKERS_DIED = Rule(
    id="workers-died",
    when="workers of the data loader die, or run out of shared memory",
    explanation=(
        "Workers hand over batches in shared memory (/dev/shm). A container has 64 MB of it "
        "unless started with more: docker run --shm-size=8g, or --ipc=host. Fewer workers and a "
        "lower prefetch_factor need less. If the machine runs out of memory, the kernel kills a "
        "worker; if too many files are open, ulimit -n or "
        "torch.multiprocessing.set_sharing_strategy('file_system') helps."
    ),
    lost=_died,
    limits=Limits.of_hint(0.5, "Any death is a fault, but its cost is not part of a step."),
    answer="more shared memory (--shm-size), fewer workers, a lower prefetch_factor",
)
