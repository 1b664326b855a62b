"""``loader-prefetch``: a longer queue of batches behind the workers."""

from __future__ import annotations

import math

from perftui import format as fmt
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_work import loader_work
from perftui.facts.data_loader.wait_pattern import wait_pattern
from perftui.facts.fact import Facts
from perftui.fixes.call_source import CallChange
from perftui.fixes.data_loader.loader import loader_change
from perftui.fixes.fix import Fix
from perftui.fixes.model import Risk

DEFAULT = 2
"""What torch takes where workers are asked for and nothing else is."""

DEEPER = 4
"""Times as long a queue, if it is not known how many batches a pause of the workers lasts."""

MOST = 32
"""Batches of one worker: beyond that they are as well a copy of the data."""

LARGEST_QUEUE = 2 << 30
"""Bytes that all batches of a queue may take."""


def _deeper(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    now = loader.prefetch_factor or DEFAULT
    wanted = _wanted(facts, loader, now)
    title = f"prefetch_factor {now} -> {wanted}" if wanted > now else "a longer queue of batches"
    arguments = {"prefetch_factor": wanted}
    why_not = _why_not(facts, loader, now, wanted)
    return loader_change(loader, title, arguments, (Risk.MEMORY,), why_not)


def _wanted(facts: Facts, loader: LoaderFacts, now: int) -> int:
    """As many batches of each worker as bridge the steps from one long wait to the next, and fit
    into memory."""
    workers, pattern, largest = loader.num_workers or 1, wait_pattern(facts), _batch_bytes(facts)
    wanted = DEEPER * now
    if pattern is not None and pattern.is_regular and pattern.every > 1:
        wanted = max(2 * now, math.ceil(pattern.every / workers))
    if largest:
        wanted = min(wanted, LARGEST_QUEUE // (workers * largest))
    return max(min(wanted, MOST), 1)


def _batch_bytes(facts: Facts) -> int | None:
    made = loader_work(facts)
    return made.batch_bytes if made else None


def _why_not(facts: Facts, loader: LoaderFacts, now: int, wanted: int) -> str:
    if loader.num_workers is None:
        return "it is not known whether the loader has workers"
    if not loader.num_workers:
        return "the loader has no workers, and so no queue"
    if wanted > now:
        return ""
    size = _batch_bytes(facts)
    if now < MOST and size:
        return (
            f"the queue already holds {fmt.size(size * loader.num_workers * now)} and should not "
            "take more memory"
        )
    return f"each worker may already be {now} batches ahead"


PREFETCH = Fix(
    id="loader-prefetch",
    what="let each worker prefetch more batches",
    explanation=(
        "Each worker may prefetch more batches, so that ready batches bridge a slow one. Samples "
        "and their order stay the same, unless a sampler of your own draws random numbers for "
        "each sample: it draws them earlier. The queue takes more shared memory, of which "
        "containers often have only 64 MB."
    ),
    change=_deeper,
    risks=(Risk.MEMORY,),
)
