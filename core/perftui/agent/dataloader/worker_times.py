"""How long each batch takes to fetch and to collate, in the process that makes it.

That is a worker of the loader, or the training itself where the loader has none. The places are
those that both kinds of loader share: torch makes the fetcher where it is used, so it never has to
be sent to a worker, and the loader itself stays as it is.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...wire.worker_page import COLLATE, FETCH
from ..hooks.around import put_around
from ..safety.signal_handlers import raised_by_handler
from ..startup.process import declare
from .worker_page import WorkerPage

if TYPE_CHECKING:
    from ..recording.session import Session

FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")

LOADER = "_perftui_loader"
"""Attribute of a fetcher in the training process: that process and the number of its loader."""

PAGE = "_perftui_page"
"""Attribute of a fetcher: its page, which it shares with earlier ones of the same loader."""

MOST_PAGES = 16
"""Loaders that are counted at a time in one process; the one that began first makes way. Scripts
that make a loader for each epoch must not fill the memory that holds the pages."""

NO_WORKER = -1
NO_LOADER = -1
UNFOLLOWED = -2
"""A loader of a process that records no training, or whose epoch another process began."""

FETCH_CALLS = 3
"""What a batch costs here, in hooks of the average cost: 1.3 us where a compiled one costs 0.4."""


def watch(torch: Any, session: Session, tracer: int) -> None:
    """Time the fetchers of ``torch`` in this process and in those that fork from it.

    Workers let the descendants of process ``tracer`` look at them, if it is not 0.
    """
    times = WorkerTimes(torch, session, tracer)
    fetch_module = torch.utils.data._utils.fetch
    for name in FETCHERS:
        _watch_fetcher(torch, getattr(fetch_module, name), times)
    os.register_at_fork(after_in_child=times.after_fork)


def name_loader(iterator: Any, number: int) -> None:
    """Say that ``iterator`` is of loader ``number``, where this process fetches for it."""
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if fetcher is not None:
        setattr(fetcher, LOADER, (os.getpid(), number))


def worker_pids(iterator: Any) -> list[int]:
    """The processes that fetch for ``iterator``; none where it has no workers."""
    return [worker.pid for worker in getattr(iterator, "_workers", None) or ()]


def _watch_fetcher(torch: Any, kind: Any, times: WorkerTimes) -> None:
    # The arguments of a call are an object that no other call has: they stand for the batch.
    def enter(args: Any, _: Any) -> WorkerPage | None:
        fetcher, page, is_counted = args[0], None, False
        try:
            page = None if times.is_off else getattr(fetcher, PAGE, None) or times.page(fetcher)
            if page is not None and page.enter(args):
                is_counted = bool(page.address) or times.open(page, fetcher)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with us, loading goes on
            times.fail(error)
        finally:
            if page is not None and not is_counted:
                page.leave(args)
        return page if is_counted else None

    def leave(args: Any, page: WorkerPage, batch: Any, arrived: bool) -> None:
        try:
            if arrived:
                page.count(batch)
        except Exception as error:  # noqa: BLE001 - as above
            times.fail(error)
        finally:
            page.leave(args)

    # What a signal handler raises comes where a function begins.
    kind.fetch = put_around(torch, kind.fetch, enter, leave, insists=True)


class WorkerTimes:
    """The pages of one process. An error of ours ends the counting, and nothing else; what a signal
    handler of the script raises here is passed on to it."""

    def __init__(self, torch: Any, session: Session, tracer: int) -> None:
        self._torch = torch
        self._session = session
        self._tracer = tracer
        self._pages: OrderedDict[int, WorkerPage] = OrderedDict()
        self.is_off = False
        """Whether nothing is counted any more."""

    def fail(self, error: Exception) -> None:
        """Count no more because of ``error``, and warn; one of the script's handlers is raised."""
        if raised_by_handler(error):
            raise error
        self.is_off = True
        message = f"the times of the data loader are not recorded: {type(error).__name__}: {error}"
        with suppress(Exception):
            self._session.notes.write("warning", {"message": message})

    def after_fork(self) -> None:
        """Begin anew in a new child of the process that counted.

        The child counts for itself, but for children of a worker: they would pass for the worker.
        """
        for page in self._pages.values():
            page.leave_to_parent()
        self._pages.clear()
        self.is_off = self._torch.utils.data.get_worker_info() is not None

    def page(self, fetcher: Any) -> WorkerPage:
        """The page of ``fetcher``, which from now on times its collate function too."""
        page = self._pages.get(self._loader(fetcher)) or WorkerPage(self._torch)
        collate = fetcher.collate_fn

        def enter(*_: Any) -> None:
            try:
                page.mark(COLLATE)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)

        fetcher.collate_fn = put_around(self._torch, collate, enter)
        # Last: who finds it takes the collate function for one that is timed.
        setattr(fetcher, PAGE, page)
        return page

    def _loader(self, fetcher: Any) -> int:
        """The number of the loader. A worker has but one, and does not know its number."""
        process, number = getattr(fetcher, LOADER, (0, UNFOLLOWED))
        if self._torch.utils.data.get_worker_info() is not None:
            return NO_LOADER
        return int(number) if process == os.getpid() else UNFOLLOWED

    def open(self, page: WorkerPage, fetcher: Any) -> bool:
        """Begin ``page`` with a batch, if ``fetcher`` is one that is followed; whether it is."""
        number = self._loader(fetcher)
        if number == UNFOLLOWED:
            return False
        info = self._torch.utils.data.get_worker_info()
        if info is not None:
            # Before there is a page: who finds that may look.
            declare(self._tracer)
        worker, owner = (NO_WORKER, os.getpid()) if info is None else (int(info.id), _parent())
        page.open(
            self._session.notes.path.parent, {"owner": owner, "worker": worker, "loader": number}
        )
        self._pages[number] = page
        if len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)[1].close()
        page.mark(FETCH)
        return True


def _parent() -> int:
    """The process whose loader this worker serves; a fork server may stand between them."""
    multiprocessing = sys.modules.get("multiprocessing")
    parent = multiprocessing.parent_process() if multiprocessing is not None else None
    return os.getppid() if parent is None or parent.pid is None else parent.pid
