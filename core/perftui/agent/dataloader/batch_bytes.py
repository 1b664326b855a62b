"""How many bytes of data a batch holds."""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import Sequence
from typing import Any

UNKNOWN = -1

MOST_PARTS = 256
"""Parts of a batch that are looked at: 0.1 us each, and a batch of more is a list of samples."""

WITHOUT_DATA = (bool, int, float, complex, str, type(None))


def batch_bytes(torch: Any, batch: Any) -> int:
    """Bytes of the tensors, arrays and byte strings in ``batch``; -1 where they are not known.

    Looks into lists, tuples and dictionaries and runs no code of the script: what else is found
    makes the whole unknown, but for numbers and text, which count as nothing.
    """
    # A mode of the script, or a subclass of tensors, would be told of what is looked at.
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
