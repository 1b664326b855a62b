"""Events as the file spells them, decoded many at a time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from perftui.trace.model import NONE
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
    """The text of an event's times, for files whose times a float cannot hold."""

    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")


class RowText(msgspec.Struct, gc=False):
    """Fields that decide whether an event is a row of the trace, and the text of its arguments."""

    ph: Any = None
    cat: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding text that is not plain JSON, or not as typed here, raises."""

EVENTS = msgspec.json.Decoder(list[Event])
TIMES = msgspec.json.Decoder(list[Times])
ROWS = msgspec.json.Decoder(list[RowText])
OBJECT = msgspec.json.Decoder(Any)


def event_of(fields: dict[str, Any]) -> Event:
    """An event from a decoded object whose fields may have any type."""
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
    values = {
        each.name: _plain(fields.get(each.encode_name, each.default)) for each in _ARGUMENT_FIELDS
    }
    name = values["name"]
    return Arguments(**{**values, "name": encodable(name) if isinstance(name, str) else name})


def _text(value: Any) -> str:
    return encodable(value) if isinstance(value, str) else "" if value is None else str(value)


def _scalar(value: Any) -> Any:
    """A number (a Decimal keeps its digits) or text; what is neither is spelled as text."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return value if value is None or is_number else _text(value)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
