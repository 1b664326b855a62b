"""Leaves one side of a training out for one run, to measure its cost: the loader, or the output.

Such a run trains nothing of use; only how long its steps take is looked at.
"""

from __future__ import annotations

import builtins
import logging
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from time import perf_counter_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..recording.recording import StepLimit
from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session

WARM_UP = 16
"""Batches that are not timed: workers start, and have made some before they are asked."""

FEWEST = 20
"""Batches that are timed, however long they take."""


def drain(torch: Any, session: Session, request: Request) -> None:
    """Time the loader that ``request`` names when its first epoch begins, then end the script."""
    loaders = torch.utils.data.DataLoader
    original = loaders.__iter__
    seconds = float(request.arguments["loader_alone"])

    def begin(loader: Any) -> Any:
        site, _ = session.loaders.origins.get(loader, (None, None))
        if not request.covers(site):
            return original(loader)
        # Before the timed epochs, so that this runs once even where one of them raises.
        loaders.__iter__ = original
        batches, ns = timed(_epochs(original, loader), seconds)
        session.overrides.report(request.note({}, request.arguments, site))
        session.notes.write("loader_alone", {"batches": batches, "ns": ns})
        raise StepLimit

    loaders.__iter__ = begin


def timed(batches: Iterator[Any], seconds: float) -> tuple[int, int]:
    """Count and duration (ns) of the batches after ``WARM_UP``, within about ``seconds``."""
    began, count, warm = perf_counter_ns(), 0, 0
    for _ in batches:
        now = perf_counter_ns()
        if warm < WARM_UP:
            began, warm = now, warm + 1
            continue
        count += 1
        if count >= FEWEST and now - began >= seconds * 1e9:
            break
    return count, now - began if count else 0


def _epochs(start: Any, loader: Any) -> Iterator[Any]:
    """Batches of one epoch after the other, until one is empty."""
    has_batches = True
    while has_batches:
        has_batches = False
        for batch in start(loader):
            has_batches = True
            yield batch


VARIABLES = {"TQDM_DISABLE": "1", "WANDB_MODE": "disabled"}
"""Variables that progress bars and Weights & Biases read at import."""

WRITERS = frozenset({"torch.utils.tensorboard.writer", "tensorboardX.writer"})
"""Modules that define a ``SummaryWriter``."""


def silence(torch: Any, session: Session, request: Request) -> None:
    """Drop output that the script prints, logs and saves; errors are still reported."""
    os.environ.update(VARIABLES)
    builtins.print = _nothing
    # The script's own writes, and those of progress bars.
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    logging.disable(logging.CRITICAL)
    torch.save = torch.serialization.save = _nothing
    sys.meta_path.insert(0, _Writers())
    session.overrides.report(request.note({}, request.arguments))


class _Writers:
    """A finder that lets the writers of TensorBoard write nothing once they are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module of ``WRITERS`` by the other finders, its loader watched."""
        if name not in WRITERS:
            return None
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                writer = getattr(module, "SummaryWriter", None)
                for name in vars(writer or object):
                    if name.startswith("add_"):
                        setattr(writer, name, _nothing)

            loader.exec_module = exec_module
        return spec


def _nothing(*_: Any, **__: Any) -> None:
    """Stands in for methods that write."""


class RepeatedBatches:
    """The first batches of each loader, and how many batches each iterator has returned."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._batches: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._positions: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def begin(self, loader: Any, iterator: Any) -> None:
        """``iterator`` begins an epoch of ``loader``."""
        self._batches.setdefault(loader, [])
        self._loaders[iterator] = loader
        self._positions[iterator] = 0

    def following(self, iterator: Any, fetch: Any) -> Any:
        """The next batch of ``iterator``, by ``fetch`` until there are enough to repeat."""
        if iterator not in self._loaders:
            return fetch(iterator)
        batches, index = self._batches[self._loaders[iterator]], self._positions[iterator]
        if len(batches) < self._count:
            batches.append(fetch(iterator))
            batch = batches[-1]
        elif index >= _length(iterator):
            # The epoch is as long as it would have been.
            raise StopIteration
        else:
            batch = batches[index % self._count]
        self._positions[iterator] = index + 1
        return batch


def _length(iterator: Any) -> float:
    """Batches of an epoch; without end where the loader does not know."""
    try:
        return len(iterator)
    except TypeError:
        return float("inf")


def repeat(torch: Any, session: Session, request: Request) -> None:
    """Repeat the first batches of the loader that ``request`` names in place of all others."""
    loaders = torch.utils.data.DataLoader
    iterators = torch.utils.data.dataloader._BaseDataLoaderIter
    repeated = RepeatedBatches(int(request.arguments["repeated_batches"]))
    start, fetch = loaders.__iter__, iterators.__next__

    def begin(loader: Any) -> Any:
        iterator = start(loader)
        site, _ = session.loaders.origins.get(loader, (None, None))
        if request.covers(site):
            repeated.begin(loader, iterator)
            session.overrides.report(request.note({}, request.arguments, site))
        return iterator

    loaders.__iter__ = begin
    iterators.__next__ = lambda iterator: repeated.following(iterator, fetch)


Start = Callable[[Any, "Session", Request], None]

SIDES: dict[str, Start] = {"repeated_batches": repeat, "loader_alone": drain, "output": silence}
"""Functions by the argument of the override."""


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Leave out the side that is asked for; the note refuses unknown arguments."""
    for request in requests:
        unknown = [name for name in request.arguments if name not in SIDES]
        if unknown:
            why = "this version of perftui does not know it"
            session.overrides.report(request.note(dict.fromkeys(unknown, why), {}))
            continue
        for name in request.arguments:
            SIDES[name](torch, session, request)
