"""The file around the array of events: where the array begins, and the other top-level fields."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from perftui.trace.errors import TraceError
from perftui.trace.kineto.events import NOT_STRICT
from perftui.trace.kineto.repair import fields_before, fields_behind

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[|(?=\{\s*"ph"\s*:\s*"\w")')
_OPENING = re.compile(rb"(?:%s)?\s*" % BYTE_ORDER_MARK)

_SIGNS = re.compile(
    rb'"traceEvents"\s*:|"deviceProperties"\s*:|"baseTimeNanoseconds"\s*:|"ph"\s*:\s*"[XMBEifsCb]"'
)
"""What the first piece of a trace holds: a top-level list starts with an event at once."""

LIMIT = 64 * 1024 * 1024
"""Bytes within which the events must begin; what comes before them is kept in memory."""


def begins_like_a_trace(piece: bytes) -> bool:
    """Whether a file whose first piece of text is ``piece`` begins like a trace."""
    text = piece.removeprefix(BYTE_ORDER_MARK).lstrip()
    return text[:1] in (b"{", b"[") and _SIGNS.search(text) is not None


def start_of_events(path: Path, text: bytearray, searched: int = 0) -> int | None:
    """Offset of the first event, or None where more text is needed.

    ``searched`` bytes are known not to hold it. Raises TraceError for text that is no trace.
    """
    opening = _OPENING.match(text)
    begin = opening.end() if opening else 0
    if begin == len(text):
        return None
    if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in text[:4]:
        raise TraceError(
            f"{path} is UTF-16 or UTF-32 text, as PowerShell redirects it, or not text: save it as "
            "UTF-8"
        )
    if text.startswith(b"[", begin):
        return begin + 1
    if not text.startswith(b"{", begin):
        raise TraceError(
            f"{path} is not a trace: it is not JSON; open a file that torch.profiler exported"
        )
    for match in _ARRAY.finditer(text, max(0, searched - 64)):
        if _closes(bytes(text[begin : match.end()])):
            return match.end()
    return None


def _closes(head: bytes) -> bool:
    """Whether the text so far is one object open at its top: only there does ``]}`` complete it."""
    try:
        msgspec.json.decode(head + b"]}", type=dict[str, msgspec.Raw])
    except NOT_STRICT:
        return fields_before(head) is not None
    return True


def unproven_start(text: bytearray) -> int | None:
    """The first thing that looks like the events, in a head that cannot be parsed."""
    match = _EVENTS.search(text)
    return match.end() if match else None


def top_level_fields(head: bytes, tail: bytes) -> tuple[Mapping[str, Any], bool]:
    """Fields before and behind the events, and whether all of them could be read."""
    before = fields_before(head.removeprefix(BYTE_ORDER_MARK).strip())
    behind = fields_behind(tail)
    merged = {**(before or {}), **(behind or {})}
    merged.pop("traceEvents", None)
    return merged, before is not None and behind is not None


def second_list(tail: bytes) -> int | None:
    """Where another list of events begins behind the first, None where there is none."""
    match = _ARRAY.search(tail)
    if match is None:
        return None
    events = (fields_behind(tail) or {}).get("traceEvents")
    return match.start() if events else None
