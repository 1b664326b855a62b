"""Columns of a trace while it is being read: appended to batch by batch, then put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perftui.trace import identifiers, times
from perftui.trace.batches import Batch
from perftui.trace.categories import ON_DEVICE, SPAN, normalise
from perftui.trace.events import TIMES, Event
from perftui.trace.model import NONE, Int32, Int64
from perftui.trace.tracks import Numbering, TrackTable

COMPLETE = "X"
METADATA = "M"


def becomes_row(event: Event) -> bool:
    """Whether an event is a row: it has a duration, and is not the recording itself."""
    return event.ph == COMPLETE and (event.cat is None or event.cat.lower() != SPAN)


@dataclass
class Part:
    """Rows of one batch, in file order."""

    start: Int64
    duration: Int64
    name: Int32
    category: Int32
    track: Int32
    correlation: Int64
    external_id: Int64
    bytes: Int64


@dataclass
class Columns:
    """What has been read so far."""

    parts: list[Part] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=Numbering)
    categories: dict[tuple[str | None, str], int] = field(default_factory=Numbering)
    """By spelling and, where there is none, by process."""
    tracks: TrackTable = field(default_factory=TrackTable)
    events: int = 0
    """Events of any kind."""
    complete_events: int = 0
    """Events with a duration, those that are no rows too."""
    untimed: int = 0
    """Events left out because their time is no number."""
    negative: int = 0
    """Events whose duration is below zero, and counts as zero."""
    unpaired: int = 0
    """Begin and end events, which PyTorch does not write."""

    def add(self, batch: Batch) -> int:
        """Append the rows of a batch; how many there are."""
        for event in batch.events:
            if event.ph == METADATA:
                self.tracks.name(event)
            elif event.ph in {"B", "E"}:
                self.unpaired += 1
        self.events += len(batch.events)
        complete = [event for event in batch.events if event.ph == COMPLETE]
        self.complete_events += len(complete)
        rows = [event for event in complete if becomes_row(event)]
        if rows:
            self.parts.append(self._part(rows, batch))
        return len(rows)

    def _part(self, rows: list[Event], batch: Batch) -> Part:
        start, duration = self._times(rows, batch)
        arguments = [event.args for event in rows]
        external = identifiers.column([each.external_id for each in arguments])
        legacy = identifiers.column([each.legacy_external_id for each in arguments])
        part = Part(
            start=start,
            duration=duration,
            name=_numbers(self.names, [event.name for event in rows]),
            category=self._categories(rows),
            track=_numbers(self.tracks.index, [(event.pid, event.tid) for event in rows]),
            correlation=identifiers.column([each.correlation for each in arguments]),
            external_id=np.where(external == NONE, legacy, external),
            bytes=identifiers.column([each.bytes for each in arguments]),
        )
        self._place(rows, part)
        return part

    def _categories(self, rows: list[Event]) -> Int32:
        return _numbers(
            self.categories,
            [(event.cat, "" if event.cat is not None else str(event.pid)) for event in rows],
        )

    def _place(self, rows: list[Event], part: Part) -> None:
        """Tell the tracks' table of rows on devices, as long as it does not know their place."""
        labels = [normalise(*key) for key in self.categories]
        on_device = np.isin(part.category, [i for i, s in enumerate(labels) if s in ON_DEVICE])
        pairs = np.stack([part.track[on_device], part.category[on_device]], axis=1)
        unique, first = np.unique(pairs, axis=0, return_index=True)
        places = np.flatnonzero(on_device)[first]
        for (track, category), row in zip(unique.tolist(), places.tolist(), strict=True):
            if not self.tracks.is_placed(track):
                self.tracks.place(track, rows[row], labels[category])

    def _times(self, rows: list[Event], batch: Batch) -> tuple[Int64, Int64]:
        start = times.column([event.ts for event in rows])
        duration = times.column([event.dur for event in rows])
        if start is None or duration is None:
            start, duration = self._exact_times(rows, batch)
        negative = duration < 0
        self.negative += int(np.count_nonzero(negative))
        return start, np.where(negative, 0, duration)

    def _exact_times(self, rows: list[Event], batch: Batch) -> tuple[Int64, Int64]:
        if batch.strict:
            texts = zip(batch.events, TIMES.decode(batch.text), strict=True)
            pairs = [(bytes(t.ts), bytes(t.dur)) for event, t in texts if becomes_row(event)]
            spelled = [(_unquoted(start), _unquoted(duration)) for start, duration in pairs]
        else:
            spelled = [(event.ts, event.dur) for event in rows]
        start = [times.nanoseconds(pair[0]) for pair in spelled]
        duration = [times.nanoseconds(pair[1]) for pair in spelled]
        self.untimed += sum(each is None for each in start)
        return (
            np.array([times.UNTIMED if each is None else each for each in start], dtype=np.int64),
            np.array([each or 0 for each in duration], dtype=np.int64),
        )


def _unquoted(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip('"')


def _numbers(table: dict[Any, int], keys: Sequence[Any]) -> Int32:
    return np.fromiter(map(table.__getitem__, keys), np.int32, len(keys))
