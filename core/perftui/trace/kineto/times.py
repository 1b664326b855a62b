"""Microseconds in every spelling that trace files use, as exact integer nanoseconds.

A float64 holds microseconds with three decimals exactly enough only below 2**43 us (101 days):
there its step is at most 2**-10 us, so the nearest thousandth is the one that was written. Current
traces are relative to a base and stay below; some older ones are absolute (1.7e15 us) with
decimals, and only their text holds the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np

from perftui.trace.model import Int64

EXACT_FLOAT_US = float(2**43)
"""Microseconds below which a float64 keeps whole nanoseconds."""

LIMIT = 2**61
"""Nanoseconds, 73 years: times from here on could overflow when they are added up."""

_LIMIT_US = LIMIT // 1000

UNTIMED = -(2**63)
"""Start of a row whose time is no number; such rows are left out in the end."""


def nanoseconds(value: Any) -> int | None:
    """One time in microseconds (number, or number as text) as integer ns; None if it is none.

    Text is read exactly; digits below a nanosecond are rounded half to even.
    """
    try:
        number = value if isinstance(value, int) else Decimal(str(value).strip())
        within = -_LIMIT_US < number < _LIMIT_US
    except ArithmeticError:  # text that is no number, and NaN, which cannot be compared
        return None
    if isinstance(value, bool) or not within:
        return None
    if isinstance(number, int):
        return number * 1000
    return int((number * 1000).to_integral_value(ROUND_HALF_EVEN))


def column(values: Sequence[Any]) -> Int64 | None:
    """A column of microseconds as exact ns, or None where only the text is exact."""
    try:
        numbers = np.array(values)
    except (ValueError, OverflowError):
        return None
    if numbers.dtype == np.int64:
        return None if _beyond(numbers, _LIMIT_US) else numbers * 1000
    if numbers.dtype != np.float64 or _beyond(numbers, EXACT_FLOAT_US):
        return None
    return _from_floats(numbers)


def _beyond(numbers: Any, limit: float) -> bool:
    # Written so that NaN, which compares false with everything, counts as beyond.
    return len(numbers) > 0 and not bool(np.all((numbers > -limit) & (numbers < limit)))


def _from_floats(microseconds: Any) -> Int64 | None:
    whole = np.floor(microseconds)
    thousandths = np.rint((microseconds - whole) * 1000)
    found: Int64 = whole.astype(np.int64) * 1000 + thousandths.astype(np.int64)
    # Both are exact below 2**53 ns, so this is the float that three decimals spell. Others have
    # more, and only their text shows to which side a half is rounded.
    return found if np.array_equal(found / 1000, microseconds) else None
