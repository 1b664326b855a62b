"""The text of a Kineto trace with further events before its own, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec

from perftui.trace.kineto.damaged_text import (
    BYTE_ORDER_MARK,
    fields_before,
    fields_behind,
    is_object,
    recover,
)
from perftui.trace.kineto.events import NOT_STRICT
from perftui.trace.kineto.load import chained, read_head
from perftui.trace.kineto.read_events import Batch, Batches, Scanned, open_scanner
from perftui.trace.kineto.source import Source

_EVENTS = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal)


Rewrite = Callable[[Any], Any]
"""Returns new values for decoded ones."""


def with_events(
    source: Source, ours: Iterable[bytes], rewrite: Rewrite | None = None
) -> Iterator[bytes]:
    """The text of ``source`` with the events ``ours``, each as JSON, in front of its own.

    Events and the fields around them are the file's text, byte for byte. The result is valid JSON
    even if the file is not: repairable parts are repaired, unreadable ones left out. With
    ``rewrite`` none of the text is copied: each event and the fields around them are replaced by
    its results.

    Raises:
        TraceError: the file is gone, has changed since or is no trace.
    """
    pieces = source.pieces()
    head, first = read_head(source.path, pieces)
    head, begin = head.removeprefix(BYTE_ORDER_MARK).strip(), len(head)
    is_list = head.startswith(b"[")
    if is_list and rewrite is not None:
        yield b"["
    elif is_list or (rewrite is None and is_object(head + b"]}")):
        yield head
    else:
        yield b"{" + _fields(fields_before(head), rewrite) + b'"traceEvents": ['
    separator = b""
    for event in ours:
        yield separator + event
        separator = b",\n"
    batches = Batches(begin, open_scanner())
    for batch in batches.decode(chained(first, pieces)):
        if text := _events(batch, rewrite):
            yield separator
            yield text
            separator = b",\n"
    if is_list:
        yield b"]"
    elif rewrite is None and is_object(b'{"traceEvents":[]' + batches.tail):
        yield b"]" + batches.tail
    else:
        fields = _fields(fields_behind(batches.tail), rewrite)
        yield b"]," + fields[:-1] + b"}" if fields else b"]}"


def _events(batch: Batch | Scanned, rewrite: Rewrite | None) -> bytes:
    if rewrite is not None:
        return b",\n".join(_encoded(rewrite(event)) for event in _decoded(batch))
    if isinstance(batch, Scanned) or batch.strict:
        return batch.text[1:-1]
    recovered = recover(batch.raw, last=True)
    texts = []
    bounds = pairwise((*recovered.starts, len(batch.raw)))
    for (start, end), fields in zip(bounds, recovered.objects, strict=True):
        # The original text, or its fields if that is no JSON.
        spelled = batch.raw[start : batch.raw.rfind(b"}", start, end) + 1]
        texts.append(spelled if is_object(spelled) else _encoded(fields))
    return b",\n".join(texts)


def _decoded(batch: Batch | Scanned) -> list[dict[str, Any]]:
    """All events with all of their fields."""
    if isinstance(batch, Scanned) or batch.strict:
        try:
            return _EVENTS.decode(batch.text)
        except NOT_STRICT:
            return recover(batch.text[1:-1], last=True).objects
    return recover(batch.raw, last=True).objects


def _fields(fields: dict[str, Any] | None, rewrite: Rewrite | None) -> bytes:
    """Fields of an object, each followed by a comma."""
    others = {name: value for name, value in (fields or {}).items() if name != "traceEvents"}
    return _encoded(rewrite(others) if rewrite else others)[1:-1] + b"," if others else b""


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(_encodable(value))


def _encodable(value: Any) -> Any:
    """Plain values with all digits of their numbers; ``null`` for those that JSON lacks."""
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) > 2**63 - 1):
        return msgspec.Raw(str(value).encode())
    return value
