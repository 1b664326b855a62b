"""Reads the array of events piece by piece, in batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from perftui.trace.kineto.events import COMPLETE, EVENTS, NOT_STRICT, OBJECT, ROWS, Event, event_of
from perftui.trace.kineto.json_text import fields_behind, holds_event, recover
from perftui.trace.model import SPAN

_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_WINDOW = 16 * 1024

_GIVE_UP = 16 * 1024 * 1024
"""Bytes without one readable event after which the text is dropped rather than kept growing."""

_TAIL_LIMIT = 64 * 1024 * 1024


@dataclass
class Batch:
    """Consecutive events of the file."""

    events: list[Event]
    text: bytes
    """Their text, as an array; empty if that is no valid JSON."""
    offset: int
    """Start of their text in the (inflated) file."""
    length: int
    strict: bool
    """Whether the text is plain JSON, or had to be read event by event."""
    starts: list[int] = field(default_factory=list)
    """Start of each event, counted from ``offset``; empty if strict."""
    raw: bytes = b""
    """The file's text, ``length`` bytes; empty if strict."""

    def offset_of(self, number: int) -> int:
        """Offset of one event of the batch in the (inflated) file."""
        starts = recover(self.text[1:-1], last=True).starts if self.strict else self.starts
        return self.offset + starts[number]


@dataclass
class Batches:
    """Decodes the array of events piece by piece; its attributes are final when the pieces end."""

    offset: int
    """Start of the first event in the (inflated) file."""
    skipped: list[int] = field(default_factory=list)
    """Offsets in the file of unreadable events."""
    repaired: list[int] = field(default_factory=list)
    """Offsets in the file of invalid JSON that was read."""
    cut: int | None = None
    """Offset in the file of the event that its end cuts off."""
    closed: bool = False
    """Whether the array ended with its bracket."""
    tail: bytes = b""
    """The text after the array."""
    _text: bytes = b""

    def decode(self, pieces: Iterable[bytes]) -> Iterator[Batch]:
        """All events, in file order."""
        for piece in pieces:
            if not self.closed:
                self._text += piece
            elif len(self.tail) < _TAIL_LIMIT:
                self.tail += piece
                if len(self.tail) >= _TAIL_LIMIT:
                    self._reopened()
            batch = None if self.closed else self._whole_events()
            if batch is not None:
                yield batch
        yield from self._rest()
        while self._reopened():
            yield from self._rest()

    def _rest(self) -> Iterator[Batch]:
        batch = self._whole_events()
        if batch is not None:
            yield batch
        if self._text and not self.closed:
            yield self._recovered(last=True)

    def _reopened(self) -> bool:
        """Go on after a bracket that did not close the array: events follow, and no fields."""
        if not self.closed or fields_behind(self.tail) is not None or not holds_event(self.tail):
            return False
        self.closed, self._text, self.tail = False, self.tail, b""
        return True

    def _whole_events(self) -> Batch | None:
        """The batch of all complete events so far, if any."""
        cut = last_boundary(self._text)
        if cut is None:
            return self._recovered(last=False) if len(self._text) > _GIVE_UP else None
        text = b"[" + self._text[: cut[0]] + b"]"
        try:
            events = EVENTS.decode(text)
        except NOT_STRICT:
            # The cut lies inside an event, the array ends here, or an event is malformed.
            return self._recovered(last=False)
        batch = Batch(events, text, self.offset, cut[1], strict=True)
        self._advance(cut[1])
        return batch

    def _recovered(self, last: bool) -> Batch:
        result = recover(self._text, last)
        if not result.consumed and len(self._text) > _GIVE_UP:
            result.consumed, result.skipped = len(self._text), [0]
        self.skipped += [self.offset + offset for offset in result.skipped]
        self.repaired += [self.offset + offset for offset in result.repaired]
        self.cut = None if result.cut is None else self.offset + result.cut
        events = [event_of(fields) for fields in result.objects]
        # At damaged gzip another pass may end a few bytes earlier: none of the text is missing then
        # if it ends before the event that was cut.
        length = result.consumed if result.cut is None else result.cut
        batch = Batch(events, b"", self.offset, length, False, result.starts, self._text[:length])
        self._advance(result.consumed)
        if result.closed:
            self.closed, self.tail, self._text = True, self._text, b""
        return batch

    def _advance(self, length: int) -> None:
        self.offset += length
        self._text = self._text[length:]


def last_boundary(text: bytes) -> tuple[int, int] | None:
    """End of the last event but one and start of the last, judged by punctuation alone.

    The cut is right exactly if the text before it parses: an array cut inside a string or a nested
    value is no JSON.
    """
    window = _WINDOW
    while True:
        begin = max(0, len(text) - window)
        matches = list(_BOUNDARY.finditer(text, begin))
        if matches:
            return matches[-1].start() + 1, matches[-1].end()
        if begin == 0:
            return None
        window *= 8


def arguments_in(text: bytes, strict: bool, rows: Sequence[int]) -> tuple[int, list[Any]]:
    """Number of rows in one batch, and the ``args`` of some of them, by number."""
    if strict:
        try:
            events = ROWS.decode(b"[" + text.rstrip(b", \t\r\n") + b"]")
            texts = [event.args for event in events if is_row(event.ph, event.cat)]
            valid = [row for row in rows if row < len(texts)]
            return len(texts), [OBJECT.decode(texts[row]) for row in valid]
        except NOT_STRICT:
            # Arguments that are no columns were skipped before without decoding them.
            pass
    objects = recover(text, last=True, fraction=float).objects
    args = [e.get("args", {}) for e in objects if is_row(e.get("ph"), e.get("cat"))]
    return len(args), [args[row] for row in rows if row < len(args)]


def is_row(kind: Any, category: Any) -> bool:
    """Whether an event with that ``ph`` and ``cat`` is a row: it has a duration, and is not the
    recording itself."""
    return kind == COMPLETE and (category is None or str(category).lower() != SPAN)
