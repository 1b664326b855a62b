"""The tracks of a trace: who ran the events, by the events and the metadata."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

import numpy as np

from perftui.trace.categories import CPU_OP, DEVICE_ACTIVITY, LAUNCHES, ON_DEVICE, PYTHON
from perftui.trace.kineto.events import Event
from perftui.trace.kineto.identifiers import identifier
from perftui.trace.model import NONE, Int32, Track


class Side(IntEnum):
    """Where an event ran, by its category.

    A thread and a stream can have the same ids: the main thread of a container's first process is
    1 of 1, and so is stream 1 of device 1.
    """

    EITHER = 0
    HOST = 1
    DEVICE = 2


_ON_HOST = (CPU_OP, PYTHON, *LAUNCHES)
_STREAM = re.compile(r"stream\b", re.IGNORECASE)
"""Begins PyTorch's names of streams."""

_ALL_DEVICES = "CUDA functions"
"""The process of all kernels in files of PyTorch before Kineto (1.7 and older, and later without
it), whose threads are the devices: streams are not known."""


def side_of(category: str) -> Side:
    """Where events of a category run; annotations, for one, are drawn on both sides."""
    if category in ON_DEVICE:
        return Side.DEVICE
    return Side.HOST if category in _ON_HOST else Side.EITHER


class TrackTable:
    """Numbers tracks in order of appearance and gathers what they are called."""

    def __init__(self) -> None:
        self.index = _TrackNumbers()
        """By process, thread and side."""
        self._process_names: dict[str, str] = {}
        self._thread_names: dict[tuple[str, str, bool], str] = {}
        self._places: dict[int, tuple[bool, int, int]] = {}

    def name(self, event: Event) -> None:
        """Take a metadata event."""
        name = event.args.name
        if not isinstance(name, str) or not name:
            return
        if event.name == "process_name":
            self._process_names[label(event.pid)] = name
        elif event.name == "thread_name":
            is_stream = _STREAM.match(name) is not None
            self._thread_names[label(event.pid), label(event.tid), is_stream] = name

    def place(self, track: int, event: Event, category: str) -> None:
        """Take an event of the device's side: it names the device and stream of its track.

        What kernels, copies and sets name goes before what the track's own ids suggest.
        """
        certain = category in DEVICE_ACTIVITY
        known = self._places.get(track)
        if known is not None and (known[0] or not certain):
            return
        device, stream = (
            _either(event.args.device, event.pid),
            _either(event.args.stream, event.tid),
        )
        if event.pid == _ALL_DEVICES and identifier(event.args.device) == NONE:
            device, stream = stream, NONE
        if device != NONE or certain:
            self._places[track] = (certain, max(device, 0) if certain else device, stream)

    def is_placed(self, track: int) -> bool:
        """Whether the track's device is known for certain."""
        return self._places.get(track, (False, NONE, NONE))[0]

    def tracks(self) -> tuple[tuple[Track, ...], Int32]:
        """All tracks, and the index among them of each number that was given out.

        Events that do not show their side are on the host where the ids are also a thread's,
        else on the device where they are also a stream's.
        """
        tracks: dict[tuple[str, str, Side], Track] = {}
        numbers = self.index.numbers
        keys = [self._merged(*key) for key in numbers]
        for key in keys:
            tracks.setdefault(key, self._track(*key))
        order = {key: position for position, key in enumerate(tracks)}
        return tuple(tracks.values()), np.array([order[key] for key in keys], dtype=np.int32)

    def _merged(self, process: str, thread: str, side: Side) -> tuple[str, str, Side]:
        if side is Side.EITHER:
            for other in (Side.HOST, Side.DEVICE):
                if (process, thread, other) in self.index.numbers:
                    return process, thread, other
        return process, thread, side

    def _track(self, process: str, thread: str, side: Side) -> Track:
        number = self.index.numbers[process, thread, side]
        _, device, stream = self._places.get(number, (False, NONE, NONE))
        return Track(
            process=process,
            thread=thread,
            process_name=self._process_names.get(process, ""),
            thread_name=self._thread_name(process, thread, side),
            device=device,
            stream=stream,
        )

    def _thread_name(self, process: str, thread: str, side: Side) -> str:
        of_device = side is Side.DEVICE
        name = self._thread_names.get((process, thread, of_device))
        if name is not None:
            return name
        other = Side.HOST if of_device else Side.DEVICE
        if (process, thread, other) in self.index.numbers:
            return ""
        return self._thread_names.get((process, thread, not of_device), "")


class Numbering(dict[Any, int]):
    """Gives each key it has not seen the next number."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class _TrackNumbers(dict[tuple[Any, Any, int], int]):
    """By ids as the file has them; ids that are spelled differently share a number."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[tuple[str, str, Side], int] = Numbering()

    def __missing__(self, key: tuple[Any, Any, int]) -> int:
        number = self[key] = self.numbers[label(key[0]), label(key[1]), Side(key[2])]
        return number


def label(value: Any) -> str:
    """A process's or thread's id as text; nothing where the file has none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def _either(first: Any, second: Any) -> int:
    number = identifier(first)
    return number if number != NONE else identifier(second)
