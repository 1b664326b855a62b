"""The text of a trace: where its events begin, and events out of text that a strict parser refuses.

An unreadable event is left out, and reading resumes at the next readable one. Files in use hold
bare ``NaN``, ``Infinity`` and ``N/A``, Windows paths with single backslashes, control characters,
and bytes that are no UTF-8; those are read as what they mean.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from perftui.trace.foreign import RECORD, refusal
from perftui.trace.kineto.events import NOT_STRICT
from perftui.trace.model import TraceError
from perftui.trace.text import encodable

_WORDS = r"\s*(?:N/A|-?nan(?:\(\w+\))?|-?inf|-NaN|None|undefined)(?=\s*[,}\]])"
_TOKEN = re.compile(
    rf'(?:[^"\\:,\[]+|"[^"\\]*"|[:,\[](?!{_WORDS})){{1,1000}}'  # nothing to repair, many at a time
    r'|(?P<string>"(?:[^"\\]+|\\.)*"?)'
    rf"|(?P<lead>[:,\[]){_WORDS}",
    re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')


@dataclass
class Repaired:
    """Repaired text, and the original positions of its parts."""

    text: str
    _repaired_ends: list[int] = field(default_factory=list)
    _original_ends: list[int] = field(default_factory=list)

    def original(self, index: int) -> int:
        """Original index of the character now at ``index``, outside of repaired parts."""
        edit = bisect_right(self._repaired_ends, index) - 1
        return index if edit < 0 else self._original_ends[edit] + index - self._repaired_ends[edit]


def repair(text: str) -> Repaired:
    """Double backslashes that escape nothing, and replace invalid values by ``null``."""
    parts: list[str] = []
    repaired = Repaired("")
    copied = length = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        whole = _whole(match, token)
        if whole == token:
            continue
        parts += [text[copied : match.start()], whole]
        length += match.start() - copied + len(whole)
        copied = match.end()
        repaired._repaired_ends.append(length)
        repaired._original_ends.append(copied)
    repaired.text = "".join([*parts, text[copied:]])
    return repaired


def _whole(match: re.Match[str], token: str) -> str:
    if match.lastgroup == "lead":
        return match["lead"] + " null"
    if match.lastgroup != "string":
        return token
    # A backslash that escapes nothing is doubled.
    return _ESCAPE.sub(lambda escape: escape[0] if escape[1] else "\\\\", token)


def decoder(fraction: Callable[[str], Any]) -> json.JSONDecoder:
    """A decoder that accepts control characters in strings, NaN, Infinity and numbers of any size.

    ``fraction`` converts numbers with decimals.
    """
    return json.JSONDecoder(strict=False, parse_float=fraction, parse_int=_integer)


def exact(text: str) -> Any:
    """A number with all its digits; infinity if its exponent is meaninglessly large."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return float(text)


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # more digits than Python is willing to convert
        return float(text)


_FLOATS = decoder(float)


def fields_before(head: bytes) -> dict[str, Any] | None:
    """Fields of a document up to its array of events, taken as empty; None if unreadable."""
    return {} if head.startswith(b"[") else _object(head + b"]}")


def fields_behind(tail: bytes) -> dict[str, Any] | None:
    """Fields of a document after its array of events; None if unreadable."""
    return _object(b'{"traceEvents":[]' + tail) if tail.strip() else {}


def _object(raw: bytes) -> dict[str, Any] | None:
    """The object in ``raw``, repaired if necessary."""
    text = raw.decode("utf-8", "replace")
    for spelled in (text, repair(text).text):
        try:
            value = _FLOATS.decode(spelled)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


_START = re.compile(
    r'(?P<nested>:\s*)?\{(?=\s*"(?:ph|cat|name|pid|tid|ts|dur|id|id2|bp|s|args|tts|tdur|cname|sf|esf'
    r'|stack|scope|bind_id)"\s*:)',
    re.ASCII,
)
"""The brace of an event, or of an object nested in one: that follows a colon, or has no ``ph``."""

_KIND = "ph"
"""The field that every event has."""

_BETWEEN = re.compile(r"[\s,]*", re.ASCII)
_CLOSE = re.compile(r"\](?=\s*(?:\Z|\}|,\s*(?:\"|\Z)))", re.ASCII)
"""A bracket that may close the array: a field follows, or nothing more."""

_PROOF = 64 * 1024 * 1024
"""Most characters to read, in all attempts together, to find the end of a damaged array."""


@dataclass
class Recovered:
    """Objects read from one piece of text; offsets are bytes from its start."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Start of each object."""
    consumed: int = 0
    """End of the text that need not be read again."""
    closed: bool = False
    """Whether the array of events ends at ``consumed``."""
    skipped: list[int] = field(default_factory=list)
    """Starts of unreadable events."""
    repaired: list[int] = field(default_factory=list)
    """Positions of invalid JSON that was read: an event, or the separator before it."""
    cut: int | None = None
    """Start of the event in which the text ends."""


def recover(raw: bytes, last: bool, fraction: Callable[[str], Any] = exact) -> Recovered:
    """Read the text, which begins with an event, and return every complete event.

    Unless ``last``, the text continues, and unreadable parts are left for later until a readable
    event follows. ``fraction`` converts numbers with decimals: by default it keeps every digit.
    """
    return _Walk(raw, last, decoder(fraction)).run()


def holds_event(raw: bytes) -> bool:
    """Whether an event can be read anywhere in the text."""
    walk = _Walk(raw, True, decoder(float))
    return any(walk.is_event(match.end() - 1) for match in walk.candidates(0))


class _Walk:
    def __init__(self, raw: bytes, last: bool, reader: json.JSONDecoder) -> None:
        # One character for every byte that is no UTF-8, so that offsets can be computed back.
        self._bytes = raw.decode("utf-8", "surrogateescape")
        self._text = encodable(self._bytes)
        self._last = last
        self._reader = reader
        self._recovered = Recovered()
        self._last_offset = (0, 0)

    def run(self) -> Recovered:
        at = self._next(0)
        while at < len(self._text) and not self._recovered.closed:
            following = self._close(at) if self._text[at] == "]" else self._take(at)
            if following is None:
                break
            at = following
        self._recovered.consumed = self._offset(at)
        return self._recovered

    def candidates(self, at: int) -> Iterator[re.Match[str]]:
        """Possible starts of events from ``at`` on, up to where no event can follow: fields after
        the array can be long."""
        kind = -1
        for match in _START.finditer(self._text, at):
            if kind < match.end():
                kind = self._text.find(f'"{_KIND}"', match.end())
            if kind < 0:
                return
            yield match

    def is_event(self, at: int) -> bool:
        """Whether an event can be read there."""
        decoded = self._decode(at)
        return decoded is not None and _KIND in decoded[0]

    def _offset(self, index: int) -> int:
        """Byte offset of a character, counted on from the last one requested."""
        start, offset = self._last_offset if index >= self._last_offset[0] else (0, 0)
        offset += len(self._bytes[start:index].encode("utf-8", "surrogateescape"))
        self._last_offset = (index, offset)
        return offset

    def _next(self, at: int) -> int:
        between = _BETWEEN.match(self._text, at)
        return between.end() if between else at

    def _close(self, at: int) -> int:
        """End the array at a bracket, or skip one in place of an event."""
        if _CLOSE.match(self._text, at):
            self._recovered.closed = True
            return at + 1
        return self._next(at + 1)

    def _take(self, at: int) -> int | None:
        """Read or skip the event at ``at``; the start of the next, None to wait for more text."""
        decoded = self._decode(at) if self._text[at] == "{" else None
        if decoded is None:
            return self._skip(at)
        fields, end = decoded
        begin, following = self._offset(at), self._next(end)
        self._recovered.objects.append(fields)
        self._recovered.starts.append(begin)
        if not self._is_strict(at, end):
            self._recovered.repaired.append(begin)
        after = self._text[following : following + 1]
        if after and self._text.count(",", end, following) != (after != "]"):
            self._recovered.repaired.append(self._offset(following))
        return following

    def _is_strict(self, begin: int, end: int) -> bool:
        """Whether an event is valid JSON as spelled."""
        try:
            msgspec.json.decode(self._bytes[begin:end].encode("utf-8", "surrogateescape"))
        except NOT_STRICT:
            return False
        return True

    def _skip(self, at: int) -> int | None:
        """Skip to the next readable event."""
        lost = [at] if self._text[at] == "{" else []
        for match in self.candidates(at + 1):
            start = match.end() - 1
            if self.is_event(start):
                if not lost and '"' in self._text[at:start]:
                    lost = [at]
                self._recovered.skipped += [self._offset(index) for index in lost]
                return start
            # An unreadable object may be an event, unless it is in a list of another one.
            if not match.group("nested"):
                whole = self._text[start : next(self._ends(start))]
                lost += [start] if f'"{_KIND}"' in whole else []
        if self._last:
            return self._to_the_end(at, lost or [at])
        # All but the last are surely complete; they are not looked at again with every piece.
        self._recovered.skipped += [self._offset(index) for index in lost[:-1]]
        return lost[-1] if len(lost) > 1 else None

    def _to_the_end(self, at: int, lost: list[int]) -> int:
        """Skip the last events of the file, up to the array's end if the text has one."""
        room = _PROOF
        for match in _CLOSE.finditer(self._text, at):
            room -= len(self._text) - match.end()
            if room < 0:
                break
            if fields_behind(self._text[match.end() :].encode()) is not None:
                self._recovered.closed = True
                whole = [start for start in lost if start < match.end()]
                self._recovered.skipped += [self._offset(start) for start in whole]
                return match.end()
        self._recovered.skipped += [self._offset(start) for start in lost[:-1]]
        self._recovered.cut = self._offset(lost[-1])
        return len(self._text)

    def _decode(self, at: int) -> tuple[dict[str, Any], int] | None:
        """The object at ``at``, repaired if necessary, and its end.

        It is read up to the next start, and further only while it continues: an error costs time in
        proportion to the text before it, whose lines are counted.
        """
        for end in self._ends(at):
            goes_on = False
            for spell in (Repaired, repair):
                spelled = spell(self._text[at:end])
                try:
                    value, length = self._reader.raw_decode(spelled.text)
                except json.JSONDecodeError as error:
                    goes_on = error.pos >= len(spelled.text)
                except RecursionError:
                    return None
                else:
                    result = value, at + spelled.original(length)
                    return result if isinstance(value, dict) else None
            if not goes_on:
                return None
        return None

    def _ends(self, at: int) -> Iterator[int]:
        """The first start after ``at``, then the second, the fourth...: a list may be long."""
        starts = _START.finditer(self._text, at + 1)
        following = (match for match in starts if not match.group("nested"))
        next_ = 1
        for number, match in enumerate(following, 1):
            if number == next_:
                yield match.start()
                next_ *= 2
        yield len(self._text)


BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[|(?=\{\s*"ph"\s*:\s*"\w")')
_OPENING = re.compile(rb"(?:%s)?\s*" % BYTE_ORDER_MARK)
_WIDE = re.compile(rb"%s|%s|\0{0,3}[\s{\[]\0" % (BOM_UTF16_LE, BOM_UTF16_BE))
"""Text of two or four bytes a letter, with its mark or without."""

_SIGNS = re.compile(
    rb'"traceEvents"\s*:|"deviceProperties"\s*:|"baseTimeNanoseconds"\s*:|"ph"\s*:\s*"[XMBEifsCb]"'
)
"""Signs in the first piece of a trace: a top-level list starts with an event at once."""

LIMIT = 64 * 1024 * 1024
"""Bytes within which the events must begin; the text before them is kept in memory."""


def begins_like_a_trace(piece: bytes) -> bool:
    """Whether a file with the first text ``piece`` begins like a trace."""
    text = piece.removeprefix(BYTE_ORDER_MARK).lstrip()
    return text[:1] in (b"{", b"[") and _SIGNS.search(text) is not None


def start_of_events(path: Path, text: bytearray, searched: int = 0) -> int | None:
    """Offset of the first event, or None if more text is needed.

    The first ``searched`` bytes do not hold it. Raises TraceError for what is no trace.
    """
    opening = _OPENING.match(text)
    begin = opening.end() if opening else 0
    if begin == len(text):
        return None
    if _WIDE.match(text):
        utf = "is UTF-16 or UTF-32 text, as PowerShell redirects it: save it as UTF-8"
        raise TraceError(f"{path} {utf}")
    if text.startswith(b"[", begin):
        return begin + 1
    if not text.startswith(b"{", begin):
        kind = "binary data of a kind not known here" if b"\0" in text else "not JSON"
        raise refusal(path, bytes(text), f"is not a trace: it is {kind}; {RECORD}")
    for match in _ARRAY.finditer(text, max(0, searched - 64)):
        head = bytes(text[begin : match.end()])
        # Only where the text so far is one object open at its top ``]}`` completes it.
        if is_object(head + b"]}") or fields_before(head) is not None:
            return match.end()
    return None


def is_object(text: bytes) -> bool:
    """Whether the text is an object in valid JSON."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except NOT_STRICT:
        return False
    return True


def unproven_start(text: bytearray) -> int | None:
    """The first position that looks like the events, in a head that cannot be parsed."""
    match = _EVENTS.search(text)
    return match.end() if match else None


def top_level_fields(head: bytes, tail: bytes) -> tuple[Mapping[str, Any], bool]:
    """Fields before and after the events, and whether all of them could be read."""
    before = fields_before(head.removeprefix(BYTE_ORDER_MARK).strip())
    behind = fields_behind(tail)
    merged = {**(before or {}), **(behind or {})}
    merged.pop("traceEvents", None)
    return merged, before is not None and behind is not None


def second_list(tail: bytes) -> int | None:
    """Start of another list of events after the first, None if there is none."""
    match = _ARRAY.search(tail)
    if match is None:
        return None
    events = (fields_behind(tail) or {}).get("traceEvents")
    return match.start() if events else None
