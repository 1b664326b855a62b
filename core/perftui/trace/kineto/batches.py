"""A stream of text cut at event boundaries, each piece decoded at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from perftui.trace.categories import SPAN
from perftui.trace.kineto.events import COMPLETE, EVENTS, NOT_STRICT, OBJECT, ROWS, Event, event_of
from perftui.trace.kineto.recover import holds_event, recover
from perftui.trace.kineto.repair import fields_behind
from perftui.trace.kineto.scanner import Scanned, Scanner

_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_WINDOW = 16 * 1024

_GIVE_UP = 16 * 1024 * 1024
"""Bytes without one readable event after which the text is dropped rather than kept growing."""

_TAIL_LIMIT = 64 * 1024 * 1024


@dataclass
class Batch:
    """Events that follow one another in the file."""

    events: list[Event]
    text: bytes
    """What they were decoded from, as an array; empty if that is no valid JSON."""
    offset: int
    """Where their text begins in the file (inflated)."""
    length: int
    strict: bool
    """Whether the text is plain JSON, or had to be read event by event."""
    starts: list[int] = field(default_factory=list)
    """Where each event begins, counted from ``offset``; empty if strict."""
    raw: bytes = b""
    """The file's text, ``length`` bytes; empty if strict."""

    def offset_of(self, number: int) -> int:
        """Where in the file (inflated) one event of the batch begins."""
        starts = recover(self.text[1:-1], last=True).starts if self.strict else self.starts
        return self.offset + starts[number]


@dataclass
class Batches:
    """Decodes the array of events piece by piece; the outcome is known when the pieces end."""

    offset: int
    """Where the first event begins in the file (inflated)."""
    scanner: Scanner | None = None
    """Reads what is plain, several times as fast."""
    skipped: list[int] = field(default_factory=list)
    """Where in the file the events begin that could not be read."""
    repaired: list[int] = field(default_factory=list)
    """Where in the file stands what was read though it is no valid JSON."""
    cut: int | None = None
    """Where in the file the event begins that its end cuts off."""
    closed: bool = False
    """Whether the array ended with its bracket."""
    tail: bytes = b""
    """What follows the array."""
    _held: bytes = b""

    def decode(self, pieces: Iterable[bytes]) -> Iterator[Batch | Scanned]:
        """All events, in file order."""
        for piece in pieces:
            if self.closed:
                self._keep_tail(piece)
            else:
                self._held += piece
            batch = None if self.closed else self._whole_events()
            if batch is not None:
                yield batch
        yield from self._rest()
        while self._reopened():
            yield from self._rest()

    def _rest(self) -> Iterator[Batch | Scanned]:
        batch = self._whole_events()
        if batch is not None:
            yield batch
        if self._held and not self.closed:
            yield self._recovered(last=True)

    def _keep_tail(self, piece: bytes) -> None:
        if len(self.tail) < _TAIL_LIMIT:
            self.tail += piece
            if len(self.tail) >= _TAIL_LIMIT:
                self._reopened()

    def _reopened(self) -> bool:
        """Go on behind a bracket that did not close the array: events follow, and no fields."""
        if not self.closed or fields_behind(self.tail) is not None or not holds_event(self.tail):
            return False
        self.closed, self._held, self.tail = False, self.tail, b""
        return True

    def _whole_events(self) -> Batch | Scanned | None:
        """The batch of all whole events held, if any."""
        cut = last_boundary(self._held)
        if cut is None:
            return self._recovered(last=False) if len(self._held) > _GIVE_UP else None
        text = b"[" + self._held[: cut[0]] + b"]"
        scanned = self.scanner.scan(text, self.offset, cut[1]) if self.scanner else None
        if scanned is not None:
            self._advance(cut[1])
            return scanned
        try:
            events = EVENTS.decode(text)
        except NOT_STRICT:
            # The cut lies inside an event, the array ends here, or an event is malformed.
            return self._recovered(last=False)
        batch = Batch(events, text, self.offset, cut[1], strict=True)
        self._advance(cut[1])
        return batch

    def _recovered(self, last: bool) -> Batch:
        found = recover(self._held, last)
        if not found.consumed and len(self._held) > _GIVE_UP:
            found.consumed, found.skipped = len(self._held), [0]
        self.skipped += [self.offset + offset for offset in found.skipped]
        self.repaired += [self.offset + offset for offset in found.repaired]
        self.cut = None if found.cut is None else self.offset + found.cut
        events = [event_of(fields) for fields in found.objects]
        # Where inflating met damage another pass may end a few bytes earlier: none of the text is
        # missing then if it ends before the event that was cut.
        length = found.consumed if found.cut is None else found.cut
        batch = Batch(events, b"", self.offset, length, False, found.starts, self._held[:length])
        self._advance(found.consumed)
        if found.closed:
            self.closed, self.tail, self._held = True, self._held, b""
        return batch

    def _advance(self, length: int) -> None:
        self.offset += length
        self._held = self._held[length:]


def last_boundary(text: bytes) -> tuple[int, int] | None:
    """Where the last event but one ends and the last begins, judging by punctuation alone.

    The cut is right exactly if what precedes it parses: an array cut inside a string or a nested
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
    """How many rows of the trace one batch makes, and the ``args`` of some of them, by number."""
    if strict:
        try:
            events = ROWS.decode(b"[" + text.rstrip(b", \t\r\n") + b"]")
            texts = [event.args for event in events if is_row(event.ph, event.cat)]
            known = [row for row in rows if row < len(texts)]
            return len(texts), [OBJECT.decode(texts[row]) for row in known]
        except NOT_STRICT:
            # Arguments that are no columns were skipped before without looking into them.
            pass
    objects = recover(text, last=True, fraction=float).objects
    found = [each.get("args", {}) for each in objects if is_row(each.get("ph"), each.get("cat"))]
    return len(found), [found[row] for row in rows if row < len(found)]


def is_row(kind: Any, category: Any) -> bool:
    """What ``becomes_row`` returns for an event with that ``ph`` and ``cat``, without making one: a
    piece holds a thousand."""
    return kind == COMPLETE and (category is None or str(category).lower() != SPAN)
