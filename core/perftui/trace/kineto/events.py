"""Events in the file's spelling, decoded many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import msgspec
import numpy as np

from perftui.trace.model import NONE, Int64
from perftui.trace.text import encodable

COMPLETE = "X"
"""Kind of an event with a duration."""


class Arguments(msgspec.Struct, gc=False, frozen=True):
    """The few arguments that become columns; numbers may be spelled as text."""

    correlation: Any = NONE
    external_id: Any = msgspec.field(name="External id", default=NONE)
    legacy_external_id: Any = msgspec.field(name="external id", default=NONE)
    device: Any = NONE
    stream: Any = NONE
    bytes: Any = NONE
    change: Any = msgspec.field(name="Bytes", default=NONE)
    device_type: Any = msgspec.field(name="Device Type", default=NONE)
    memory_device: Any = msgspec.field(name="Device Id", default=NONE)
    allocated: Any = msgspec.field(name="Total Allocated", default=NONE)
    reserved: Any = msgspec.field(name="Total Reserved", default=NONE)
    address: Any = msgspec.field(name="Addr", default=NONE)
    name: Any = ""
    """Name of a process or thread, in metadata events."""


NO_ARGUMENTS = Arguments()
_ARGUMENT_FIELDS = msgspec.structs.fields(Arguments)

Id = int | float | str | None
"""A process or a thread."""


class Event(msgspec.Struct, gc=False, kw_only=True):
    """One event. Times are microseconds, as a number or as text.

    Lists and objects in place of ids and times are refused here, and read event by event.
    """

    ph: str = ""
    name: str = ""
    cat: str | None = None
    pid: Id = None
    tid: Id = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: Arguments = NO_ARGUMENTS


class Times(msgspec.Struct, gc=False):
    """The text of an event's times, for files whose times exceed a float's precision."""

    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")


class RowText(msgspec.Struct, gc=False):
    """Fields that decide whether an event is a row of the trace, and the text of its arguments."""

    ph: Any = None
    cat: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions from decoding text that is not plain JSON, or not as typed here."""

EVENTS = msgspec.json.Decoder(list[Event])
TIMES = msgspec.json.Decoder(list[Times])
ROWS = msgspec.json.Decoder(list[RowText])
OBJECT = msgspec.json.Decoder(Any)


def event_of(fields: dict[str, Any]) -> Event:
    """An event from a decoded object with fields of any type."""
    arguments = fields.get("args")
    return Event(
        ph=_text(fields.get("ph")),
        name=_text(fields.get("name")),
        cat=None if fields.get("cat") is None else _text(fields["cat"]),
        pid=_plain(_scalar(fields.get("pid"))),
        tid=_plain(_scalar(fields.get("tid"))),
        ts=_scalar(fields.get("ts")),
        dur=_scalar(fields.get("dur")),
        args=_arguments(arguments) if isinstance(arguments, dict) else NO_ARGUMENTS,
    )


def _arguments(fields: dict[str, Any]) -> Arguments:
    values = {f.name: _plain(fields.get(f.encode_name, f.default)) for f in _ARGUMENT_FIELDS}
    name = values["name"]
    return Arguments(**{**values, "name": encodable(name) if isinstance(name, str) else name})


def _text(value: Any) -> str:
    return encodable(value) if isinstance(value, str) else "" if value is None else str(value)


def _scalar(value: Any) -> Any:
    """A number (a Decimal keeps its digits) or text; anything else as text."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return value if value is None or is_number else _text(value)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


_UNSIGNED_MINUS_ONE = (2**32 - 1, 2**64 - 1)


def identifier(value: Any) -> int:
    """One id; NONE if it is not one, or exceeds 63 bits."""
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
    """A column of integers; NONE for anything but an integer of 64 bits."""
    whole = (v if isinstance(v, int) and not isinstance(v, bool) else NONE for v in values)
    return np.array([v if abs(v) < 2**63 else NONE for v in whole], dtype=np.int64)


def id_column(values: Sequence[Any]) -> Int64:
    """A column of ids."""
    try:
        numbers = np.array(values)
    except (ValueError, OverflowError):
        numbers = np.array([], dtype=object)
    if numbers.dtype != np.int64 or numbers.shape != (len(values),):
        return np.array([identifier(value) for value in values], dtype=np.int64)
    numbers[(numbers == _UNSIGNED_MINUS_ONE[0])] = NONE
    return numbers


# A float64 holds microseconds with three decimals exactly enough only below 2**43 us (101 days):
# there its step is at most 2**-10 us, so the nearest thousandth is the one that was written.
# Current traces are relative to a base and stay below; some older ones are absolute (1.7e15 us)
# with decimals, and only their text holds the digits.

EXACT_FLOAT_US = float(2**43)
"""Microseconds below which a float64 keeps whole nanoseconds."""

LIMIT = 2**61
"""Nanoseconds, 73 years: sums of larger times could overflow."""

_LIMIT_US = LIMIT // 1000

UNTIMED = -(2**63)
"""Start of a row whose time is no number; such rows are dropped in the end."""


def nanoseconds(value: Any) -> int | None:
    """A time in microseconds (number, or number as text) as integer ns; None for anything else.

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


def time_column(values: Sequence[Any]) -> Int64 | None:
    """A column of microseconds as exact ns, or None if only the text is exact."""
    try:
        numbers = np.array(values)
    except (ValueError, OverflowError):
        return None
    if numbers.dtype == np.int64:
        return None if _beyond(numbers, _LIMIT_US) else numbers * 1000
    if numbers.dtype != np.float64 or _beyond(numbers, EXACT_FLOAT_US):
        return None
    whole = np.floor(numbers)
    thousandths = np.rint((numbers - whole) * 1000)
    ns: Int64 = whole.astype(np.int64) * 1000 + thousandths.astype(np.int64)
    # Both are exact below 2**53 ns, so this is the float of a number with three decimals. Others
    # have more, and only their text shows how to round a half.
    return ns if np.array_equal(ns / 1000, numbers) else None


def _beyond(numbers: Any, limit: float) -> bool:
    # Written so that NaN, which compares false with everything, counts as beyond.
    return len(numbers) > 0 and not bool(np.all((numbers > -limit) & (numbers < limit)))
