"""Events out of text that a strict parser refuses, one at a time.

An event that cannot be read is left out, and reading resumes at the next one that can. Files in use
hold bare ``NaN``, ``Infinity`` and ``N/A``, Windows paths with single backslashes, control
characters, and bytes that are no UTF-8; those are read as what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from perftui.trace.kineto.events import NOT_STRICT
from perftui.trace.kineto.repair import Repaired, decoder, exact, fields_behind, repair
from perftui.trace.text import encodable

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
"""Characters that are read, all attempts together, to find where a damaged array ends."""


@dataclass
class Recovered:
    """What was read of one piece of text; offsets are bytes from its start."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Where each object begins."""
    consumed: int = 0
    """How far the text need not be read again."""
    closed: bool = False
    """Whether the array of events ends at ``consumed``."""
    skipped: list[int] = field(default_factory=list)
    """Where the events begin that could not be read."""
    repaired: list[int] = field(default_factory=list)
    """Where what was read is no valid JSON: an event as it is spelled, or what parts it from the
    one before."""
    cut: int | None = None
    """Where the event begins that the text ends within."""


def recover(raw: bytes, last: bool, fraction: Callable[[str], Any] = exact) -> Recovered:
    """Read the text, which begins with an event, and take every event that is whole.

    Unless ``last``, the text goes on after its end, and what cannot be read is left for later until
    an event follows that can. ``fraction`` makes numbers with decimals: by default it keeps every
    digit.
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
        self._found = Recovered()
        self._known = (0, 0)

    def run(self) -> Recovered:
        at = self._next(0)
        while at < len(self._text) and not self._found.closed:
            following = self._close(at) if self._text[at] == "]" else self._take(at)
            if following is None:
                break
            at = following
        self._found.consumed = self._offset(at)
        return self._found

    def candidates(self, at: int) -> Iterator[re.Match[str]]:
        """What looks like the start of an event, from ``at`` on up to where no event can follow:
        fields behind the array can be long."""
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
        """Bytes before a character, counted on from the one that was asked for last."""
        known, offset = self._known if index >= self._known[0] else (0, 0)
        offset += len(self._bytes[known:index].encode("utf-8", "surrogateescape"))
        self._known = (index, offset)
        return offset

    def _next(self, at: int) -> int:
        between = _BETWEEN.match(self._text, at)
        return between.end() if between else at

    def _close(self, at: int) -> int:
        """End the array at a bracket, or pass over one that stands where an event should."""
        if _CLOSE.match(self._text, at):
            self._found.closed = True
            return at + 1
        return self._next(at + 1)

    def _take(self, at: int) -> int | None:
        """Read or skip the event at ``at``; where the next begins, None to wait for more text."""
        decoded = self._decode(at) if self._text[at] == "{" else None
        if decoded is None:
            return self._skip(at)
        fields, end = decoded
        begin, following = self._offset(at), self._next(end)
        self._found.objects.append(fields)
        self._found.starts.append(begin)
        if not self._is_strict(at, end):
            self._found.repaired.append(begin)
        after = self._text[following : following + 1]
        if after and self._text.count(",", end, following) != (after != "]"):
            self._found.repaired.append(self._offset(following))
        return following

    def _is_strict(self, begin: int, end: int) -> bool:
        """Whether an event is valid JSON as it is spelled."""
        try:
            msgspec.json.decode(self._bytes[begin:end].encode("utf-8", "surrogateescape"))
        except NOT_STRICT:
            return False
        return True

    def _skip(self, at: int) -> int | None:
        """Pass over what is no event, up to one that is."""
        lost = [at] if self._text[at] == "{" else []
        for match in self.candidates(at + 1):
            start = match.end() - 1
            if self.is_event(start):
                if not lost and '"' in self._text[at:start]:
                    lost = [at]
                self._found.skipped += [self._offset(index) for index in lost]
                return start
            if not match.group("nested") and self._shows_kind(start):
                lost.append(start)
        if self._last:
            return self._to_the_end(at, lost or [at])
        # All but the last are surely whole; they are not looked at again with every piece of text.
        self._found.skipped += [self._offset(index) for index in lost[:-1]]
        return lost[-1] if len(lost) > 1 else None

    def _shows_kind(self, start: int) -> bool:
        """Whether what cannot be read is an event, and not an object in the list of another."""
        return f'"{_KIND}"' in self._text[start : next(self._ends(start))]

    def _to_the_end(self, at: int, lost: list[int]) -> int:
        """Pass over the last events of the file, up to the array's end if the text has one."""
        room = _PROOF
        for match in _CLOSE.finditer(self._text, at):
            room -= len(self._text) - match.end()
            if room < 0:
                break
            if fields_behind(self._text[match.end() :].encode()) is not None:
                self._found.closed = True
                whole = [start for start in lost if start < match.end()]
                self._found.skipped += [self._offset(start) for start in whole]
                return match.end()
        self._found.skipped += [self._offset(start) for start in lost[:-1]]
        self._found.cut = self._offset(lost[-1])
        return len(self._text)

    def _decode(self, at: int) -> tuple[dict[str, Any], int] | None:
        """The object at ``at``, repaired where it must be, and where it ends.

        It is read up to the next start, and further only as long as it goes on: an error costs time
        by the text before it, whose lines are counted.
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
                    found = value, at + spelled.original(length)
                    return found if isinstance(value, dict) else None
            if not goes_on:
                return None
        return None

    def _ends(self, at: int) -> Iterator[int]:
        """The first start behind ``at``, then the second, the fourth...: a list may be long."""
        starts = _START.finditer(self._text, at + 1)
        following = (match for match in starts if not match.group("nested"))
        wanted = 1
        for number, match in enumerate(following, 1):
            if number == wanted:
                yield match.start()
                wanted *= 2
        yield len(self._text)
