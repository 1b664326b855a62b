"""The text of a Kineto trace with further events before its own, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec

from perftui.trace.kineto.batches import Batch, Batches
from perftui.trace.kineto.events import NOT_STRICT
from perftui.trace.kineto.head import BYTE_ORDER_MARK
from perftui.trace.kineto.load import chained, read_head
from perftui.trace.kineto.recover import recover
from perftui.trace.kineto.repair import fields_before, fields_behind
from perftui.trace.kineto.scanner import Scanned, open_scanner
from perftui.trace.kineto.source import Source

_LARGEST = 2**63 - 1
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def with_events(source: Source, ours: Iterable[bytes]) -> Iterator[bytes]:
    """The text of ``source`` with the events ``ours``, each as JSON, in front of its own.

    Events and the fields around them are the file's text, byte for byte. The result is valid JSON
    also where the file is not: what can be repaired is, what cannot be read is left out.

    Raises:
        TraceError: the file is gone, has changed since or is no trace.
    """
    pieces = source.pieces()
    head, first = read_head(source.path, pieces)
    head, begin = head.removeprefix(BYTE_ORDER_MARK).strip(), len(head)
    yield _opening(head)
    separator = b""
    for one in ours:
        yield separator + one
        separator = b",\n"
    batches = Batches(begin, open_scanner())
    for batch in batches.decode(chained(first, pieces)):
        if text := _events(batch):
            yield separator
            yield text
            separator = b",\n"
    yield _closing(head, batches.tail)


def _events(batch: Batch | Scanned) -> bytes:
    if isinstance(batch, Scanned) or batch.strict:
        return batch.text[1:-1]
    found = recover(batch.raw, last=True)
    spans = zip(pairwise((*found.starts, len(batch.raw))), found.objects, strict=True)
    return b",\n".join(_event(batch.raw[start:end], fields) for (start, end), fields in spans)


def _event(raw: bytes, fields: dict[str, Any]) -> bytes:
    """The event that ``raw`` begins with as it is spelled, or where that is no JSON its fields."""
    spelled = raw[: raw.rfind(b"}") + 1]
    return spelled if _is_object(spelled) else msgspec.json.encode(_encodable(fields))


def _opening(head: bytes) -> bytes:
    if head.startswith(b"[") or _is_object(head + b"]}"):
        return head
    return b"{" + _fields(fields_before(head)) + b'"traceEvents": ['


def _closing(head: bytes, tail: bytes) -> bytes:
    if head.startswith(b"["):
        return b"]"
    if _is_object(b'{"traceEvents":[]' + tail):
        return b"]" + tail
    fields = _fields(fields_behind(tail))
    return b"]," + fields[:-1] + b"}" if fields else b"]}"


def _fields(known: dict[str, Any] | None) -> bytes:
    """Fields of an object, each with a comma behind it."""
    kept = {name: value for name, value in (known or {}).items() if name != "traceEvents"}
    return msgspec.json.encode(_encodable(kept))[1:-1] + b"," if kept else b""


def _is_object(text: bytes) -> bool:
    try:
        _OBJECT.decode(text)
    except NOT_STRICT:
        return False
    return True


def _encodable(value: Any) -> Any:
    """Plain values with all digits of their numbers; ``null`` for those that JSON cannot spell."""
    if isinstance(value, dict):
        return {name: _encodable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_encodable(each) for each in value]
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) > _LARGEST):
        return msgspec.Raw(str(value).encode())
    return value
