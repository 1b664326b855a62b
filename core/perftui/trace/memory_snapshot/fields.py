"""Fields of many dicts as columns, with a type that is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.model import UInt64
from perftui.trace.model import Int32, Int64

Row: TypeAlias = Mapping[str, object]

_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1
_ADDRESSES = 2**64


def rows_of(value: object, what: str) -> list[Row]:
    """A list of dicts; raises TraceError for anything else."""
    if not isinstance(value, list) or set(map(type, value)) - {dict}:
        raise TraceError(f"{what} are not a list of dicts: this is not a memory snapshot")
    return value


def integers(rows: Sequence[Row], key: str, default: int | None = None) -> list[int]:
    """One field of every row; raises TraceError where it is no integer, or absent and needed."""
    return whole([row.get(key, default) for row in rows], key)


def whole(values: list[object], key: str) -> list[int]:
    """``values``, all of them integers; raises TraceError where one is none."""
    if set(map(type, values)) - {int}:
        raise TraceError(f"{key!r} is missing or not an integer: this is not a memory snapshot")
    return values  # type: ignore[return-value]  # checked above, faster than a loop


def column(values: list[int], key: str, lowest: int = -(2**63), highest: int = _INT64_MAX) -> Int64:
    """64-bit integers; raises TraceError for one that is above ``highest`` or below ``lowest``."""
    _check(values, key, lowest, highest)
    return np.array(values, np.int64)


def sizes(values: list[int], key: str) -> Int64:
    """Bytes, none negative, whose sum has 64 bits; raises TraceError for others."""
    if sum(values) > _INT64_MAX:
        raise TraceError(f"{key!r} is out of range: the file is damaged")
    return column(values, key, lowest=0)


def small(values: list[int], key: str) -> Int32:
    """32-bit integers, none negative; raises TraceError for others."""
    return column(values, key, 0, _INT32_MAX).astype(np.int32)


def addresses(values: list[int], key: str) -> UInt64:
    """Addresses; a negative number is the address of the same 64 bits."""
    _check(values, key, -(2**63), _ADDRESSES - 1)
    if values and min(values) < 0:
        values = [value % _ADDRESSES for value in values]
    return np.array(values, np.uint64)


def _check(values: list[int], key: str, lowest: int, highest: int) -> None:
    if values and not lowest <= min(values) <= max(values) <= highest:
        raise TraceError(f"{key!r} is out of range: the file is damaged")
