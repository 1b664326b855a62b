"""Workers of the data loader die."""

from __future__ import annotations

from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.data_loader.worker_deaths import worker_death
from perftui.facts.fact import Facts, NotApplicableError

_WHY = {
    "shared memory": "it has run out of shared memory, in which workers hand over batches",
    "open files": "each tensor that is handed over takes a file, and no more may be opened",
    "killed": "a signal has ended it, as where the machine runs out of memory",
    "ended": "it has ended by itself; its own error is further up in the output",
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
        (Figure("messages of the kind", death.messages, "count"),),
        share=WORKERS_DIED.limits.info,
    )


WORKERS_DIED = Rule(
    id="workers-died",
    when="workers of the data loader die, or run out of shared memory",
    explanation=(
        "Workers hand over batches in shared memory (/dev/shm), of which a container has 64 MB "
        "unless it is started with more: docker run --shm-size=8g, or --ipc=host. Fewer workers "
        "and a lower prefetch_factor take less. Where the machine runs out of memory the kernel "
        "ends a worker; where too many files are open, ulimit -n or "
        "torch.multiprocessing.set_sharing_strategy('file_system') helps."
    ),
    lost=_died,
    limits=Limits.of_hint(0.5, "Any is a fault, but what it costs is not a part of a step."),
    answer="more shared memory (--shm-size), fewer workers, a lower prefetch_factor",
)
