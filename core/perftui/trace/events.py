"""Events as the file spells them, decoded many at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from perftui.trace.model import NONE
from perftui.trace.text import encodable


class Arguments(msgspec.Struct, gc=False, frozen=True):
    """The few arguments that become columns; numbers may be spelled as text."""

    correlation: Any = NONE
    external_id: Any = msgspec.field(name="External id", default=NONE)
    legacy_external_id: Any = msgspec.field(name="external id", default=NONE)
    device: Any = NONE
    stream: Any = NONE
    bytes: Any = NONE
    name: Any = ""
    """Of a process or thread, in metadata events."""


NO_ARGUMENTS = Arguments()


class Event(msgspec.Struct, gc=False, kw_only=True):
    """One event. Times are microseconds, as a number or as text."""

    ph: str = ""
    name: str = ""
    cat: str | None = None
    pid: Any = ""
    tid: Any = ""
    ts: Any = None
    dur: Any = 0
    args: Arguments = NO_ARGUMENTS


class Times(msgspec.Struct, gc=False):
    """The text of an event's times, for files whose times a float cannot hold."""

    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"0")


NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding text that is not plain JSON, or not as typed here, raises."""

EVENTS = msgspec.json.Decoder(list[Event])
TIMES = msgspec.json.Decoder(list[Times])
OBJECTS = msgspec.json.Decoder(list[dict[str, Any]])


def event_of(fields: dict[str, Any]) -> Event:
    """An event from a decoded object whose fields may have any type."""
    arguments = fields.get("args")
    return Event(
        ph=_text(fields.get("ph")),
        name=_text(fields.get("name")),
        cat=None if fields.get("cat") is None else _text(fields["cat"]),
        pid=_scalar(fields.get("pid")),
        tid=_scalar(fields.get("tid")),
        ts=fields.get("ts"),
        dur=fields.get("dur", 0),
        args=_arguments(arguments) if isinstance(arguments, dict) else NO_ARGUMENTS,
    )


def _arguments(fields: dict[str, Any]) -> Arguments:
    name = fields.get("name", "")
    return Arguments(
        correlation=fields.get("correlation", NONE),
        external_id=fields.get("External id", NONE),
        legacy_external_id=fields.get("external id", NONE),
        device=fields.get("device", NONE),
        stream=fields.get("stream", NONE),
        bytes=fields.get("bytes", NONE),
        name=encodable(name) if isinstance(name, str) else name,
    )


def _text(value: Any) -> str:
    return encodable(value) if isinstance(value, str) else "" if value is None else str(value)


def _scalar(value: Any) -> Any:
    """A value that can key a table."""
    return value if isinstance(value, (int, float)) else _text(value)
