"""The file around the array of events: where the array begins, and the other top-level fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from perftui.trace.errors import TraceError
from perftui.trace.events import NOT_STRICT

_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

LIMIT = 64 * 1024 * 1024
"""Bytes within which the events must begin; what comes before them is kept in memory."""


def start_of_events(text: bytes, searched: int = 0) -> int | None:
    """Offset of the first event, or None where more text is needed.

    ``searched`` bytes are known not to hold it. Raises TraceError for text that is no trace.
    """
    body = text.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not body:
        return None
    if body[:1] == b"[":
        return len(text) - len(body) + 1
    if body[:1] != b"{":
        raise TraceError("not a trace: it is not JSON; open a file that torch.profiler exported")
    for match in _ARRAY.finditer(text, max(0, searched - 64)):
        if _closes(text[len(text) - len(body) : match.end()]):
            return match.end()
    return None


def _closes(head: bytes) -> bool:
    """Whether the text so far is one object open at its top: only there does ``]}`` complete it."""
    try:
        msgspec.json.decode(head + b"]}", type=dict[str, msgspec.Raw])
    except NOT_STRICT:
        return False
    return True


def unproven_start(text: bytes) -> int | None:
    """The first thing that looks like the array of events, in a head that cannot be parsed."""
    match = _ARRAY.search(text)
    return match.end() if match else None


def top_level_fields(head: bytes, tail: bytes) -> tuple[Mapping[str, Any], bool]:
    """Fields before and behind the events, and whether all of them could be read."""
    before, whole_before = _fields(head.removeprefix(_BYTE_ORDER_MARK).strip() + b"]}")
    behind, whole_behind = _fields(b'{"traceEvents":[]' + tail)
    merged = {**before, **behind}
    merged.pop("traceEvents", None)
    return merged, whole_before and whole_behind


def _fields(text: bytes) -> tuple[dict[str, Any], bool]:
    if text.startswith(b"[") or text.strip() == b'{"traceEvents":[]':
        return {}, True
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}, False
    return (value, True) if isinstance(value, dict) else ({}, False)
