"""How long each batch takes to fetch and to collate, in the process that makes it.

That is a worker of the loader, or the training itself where the loader has no workers. Both kinds
of loader share the places that are timed: torch makes the fetcher where it is used, so it never has
to be sent to a worker, and the loader itself stays as it is.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import OrderedDict, UserDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...wire.worker_page import COLLATE, ENDED, FETCH, IDLE, PAGE, RECORD_OFFSET, VERSION
from ..hooks.watch import put_around
from ..native import CompiledPage
from ..recording.output import create_file
from ..safety.signal_handlers import raised_by_handler
from ..startup.process import declare

if TYPE_CHECKING:
    from ..native.plain import PlainPage
    from ..recording.session import Session

    # Either kind of page comes after ``PageFile``.
    Page = PlainPage
else:
    Page = object

UNKNOWN = -1

MOST_PARTS = 256
"""Parts of a batch that are looked at: 0.1 us each, and a batch of more is a list of samples."""

WITHOUT_DATA = (bool, int, float, complex, str, type(None))


def batch_bytes(torch: Any, batch: Any) -> int:
    """Bytes of the tensors, arrays and byte strings in ``batch``; -1 where they are not known.

    Looks into lists, tuples and dictionaries and runs no code of the script. Numbers and text count
    as nothing; anything else makes the whole unknown.
    """
    # Otherwise a mode of the script, or a subclass of tensors, would be called for what is read.
    with torch._C.DisableTorchFunction():
        return _batch_bytes(torch, batch)


def _batch_bytes(torch: Any, batch: Any) -> int:
    tensor, strided = torch.Tensor, torch.strided
    total, left, waiting = 0, MOST_PARTS, [batch]
    while waiting:
        part = waiting.pop()
        left -= 1
        # Types of nearly all batches come first: this runs for every batch.
        kind = type(part)
        if kind is tensor and part.layout is strided:
            total += part.nbytes
            continue
        inner = part if kind is list or kind is tuple else inside(part)
        if inner is None:
            size = _own_bytes(torch, part)
            if size < 0:
                return UNKNOWN
            total += size
        elif len(inner) + len(waiting) > left:
            return UNKNOWN
        else:
            waiting += inner
    return total


def _own_bytes(torch: Any, part: Any) -> int:
    if isinstance(part, torch.Tensor):
        if part.layout is not torch.strided:
            return UNKNOWN
        return int(part.numel() * part.element_size())
    if isinstance(part, (bytes, bytearray)):
        return len(part)
    if isinstance(part, WITHOUT_DATA):
        return 0
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(part, (numpy.ndarray, numpy.generic)):
        return UNKNOWN
    return UNKNOWN if part.dtype.hasobject else int(part.nbytes)


def inside(part: Any) -> Sequence[Any] | None:
    """Values of a container, by the methods of the builtin classes; None for anything else."""
    if isinstance(part, UserDict):
        part = vars(part).get("data")
    if isinstance(part, dict):
        return list(dict.values(part))
    if isinstance(part, list):
        return list(list.__iter__(part))
    return list(tuple.__iter__(part)) if isinstance(part, tuple) else None


class PageFile(Page):
    """File of a page: nothing is written before ``open`` or after ``close``.

    A preallocated file of its own, mapped shared, as the ring is; ``wire.worker_page`` describes
    the format.
    """

    def __init__(self) -> None:
        super().__init__()
        self._memory: ctypes.Array[ctypes.c_char] | None = None
        """Keeps the mapping at ``address`` alive."""

    def open(self, spool: Path, facts: dict[str, Any]) -> None:
        """Begin a new page in ``spool``; ``facts`` are the ``owner``, ``worker`` and ``loader``.
        Raises OSError if there is no room."""
        pid = os.getpid()
        path = spool / f"loader-{facts['owner']}-{pid}-{perf_counter_ns()}"
        memory = create_file(path, PAGE, {"version": VERSION, "pid": pid, **facts}, RECORD_OFFSET)
        self._memory = (ctypes.c_char * PAGE).from_buffer(memory)
        self.stage, self.number = IDLE, 0
        self.may_be_brief, self.is_brief = facts["worker"] < 0, False
        self.since = self.began = self.batches = self.sized = self.bytes = 0
        self.fetch = self.collate = self.squares = 0
        self.address = ctypes.addressof(self._memory) + RECORD_OFFSET
        self.mark(IDLE)

    def close(self) -> None:
        """Mark the page as ended and write no more."""
        self.is_brief = False
        self.mark(ENDED)
        self._let_go()

    def leave_to_parent(self) -> None:
        """Leave the page to the parent: this is a forked child."""
        self.forget()
        self._let_go()

    def _let_go(self) -> None:
        self.address, self._memory = 0, None


class WorkerPage(PageFile, CompiledPage):
    """Counts the batches of one loader and their stages."""

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self.batch_bytes = lambda batch: batch_bytes(torch, batch)


FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")

LOADER_ATTRIBUTE = "_perftui_loader"
"""Attribute of a fetcher in the training process: process and number of its loader."""

PAGE_ATTRIBUTE = "_perftui_page"
"""Attribute of a fetcher: its page, which it shares with earlier ones of the same loader."""

MOST_PAGES = 16
"""Loaders counted at a time in one process; the oldest makes way. Scripts that make a loader for
each epoch must not fill the memory that holds the pages."""

NO_WORKER = -1
NO_LOADER = -1
UNFOLLOWED = -2
"""A loader of a process that records no training, or whose epoch another process began."""

FETCH_CALLS = 5
"""Cost of a batch here, in hooks of average cost: 2.1 us where a compiled one costs 0.4."""


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
    """Tell the page of this process that ``iterator`` is of loader ``number``."""
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if fetcher is not None:
        setattr(fetcher, LOADER_ATTRIBUTE, (os.getpid(), number))


def _watch_fetcher(torch: Any, kind: Any, times: WorkerTimes) -> None:
    # The tuple of arguments is an object that no other call has: it stands for the batch.
    def enter(args: Any, _: Any) -> WorkerPage | None:
        fetcher, page, is_counted = args[0], None, False
        try:
            if not times.is_off:
                page = getattr(fetcher, PAGE_ATTRIBUTE, None) or times.page(fetcher)
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

    # A signal handler's exception comes where a function begins.
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
        """Whether counting has ended."""

    def fail(self, error: Exception) -> None:
        """Count no more because of ``error``, and warn; raise it if a handler of the script did."""
        if raised_by_handler(error):
            raise error
        self.is_off = True
        message = f"the times of the data loader are not recorded: {type(error).__name__}: {error}"
        with suppress(Exception):
            self._session.notes.write("warning", {"message": message})

    def after_fork(self) -> None:
        """Begin anew in a new child of the process that counted.

        The child counts for itself, except children of a worker: they would pass for the worker.
        """
        for page in self._pages.values():
            page.leave_to_parent()
        self._pages.clear()
        self.is_off = self._torch.utils.data.get_worker_info() is not None

    def page(self, fetcher: Any) -> WorkerPage:
        """The page of ``fetcher``, whose collate function is timed from now on."""
        page = self._pages.get(self._loader(fetcher)) or WorkerPage(self._torch)
        collate = fetcher.collate_fn

        def enter(*_: Any) -> None:
            try:
                page.mark(COLLATE)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)

        fetcher.collate_fn = put_around(self._torch, collate, enter)
        # Last: whoever sees it assumes that the collate function is timed.
        setattr(fetcher, PAGE_ATTRIBUTE, page)
        return page

    def _loader(self, fetcher: Any) -> int:
        """The number of the loader; ``NO_LOADER`` in a worker, which has just one."""
        process, number = getattr(fetcher, LOADER_ATTRIBUTE, (0, UNFOLLOWED))
        if self._torch.utils.data.get_worker_info() is not None:
            return NO_LOADER
        return int(number) if process == os.getpid() else UNFOLLOWED

    def open(self, page: WorkerPage, fetcher: Any) -> bool:
        """Begin ``page`` with a batch if ``fetcher`` is followed; whether it is."""
        number = self._loader(fetcher)
        if number == UNFOLLOWED:
            return False
        info = self._torch.utils.data.get_worker_info()
        worker, owner = NO_WORKER, os.getpid()
        if info is not None:
            # Checked before there is a page, whose existence allows looking.
            declare(self._tracer)
            multiprocessing = sys.modules.get("multiprocessing")
            parent = multiprocessing.parent_process() if multiprocessing is not None else None
            # The process whose loader this serves; a fork server may stand between them.
            owner = os.getppid() if parent is None or parent.pid is None else parent.pid
            worker = int(info.id)
        facts = {"owner": owner, "worker": worker, "loader": number}
        page.open(self._session.notes.path.parent, facts)
        self._pages[number] = page
        if len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)[1].close()
        page.mark(FETCH)
        return True
