"""The tracks of a trace: who ran the events, by what the events and the metadata say."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from perftui.trace.categories import DEVICE_ACTIVITY
from perftui.trace.events import Event
from perftui.trace.identifiers import identifier
from perftui.trace.model import NONE, Track

Key = tuple[Hashable, Hashable]


class TrackTable:
    """Numbers (process, thread) pairs in order of appearance and gathers what they are called."""

    def __init__(self) -> None:
        self.index = Numbering()
        self._process_names: dict[str, str] = {}
        self._thread_names: dict[tuple[str, str], str] = {}
        self._places: dict[int, tuple[bool, int, int]] = {}

    def name(self, event: Event) -> None:
        """Take a metadata event."""
        name = event.args.name
        if not isinstance(name, str) or not name:
            return
        if event.name == "process_name":
            self._process_names[str(event.pid)] = name
        elif event.name == "thread_name":
            self._thread_names[str(event.pid), str(event.tid)] = name

    def place(self, track: int, event: Event, category: str) -> None:
        """Take an event of the device's side: it says which device and stream its track is.

        What kernels, copies and sets say goes before what the track's own ids suggest.
        """
        certain = category in DEVICE_ACTIVITY
        known = self._places.get(track)
        if known is not None and (known[0] or not certain):
            return
        device = _either(event.args.device, event.pid)
        if device != NONE or certain:
            stream = _either(event.args.stream, event.tid)
            self._places[track] = (certain, max(device, 0) if certain else device, stream)

    def is_placed(self, track: int) -> bool:
        """Whether the track's device is known for certain."""
        return self._places.get(track, (False, NONE, NONE))[0]

    def tracks(self) -> tuple[Track, ...]:
        """All tracks, by number."""
        return tuple(self._track(number, key) for key, number in self.index.items())

    def _track(self, number: int, key: Key) -> Track:
        process, thread = str(key[0]), str(key[1])
        _, device, stream = self._places.get(number, (False, NONE, NONE))
        return Track(
            process=process,
            thread=thread,
            process_name=self._process_names.get(process, ""),
            thread_name=self._thread_names.get((process, thread), ""),
            device=device,
            stream=stream,
        )


class Numbering(dict[Any, int]):
    """Gives each key it has not seen the next number."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


def _either(first: Any, second: Any) -> int:
    number = identifier(first)
    return number if number != NONE else identifier(second)
