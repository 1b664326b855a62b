"""Facts about a DataLoader: how it is set up, what it reads, and how full its queue is."""

from __future__ import annotations

from typing import Any

from ..hooks.call_site import CallSite
from ..overrides.data_loader import start_method
from ..overrides.request import Outcome
from ..safety.signal_handlers import attempt, raised_by_handler
from . import dataset as datasets

UNKNOWN = -1


def loader_facts(
    torch: Any, loader: Any, number: int, site: CallSite | None, outcome: Outcome | None
) -> dict[str, Any]:
    """Data of a ``loader`` note; ``number`` distinguishes the loaders of one process."""
    facts = {"id": number, "class": _name(type(loader)), **_settings(loader)}
    facts.update(_dataset_facts(torch, loader.dataset))
    facts.update(_collate_facts(loader))
    if site is not None:
        facts.update(file=site.file, line=site.line, end_line=site.end_line)
        facts["function"] = site.function
    if outcome is not None:
        facts["requested"] = outcome.requested
    return facts


def fetches_itself(iterator: Any) -> bool:
    """Whether the thread that asks for a batch also makes it: the loader has no workers."""
    return getattr(iterator, "_num_workers", UNKNOWN) == 0


def batches_ready(iterator: Any) -> int:
    """Batches that wait in the queues of a loader with workers; -1 where that is not known.

    Counts what has arrived out of order, what lies in the workers' queue and what is pinned
    already. A loader without workers has no queue. ``qsize`` is missing on macOS.
    """
    tasks = getattr(iterator, "_task_info", None)
    queue = getattr(iterator, "_data_queue", None)
    if tasks is None or queue is None:
        return UNKNOWN
    try:
        # A task's entry holds its data once it has arrived too early.
        ready = sum(len(task) == 2 for task in tasks.values()) + int(queue.qsize())
        results = iterator._worker_result_queue
        return ready if results is queue else ready + int(results.qsize())
    except (NotImplementedError, AttributeError, OSError) as error:
        if raised_by_handler(error):
            raise
        return UNKNOWN


_SETTINGS = (
    "num_workers",
    "pin_memory",
    "prefetch_factor",
    "persistent_workers",
    "batch_size",
    "drop_last",
    "timeout",
)


def _settings(loader: Any) -> dict[str, Any]:
    settings = {name: getattr(loader, name, None) for name in _SETTINGS}
    sampler = type(getattr(loader, "sampler", None)).__name__
    settings["sampler"] = sampler
    settings["batch_sampler"] = type(getattr(loader, "batch_sampler", None)).__name__
    # A sampler of the user's own may shuffle too; its name says nothing either way.
    shuffles = {"RandomSampler": True, "SequentialSampler": False}
    settings["shuffle"] = shuffles.get(sampler)
    settings["start_method"] = start_method(getattr(loader, "multiprocessing_context", None))
    return settings


def _dataset_facts(torch: Any, dataset: Any) -> dict[str, Any]:
    kind = type(dataset)
    iterable = datasets.is_iterable_style(torch, dataset)
    return {
        "dataset": kind.__name__,
        "dataset_module": kind.__module__,
        "is_iterable": iterable,
        "shards": datasets.shards_itself(dataset) if iterable else None,
        **(attempt(datasets.source_of, dataset) or {}),
        "holds_files": datasets.holds_handles(dataset),
        "holds_cuda": datasets.holds_cuda_tensors(torch, dataset),
        # That of an iterable dataset may be computed by reading all of it.
        "length": None if iterable else attempt(len, dataset),
    }


def _collate_facts(loader: Any) -> dict[str, Any]:
    collate = getattr(loader, "collate_fn", None)
    return {"collate_fn": _name(collate), "collate_is_lambda": datasets.is_local(collate)}


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{getattr(thing, '__module__', '')}.{name}"
