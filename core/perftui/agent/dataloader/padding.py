"""How much of the batches that the training computes on is padding: a few are checked.

Batches are read from memory, without any operator of torch: so no profiler sees it, no mode or
subclass of the script is called, nothing waits for a GPU. Rows that are no text must not pass for
padded text: tables of categories, images, one-hot rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, UserDict
from collections.abc import Iterator
from ctypes import string_at
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from ..recording.model import all_modules, own_parameters
from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .worker_times import inside

FEWEST_VALUES = 8
"""Different values that text has at least, padding aside; fewer are flags or classes."""

MOST_ALIKE = 0.75
"""Share of padded rows that end at the same place, beyond which it is a property of the columns:
texts differ in length, a table has the same empty columns in most rows."""

MOST_CHECKED = 1 << 12
"""Most tokens outside padding that are looked at: 0.1 us each."""

TYPES = {1: "B", 4: "i", 8: "q"}
"""Type codes of ``array`` by the size of a value in bytes."""

Rows = list["array[int]"]


class Padding(NamedTuple):
    """Padding at the end of each row, or at the beginning of each."""

    rows: int
    tokens: int
    padded: int
    """Tokens that are padding."""
    spare: int
    """Padding tokens in columns that are padding in all rows: cutting the batch to its longest row
    removes them."""


def padding_of_ids(rows: Rows) -> Padding:
    """Padding of ``rows`` of one length: the longest run at the end of a row, or else at the
    beginning, of one value that is the same in all rows with such a run."""
    mirrored = [row[::-1] for row in rows]
    runs, begins = _runs(rows), _runs(mirrored)
    if sum(begins) > sum(runs):
        rows, runs = mirrored, begins
    return _padding(rows, runs if _is_text(rows, runs) else [0] * len(rows))


def padding_of_mask(rows: Rows) -> Padding | None:
    """Padding by an attention mask of zeros and ones: zeros at the end of rows that begin with
    ones. None where ``rows`` are no such mask."""
    runs = [_run(row, 0) for row in rows]
    texts = _without(rows, runs)
    if max(runs) == len(rows[0]) or any(text.count(1) < len(text) for text in texts):
        return None
    return _padding(rows, runs)


def _padding(rows: Rows, runs: list[int]) -> Padding:
    count = len(rows)
    return Padding(count, count * len(rows[0]), sum(runs), count * min(runs))


def _without(rows: Rows, runs: list[int]) -> Rows:
    """The rows without the run at the end of each."""
    return [row[: len(row) - run] for row, run in zip(rows, runs, strict=True)]


def _runs(rows: Rows) -> list[int]:
    """Length of the run of equal values at the end of each row, 0 for a single value; all 0 where
    the values of the runs differ between rows."""
    if len({row[-1] for row in rows if row[-1] == row[-2]}) != 1:
        return [0] * len(rows)
    return [_run(row, row[-1]) if row[-1] == row[-2] else 0 for row in rows]


def _run(row: array[int], value: int) -> int:
    """Length of the run of ``value`` at the end, by binary search."""
    whole = array(row.typecode, [value]) * len(row)
    lengths = range(1, len(row) + 1)
    return bisect_left(lengths, True, key=lambda length: row[-length:] != whole[:length])


def _is_text(rows: Rows, runs: list[int]) -> bool:
    """Whether rows with these runs look like texts of different lengths."""
    padded = [run for run in runs if run]
    if not padded or Counter(padded).most_common(1)[0][1] > MOST_ALIKE * len(padded):
        return False
    pad = rows[runs.index(padded[0])][-1]
    tokens = [*islice(chain.from_iterable(_without(rows, runs)), MOST_CHECKED)]
    # Texts may end with the padding value themselves: that is one more in each row.
    strays = tokens.count(pad) if pad >= 0 else len(tokens)
    return strays <= len(rows) and len(set(tokens)) >= FEWEST_VALUES and min(tokens) >= 0


MOST_PARTS = 64
"""Most parts of a batch that are looked at."""

MOST_ROWS = 64
MOST_TOKENS = 1 << 13
"""Rows of a tensor that are looked at, and tokens in them; of very long rows ``LONG_ROWS``."""

LONG_ROWS = 4

MOST_TENSORS = 4
"""Most tensors looked at for ignored targets."""

FEWEST_ROWS = 8
FEWEST_TOKENS = 256
SHORTEST = 8
"""Batches with fewer rows and fewer tokens, or shorter rows, are not checked."""

MASK = "attention_mask"
"""A tensor of this name is taken for an attention mask."""


IGNORED = -100
"""The target that torch's losses ignore by default, and those of Hugging Face."""


class Seen(NamedTuple):
    """Padding of the tensor named ``key``, ``length`` tokens wide."""

    key: str
    length: int
    padding: Padding
    targets: int = 0
    """Values of a tensor some of which are ``IGNORED``; 0 without one."""
    ignored: int = 0
    """Those of them."""


def padding_of_batch(torch: Any, batch: Any) -> Seen | None:
    """Padding of the largest tensor of token ids on the CPU in ``batch``; by an attention mask
    where there is one. None where ``batch`` has neither."""
    seen, rows = _padding_of_batch(torch, batch)
    if seen is None:
        return None
    ignored, targets = max(map(_ignored, rows), default=(0, 0))
    return seen._replace(targets=targets, ignored=ignored) if ignored else seen


def _ignored(rows: Rows) -> tuple[int, int]:
    """Number of values that are ``IGNORED``, and of all: by their bytes, a twentieth of the time
    of comparing them one by one."""
    ignored = array(rows[0].typecode, [IGNORED]).tobytes()
    return sum(row.tobytes().count(ignored) for row in rows), sum(map(len, rows))


def _padding_of_batch(torch: Any, batch: Any) -> tuple[Seen | None, list[Rows]]:
    """The padding, and the rows of the largest tensors of integers."""
    # Otherwise a mode of the script, or a subclass of tensors, would be called for what is read.
    with torch._C.DisableTorchFunction():
        tensors = [(key, part) for key, part in _tensors(torch, batch) if _is_matrix(torch, part)]
        kinds = torch.int64, torch.int32
        ids = [(key, tensor) for key, tensor in tensors if tensor.dtype in kinds and key != MASK]
        ids.sort(key=lambda item: item[1].numel(), reverse=True)
        rows = [_read(tensor) for _, tensor in ids[:MOST_TENSORS]]
        for key, tensor in tensors:
            by_mask = padding_of_mask(_read(tensor)) if key == MASK else None
            if by_mask is not None:
                return Seen(key, int(tensor.shape[1]), by_mask), rows
        if not ids:
            return None, rows
        key, largest = ids[0]
        return Seen(key, int(largest.shape[1]), padding_of_ids(rows[0])), rows


def _tensors(torch: Any, batch: Any) -> Iterator[tuple[str, Any]]:
    """Plain tensors in lists, tuples and dictionaries, each with its name there."""
    waiting, left = [("", batch)], MOST_PARTS
    while waiting and left:
        key, part = waiting.pop(0)
        left -= 1
        # Subclasses may be fakes, or have no memory of their own.
        if type(part) is torch.Tensor:
            yield key, part
        else:
            waiting += _named(part)


def _named(part: Any) -> list[tuple[str, Any]]:
    """Values of a container, with their names in a dictionary."""
    part = vars(part).get("data") if isinstance(part, UserDict) else part
    names = map(str, dict.keys(part)) if isinstance(part, dict) else repeat("")
    return list(islice(zip(names, inside(part) or (), strict=False), MOST_PARTS))


def _is_matrix(torch: Any, tensor: Any) -> bool:
    """Whether it has rows of integers or booleans on the CPU, with memory behind them."""
    if tensor.layout is not torch.strided or not tensor.is_cpu or tensor.dim() != 2:
        return False
    rows, length = tensor.shape
    if tensor.dtype not in (torch.int64, torch.int32, torch.bool) or length < SHORTEST:
        return False
    is_small = rows < FEWEST_ROWS and rows * length < FEWEST_TOKENS
    if not rows or is_small or tensor.stride(1) != 1:
        return False
    last = tensor.storage_offset() + (rows - 1) * tensor.stride(0) + length
    return bool(last * tensor.element_size() <= tensor.untyped_storage().nbytes())


def _read(tensor: Any) -> Rows:
    """The first rows of ``tensor``."""
    count, length = tensor.shape
    size, start = tensor.element_size(), tensor.data_ptr()
    most = min(count, MOST_ROWS, max(MOST_TOKENS // length, LONG_ROWS))
    places = (start + row * tensor.stride(0) * size for row in range(most))
    return [array(TYPES[size], string_at(place, length * size)) for place in places]


LARGE_MATRIX = 1 << 18
"""Elements of a matrix from which multiplying its zeros takes long."""

SPOTS = 512
"""Values of it that are read, spread evenly: 0.3 us each."""

MOST_FULL = 0.05
"""Share of other values up to which it is nearly all zeros."""


def nearly_empty(torch: Any, module: Any, given: Any) -> list[dict[str, int]]:
    """Rows, columns, values read and zeros among them of each large matrix that ``module`` is
    ``given`` or has as a buffer, if nearly all are zeros and no parameter is of that size."""
    with torch._C.DisableTorchFunction():
        modules = all_modules([module])
        weights = [sorted(weight.shape[-2:]) for weight in own_parameters(modules).values()]
        buffers = {name: held for each in modules for name, held in each._buffers.items()}
        found = []
        for _, tensor in chain(_tensors(torch, given), _tensors(torch, buffers)):
            sides, count = tensor.shape[-2:], tensor.numel()
            is_plain = tensor.layout is torch.strided and tensor.is_cpu and tensor.is_contiguous()
            if len(sides) < 2 or sides[0] * sides[1] < LARGE_MATRIX or not is_plain:
                continue
            size, end = tensor.element_size(), tensor.storage_offset() + count
            if sorted(sides) not in weights and end * size <= tensor.untyped_storage().nbytes():
                start, step = tensor.data_ptr(), int(count * GOLDEN) | 1
                spots = (start + spot * step % count * size for spot in range(SPOTS))
                zeros = sum(not any(string_at(spot, size)) for spot in spots)
                if zeros >= (1 - MOST_FULL) * SPOTS:
                    sizes = {"rows": int(sides[0]), "columns": int(sides[1])}
                    found.append({**sizes, "zeros": zeros, "read": SPOTS})
        return found


GOLDEN = 0.6180339887
"""Multiples of this part of a range lie evenly in it, however many."""

FIRST = 2
"""Steps before the first check."""

MOST = 10
"""Checks in a run: the last after some hundred steps."""

AT_ONCE = 3
"""Checks in consecutive steps; later ones wait until the fast path is left."""


class PaddingChecks:
    """Schedules and performs the padding checks of one process."""

    def __init__(self) -> None:
        self._next = FIRST
        self._left = MOST

    def is_due(self, step: int) -> bool:
        """Whether the batch of ``step`` is to be checked."""
        return self._left > 0 and step >= self._next

    def count(self, step: int) -> None:
        """Count ``step`` as checked, also if it had no batch to check."""
        self._left -= 1
        self._next = step + 1 if self._left > MOST - AT_ONCE else 2 * step

    def check(self, torch: Any, batch: Any) -> dict[str, Any] | None:
        """Data of a ``padding`` note. None if the batch has no token ids, or while a profiler runs,
        which would attribute our time to the script."""
        seen = None if is_profiling(torch) else attempt(padding_of_batch, torch, batch)
        if seen is None:
            return None
        targets = {"targets": seen.targets, "ignored": seen.ignored}
        return {"key": seen.key, "length": seen.length, **seen.padding._asdict(), **targets}
