"""Ids and sizes in every spelling: numbers, numbers as text, hexadecimal, unsigned minus one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perftui.trace.model import NONE, Int64

_UNSIGNED_MINUS_ONE = (2**32 - 1, 2**64 - 1)


def identifier(value: Any) -> int:
    """One id; NONE where it is none, or beyond 63 bits."""
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            return NONE
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value in _UNSIGNED_MINUS_ONE:
        return NONE
    return value if -(2**63) <= value < 2**63 else NONE


def integers(values: Sequence[Any]) -> Int64:
    """A column of numbers as they are; NONE for what is no integer of 64 bits."""
    whole = (
        each if isinstance(each, int) and not isinstance(each, bool) else NONE for each in values
    )
    return np.array([each if abs(each) < 2**63 else NONE for each in whole], dtype=np.int64)


def column(values: Sequence[Any]) -> Int64:
    """A column of ids."""
    try:
        numbers = np.array(values)
    except (ValueError, OverflowError):
        numbers = np.array([], dtype=object)
    if numbers.dtype != np.int64 or numbers.shape != (len(values),):
        return np.array([identifier(value) for value in values], dtype=np.int64)
    numbers[(numbers == _UNSIGNED_MINUS_ONE[0])] = NONE
    result: Int64 = numbers
    return result
