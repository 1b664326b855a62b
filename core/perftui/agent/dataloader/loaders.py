"""The data loaders of one process: their setup, data, consumers, and live iterators."""

from __future__ import annotations

import io
import multiprocessing
import re
import types
from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePath
from typing import Any, Optional
from weakref import WeakKeyDictionary, WeakSet

from ..hooks.call_site import CallSite
from ..overrides.request import Outcome
from ..recording.output import Notes
from ..recording.settings import nested
from ..recording.steps import TRAIN
from ..safety.signal_handlers import attempt, raised_by_handler
from .worker_times import name_loader

FILE_PACKAGES = frozenset({"h5py", "lmdb", "sqlite3", "zarr", "tables", "rasterio"})
"""Packages whose objects are handles: forked workers would share one file position or lock."""

PATH_NAMES = re.compile(r"(^|_)(root|path|paths|dir|folder|files?|filenames?|samples|url)s?$")
"""Attributes that name the place of data, even without a path separator in the text."""

MOST_WRAPPED = 4
"""Most nested datasets, such as subsets, to look into."""


def source_of(dataset: Any) -> dict[str, Any]:
    """``path`` that the dataset names; the scheme of a URL is its ``filesystem``, that of other
    paths is found by the recorder.

    Nothing is looked up on that file system, which may be slow. Links are not followed.
    """
    path = _path(dataset)
    if path is None:
        return {}
    scheme, separator, _ = path.partition("://")
    return (
        {"path": path, "filesystem": scheme} if separator else {"path": str(Path(path).absolute())}
    )


def _path(dataset: Any) -> str | None:
    for _ in range(MOST_WRAPPED):
        attributes = getattr(dataset, "__dict__", {})
        for name, value in attributes.items():
            # The first of a list, or of a list of pairs.
            for _ in range(2):
                if type(value) in (list, tuple) and value:
                    value = value[0]
            text = str(value) if isinstance(value, PurePath) else value
            if isinstance(text, str) and _is_path(str(name), text):
                return text
        dataset = attributes.get("dataset")
    return None


def _is_path(name: str, text: str) -> bool:
    if not 0 < len(text) < 1024 or "\n" in text:
        return False
    return text.startswith(("/", "./", "../")) or bool(PATH_NAMES.search(name.lower()))


def is_iterable_style(torch: Any, dataset: Any) -> bool:
    """Whether the dataset itself decides on the next sample (every worker gets a whole copy)."""
    return isinstance(dataset, torch.utils.data.IterableDataset)


def shards_itself(dataset: Any) -> bool:
    """Whether the dataset's code asks which worker it runs in.

    The evidence is the name ``get_worker_info`` in a method of its class; code that shards in
    another way is not recognised.
    """
    return any("get_worker_info" in code.co_names for code in nested(_class_code(type(dataset))))


def holds_handles(dataset: Any) -> bool:
    """Whether an attribute is an open file, a database handle or a running generator."""
    return any(
        isinstance(value, (io.IOBase, types.GeneratorType))
        or type(value).__module__.split(".", 1)[0] in FILE_PACKAGES
        for value in _attributes(dataset)
    )


def holds_cuda_tensors(torch: Any, dataset: Any) -> bool:
    """Whether an attribute is a tensor on a GPU, or a sequence that begins with one."""
    for value in _attributes(dataset):
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(first, torch.Tensor) and first.is_cuda:
            return True
    return False


def is_local(thing: Any) -> bool:
    """Whether a function or class cannot be found by its name, and so cannot be pickled."""
    name = getattr(thing, "__qualname__", "")
    return isinstance(name, str) and ("<locals>" in name or "<lambda>" in name)


def _attributes(dataset: Any) -> list[Any]:
    return list(getattr(dataset, "__dict__", {}).values())


def _class_code(kind: type) -> Iterator[types.CodeType]:
    for base in kind.__mro__:
        if base.__module__.split(".", 1)[0] in ("torch", "typing", "builtins"):
            continue
        for member in vars(base).values():
            code = getattr(member, "__code__", None)
            if isinstance(code, types.CodeType):
                yield code


def start_method(context: Any) -> str:
    """How workers would start under a loader's ``multiprocessing_context`` (a name or object)."""
    if isinstance(context, str):
        return context
    get = getattr(context, "get_start_method", None) or multiprocessing.get_start_method
    # Asking must not settle the default: the script may still set one.
    return get(allow_none=True) or multiprocessing.get_all_start_methods()[0]


UNKNOWN = -1


SETTINGS = (
    "num_workers",
    "pin_memory",
    "prefetch_factor",
    "persistent_workers",
    "batch_size",
    "drop_last",
    "timeout",
)

SHUFFLES = {"RandomSampler": True, "SequentialSampler": False}
"""A sampler of the user's own may shuffle too; its name says nothing either way."""


def loader_facts(
    torch: Any, loader: Any, site: CallSite | None, outcome: Outcome | None
) -> dict[str, Any]:
    """Data of a ``loader`` note, without its number."""
    sampler = type(getattr(loader, "sampler", None)).__name__
    dataset, collate = loader.dataset, getattr(loader, "collate_fn", None)
    is_iterable = is_iterable_style(torch, dataset)
    facts = {
        "class": _name(type(loader)),
        **{name: getattr(loader, name, None) for name in SETTINGS},
        "sampler": sampler,
        "batch_sampler": type(getattr(loader, "batch_sampler", None)).__name__,
        "shuffle": SHUFFLES.get(sampler),
        "start_method": start_method(getattr(loader, "multiprocessing_context", None)),
        "dataset": type(dataset).__name__,
        "dataset_module": type(dataset).__module__,
        "is_iterable": is_iterable,
        "shards": shards_itself(dataset) if is_iterable else None,
        **(attempt(source_of, dataset) or {}),
        "holds_files": holds_handles(dataset),
        "holds_cuda": holds_cuda_tensors(torch, dataset),
        # An iterable dataset may compute its length by reading everything.
        "length": None if is_iterable else attempt(len, dataset),
        "collate_fn": _name(collate),
        "collate_is_lambda": is_local(collate),
    }
    if site is not None:
        facts.update(site._asdict())
    if outcome is not None:
        facts["requested"] = outcome.requested
    return facts


def fetches_itself(iterator: Any) -> bool:
    """Whether the thread that asks for a batch also makes it: the loader has no workers."""
    return getattr(iterator, "_num_workers", UNKNOWN) == 0


def batches_ready(iterator: Any) -> int:
    """Batches that wait in the queues of a loader with workers; -1 if unknown.

    Counts batches that arrived out of order, lie in the workers' queue or are pinned already. A
    loader without workers has no queue. ``qsize`` is missing on macOS.
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


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{getattr(thing, '__module__', '')}.{name}"


Origins = WeakKeyDictionary[Any, tuple[Optional[CallSite], Outcome]]
"""Call site of each loader, and the outcome of its overrides."""

MOST_ALIKE = 1000
"""Kinds of loaders that are remembered: scripts make a handful, unless no two are alike."""


class Loaders:
    """Numbers loaders from 1 as they are first used, and notes the facts of each once.

    A loader that is constructed anew for each epoch keeps one number: it takes that of an equal
    loader that is gone. So scripts that construct millions leave no more notes than others.
    """

    def __init__(self, torch: Any, notes: Notes, origins: Origins) -> None:
        """``origins`` is filled by constructors; a forked child takes it over from its parent."""
        self._torch = torch
        self._notes = notes
        self._next = count(1)
        self.origins = origins
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._alike: dict[str, list[int]] = {}
        """Numbers of equal loaders, by all their facts."""
        self._iterators: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._live: WeakKeyDictionary[Any, None] = WeakKeyDictionary()
        self._starting: WeakSet[Any] = WeakSet()
        """Iterators whose workers have started and returned nothing yet."""
        self._roles: dict[int, str] = {}
        self._in_use: set[int] = set()
        self._workers: dict[int, list[int]] = {}
        """Processes of each loader's newest workers."""

    def started(self, loader: Any, iterator: Any) -> None:
        """``iterator`` begins an epoch of ``loader``."""
        number = self._numbers.get(loader)
        if number is None:
            number = self._numbers[loader] = self._number(loader)
        # An iterator that has begun epochs before has persistent workers.
        if iterator not in self._iterators and not fetches_itself(iterator):
            self._starting.add(iterator)
        name_loader(iterator, number)
        # Processes of the workers are noted whenever they change.
        pids = [worker.pid for worker in getattr(iterator, "_workers", None) or ()]
        if pids and self._workers.get(number) != pids:
            self._workers[number] = pids
            self._notes.write("loader", {"id": number, "workers": pids})
        self._iterators[iterator] = number
        self._live[iterator] = None

    def _number(self, loader: Any) -> int:
        site, outcome = self.origins.get(loader, (None, None))
        facts = loader_facts(self._torch, loader, site, outcome)
        if len(self._alike) > MOST_ALIKE:
            self._alike.clear()
        alike = self._alike.setdefault(repr(facts), [])
        living = set(self._numbers.values())
        for number in alike:
            if number not in living:
                return number
        number = next(self._next)
        alike.append(number)
        self._notes.write("loader", {"id": number, **facts})
        return number

    def exhausted(self, iterator: Any) -> None:
        """``iterator`` gives no more batches this epoch; None if it is gone."""
        if iterator is not None:
            self._live.pop(iterator, None)

    def leave_behind(self) -> None:
        """Another thread is followed now: fetches of the live iterators will not be seen."""
        self._live.clear()

    def is_starting(self, iterator: Any) -> bool:
        """Whether a batch of ``iterator`` has to wait for its workers to start; true once."""
        is_starting = iterator in self._starting
        if is_starting:
            self._starting.remove(iterator)
        return is_starting

    def any_live(self) -> bool:
        """Whether some iterator has begun and not ended."""
        return len(self._live) > 0

    def use(self, iterator: Any) -> None:
        """The current step uses a batch of the loader behind ``iterator``."""
        number = self._iterators.get(iterator)
        if number is not None:
            self._in_use.add(number)

    def feeds_training(self, iterator: Any) -> bool:
        """Whether training steps are known to use batches of the loader of ``iterator``."""
        return self._roles.get(self._iterators.get(iterator, 0)) == TRAIN

    def step_ended(self, kind: str) -> None:
        """A step of ``kind`` has ended, which shows the role of the loaders that fed it.

        A loader that has fed a training step is a training loader, whatever else it feeds.
        """
        for number in self._in_use:
            if self._roles.get(number) not in (kind, TRAIN):
                self._roles[number] = kind
                self._notes.write("loader", {"id": number, "role": kind})
        self._in_use.clear()
