"""The page on which a worker of a data loader, or the training itself, counts its batches.

A preallocated file of its own, mapped shared, as the ring is. ``wire.worker_page`` describes the
format.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import UserDict
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...wire.worker_page import ENDED, IDLE, PAGE, RECORD, RECORD_OFFSET, VERSION
from ..native.compiled import CompiledPage
from ..output.ring import create_file

if TYPE_CHECKING:
    from ..native.plain import PlainPage as Page
else:
    # Either kind of page comes after it.
    Page = object


UNKNOWN = -1

MOST_PARTS = 256
"""Parts of a batch that are looked at: 0.1 us each, and a batch of more is a list of samples."""

WITHOUT_DATA = (bool, int, float, complex, str, type(None))


def batch_bytes(torch: Any, batch: Any) -> int:
    """Bytes of the tensors, arrays and byte strings in ``batch``; -1 where they are not known.

    Looks into lists, tuples and dictionaries and runs no code of the script: what else is found
    makes the whole unknown, but for numbers and text, which count as nothing.
    """
    # A mode of the script, or a subclass of tensors, would be called for what is read here.
    with torch._C.DisableTorchFunction():
        return _batch_bytes(torch, batch)


def _batch_bytes(torch: Any, batch: Any) -> int:
    tensor, strided = torch.Tensor, torch.strided
    total, left, waiting = 0, MOST_PARTS, [batch]
    while waiting:
        part = waiting.pop()
        left -= 1
        # What nearly all batches are made of comes first: this runs for every batch.
        kind = type(part)
        if kind is tensor and part.layout is strided:
            total += part.nbytes
            continue
        inner = part if kind is list or kind is tuple else _inside(part)
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
    return 0 if isinstance(part, WITHOUT_DATA) else _array_bytes(part)


def _inside(part: Any) -> Sequence[Any] | None:
    """What a container holds, by the methods of the builtin ones; None where it is none."""
    if isinstance(part, UserDict):
        part = vars(part).get("data")
    if isinstance(part, dict):
        return list(dict.values(part))
    if isinstance(part, list):
        return list(list.__iter__(part))
    if isinstance(part, tuple):
        return list(tuple.__iter__(part))
    return None


def _array_bytes(part: Any) -> int:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(part, (numpy.ndarray, numpy.generic)):
        return UNKNOWN
    return UNKNOWN if part.dtype.hasobject else int(part.nbytes)


class PageFile(Page):
    """Where a page writes: nothing before ``open`` or after ``close``."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: ctypes.Array[ctypes.c_char] | None = None
        """Keeps what is mapped at ``address``."""

    def open(self, spool: Path, facts: dict[str, Any]) -> None:
        """Begin a new page in ``spool``; ``facts`` are the ``owner``, ``worker`` and ``loader``.

        Raises:
            OSError: no room.
        """
        pid = os.getpid()
        header = {"version": VERSION, "record": RECORD.format, "record_offset": RECORD_OFFSET}
        path = spool / f"loader-{facts['owner']}-{pid}-{perf_counter_ns()}"
        memory = create_file(path, PAGE, {**header, "pid": pid, **facts}, RECORD_OFFSET)
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
    """Counts what becomes of the batches of one loader."""

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self.tensor, self.strided = torch.Tensor, torch.strided
        self.modes = torch._C._len_torch_function_stack
        self.batch_bytes = lambda batch: batch_bytes(torch, batch)
