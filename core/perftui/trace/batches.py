"""A stream of text cut at event boundaries, each stretch decoded at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from perftui.trace.events import EVENTS, NOT_STRICT, OBJECTS, Event, event_of
from perftui.trace.recover import recover

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
    """Of their text in the file (inflated)."""
    length: int
    strict: bool
    """Whether the text is plain JSON, or had to be read event by event."""


@dataclass
class Batches:
    """Decodes the array of events piece by piece; the outcome is told when the pieces end."""

    offset: int
    """Of the first event in the file (inflated)."""
    skipped: list[int] = field(default_factory=list)
    closed: bool = False
    """Whether the array ended with its bracket."""
    tail: bytes = b""
    """What follows the array."""
    _held: bytes = b""

    def decode(self, pieces: Iterable[bytes]) -> Iterator[Batch]:
        """All events, in file order."""
        for piece in pieces:
            if self.closed:
                self._keep_tail(piece)
                continue
            self._held += piece
            batch = self._whole_events()
            if batch is not None:
                yield batch
        batch = self._whole_events()
        if batch is not None:
            yield batch
        if self._held and not self.closed:
            yield self._recovered(last=True)

    def _keep_tail(self, piece: bytes) -> None:
        if len(self.tail) < _TAIL_LIMIT:
            self.tail += piece

    def _whole_events(self) -> Batch | None:
        """The batch of all whole events held, if any."""
        cut = last_boundary(self._held)
        if cut is None:
            return self._recovered(last=False) if len(self._held) > _GIVE_UP else None
        text = b"[" + self._held[: cut[0]] + b"]"
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
        events = [event_of(fields) for fields in found.objects]
        batch = Batch(events, b"", self.offset, found.consumed, strict=False)
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


def objects_of(text: bytes, strict: bool) -> list[dict[str, Any]]:
    """The events of one batch again, whole."""
    if strict:
        try:
            return OBJECTS.decode(b"[" + text.rstrip(b", \t\r\n") + b"]")
        except NOT_STRICT:
            # Arguments that are no columns were skipped before without looking into them.
            pass
    return recover(text, last=True, fraction=float).objects
