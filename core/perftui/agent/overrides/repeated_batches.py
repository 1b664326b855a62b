"""A loader that makes a few batches and then gives them again and again, which costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session


class RepeatedBatches:
    """The first batches of each loader that is asked for, and what each iterator has given."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._made: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._given: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def begin(self, loader: Any, iterator: Any) -> None:
        """``iterator`` begins an epoch of ``loader``."""
        self._made.setdefault(loader, [])
        self._loaders[iterator] = loader
        self._given[iterator] = 0

    def following(self, iterator: Any, fetch: Any) -> Any:
        """The next batch of ``iterator``, made by ``fetch`` where there are too few so far."""
        if iterator not in self._loaders:
            return fetch(iterator)
        made, given = self._made[self._loaders[iterator]], self._given[iterator]
        if len(made) < self._count:
            made.append(fetch(iterator))
            batch = made[-1]
        elif given >= _length(iterator):
            # As long an epoch as it would have been.
            raise StopIteration
        else:
            batch = made[given % self._count]
        self._given[iterator] = given + 1
        return batch


def _length(iterator: Any) -> float:
    """Batches of an epoch; without end where the loader does not know."""
    try:
        return len(iterator)
    except TypeError:
        return float("inf")


def repeat(torch: Any, session: Session, request: Request) -> None:
    """Give the first batches of the loader that ``request`` names for all others."""
    loaders, iterators = torch.utils.data.DataLoader, _iterator_class(torch)
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


def _iterator_class(torch: Any) -> Any:
    return torch.utils.data.dataloader._BaseDataLoaderIter
