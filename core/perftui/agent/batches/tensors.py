"""Tensors of token ids in a batch, read from memory: no operator of torch runs for that.

So no profiler sees it, no mode or subclass of the script is called, nothing waits for a GPU.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from ctypes import string_at
from typing import Any, NamedTuple

from .padding import Padding, Rows, padding_of_ids, padding_of_mask

MOST_PARTS = 64
"""Parts of a batch that are looked at."""

MOST_ROWS = 64
MOST_TOKENS = 1 << 13
"""Rows of a tensor that are looked at, and tokens in them; of very long rows ``LONG_ROWS``."""

LONG_ROWS = 4

FEWEST_ROWS = 8
FEWEST_TOKENS = 256
SHORTEST = 8
"""Batches with fewer rows and fewer tokens, or shorter rows, are not checked."""

MASK = "attention_mask"
"""A tensor of this name is believed."""


class Seen(NamedTuple):
    """What was read of one tensor, ``length`` tokens wide."""

    key: str
    length: int
    padding: Padding


def padding_of_batch(torch: Any, batch: Any) -> Seen | None:
    """Padding of the largest tensor of token ids on the CPU in ``batch``; by an attention mask
    where there is one. None where ``batch`` has neither."""
    # A mode of the script, or a subclass of tensors, would be called for what is read here.
    with torch._C.DisableTorchFunction():
        tensors = [(key, one) for key, one in _tensors(torch, batch) if _is_matrix(torch, one)]
        for key, one in tensors:
            by_mask = padding_of_mask(*_read(one)) if key == MASK else None
            if by_mask is not None:
                return Seen(key, int(one.shape[1]), by_mask)
        kinds = torch.int64, torch.int32
        ids = [(key, one) for key, one in tensors if one.dtype in kinds and key != MASK]
        if not ids:
            return None
        key, largest = max(ids, key=lambda named: named[1].numel())
        return Seen(key, int(largest.shape[1]), padding_of_ids(*_read(largest)))


def _tensors(torch: Any, batch: Any) -> Iterator[tuple[str, Any]]:
    """Plain tensors in lists, tuples and dictionaries, each with its name there."""
    waiting, left = [("", batch)], MOST_PARTS
    while waiting and left:
        key, part = waiting.pop(0)
        left -= 1
        # Others may be fakes, or have no memory of their own.
        if type(part) is torch.Tensor:
            yield key, part
        else:
            waiting += _inside(part)


def _inside(part: Any) -> list[tuple[str, Any]]:
    """What a container holds, by the methods of the builtin ones."""
    if isinstance(part, UserDict):
        part = vars(part).get("data")
    if isinstance(part, dict):
        return [(str(key), one) for key, one in list(dict.items(part))[:MOST_PARTS]]
    if isinstance(part, list):
        return [("", one) for one in list.__getitem__(part, slice(MOST_PARTS))]
    if isinstance(part, tuple):
        return [("", one) for one in tuple.__getitem__(part, slice(MOST_PARTS))]
    return []


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


def _read(tensor: Any) -> tuple[Rows, int]:
    """The first rows of ``tensor``, and the bytes of one element."""
    count, length = tensor.shape
    size, start = tensor.element_size(), tensor.data_ptr()
    step = tensor.stride(0) * size
    most = min(count, MOST_ROWS, max(MOST_TOKENS // length, LONG_ROWS))
    return [string_at(start + row * step, length * size) for row in range(most)], size
