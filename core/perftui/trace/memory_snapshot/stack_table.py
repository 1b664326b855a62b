"""Call stacks, each kept once."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.model import Frame, Stacks
from perftui.trace.model import NONE

_LINE_BITS = 64


class StackTable:
    """Numbers distinct stacks; the lists given to it must outlive it, as it knows them by identity.

    A snapshot repeats the same frame dicts a hundred thousand times: comparing what they are made
    of instead took two to three times as long.
    """

    def __init__(self) -> None:
        self._by_list: dict[int, int] = {}
        self._by_identity: dict[tuple[int, ...], int] = {}
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._frame_of: dict[int, int] = {}
        self._frames: dict[Frame, int] = {}

    def add(self, frames: object) -> int:
        """The number of one stack, NONE for no stack; raises TraceError for what is none."""
        if frames is None:
            return NONE
        known = self._by_list.get(id(frames))
        if known is None:
            if not isinstance(frames, list | tuple):
                raise TraceError("'frames' is not a list: this is not a memory snapshot")
            known = self._number(frames) if frames else NONE
            self._by_list[id(frames)] = known
        return known

    def stacks(self) -> Stacks:
        """All stacks in the order of their numbers."""
        lengths = [len(indices) for indices in self._by_frames]
        flat = [index for indices in self._by_frames for index in indices]
        start = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=start[1:])
        return Stacks(tuple(self._frames), np.array(flat, np.int32), start)

    def _number(self, frames: list[object] | tuple[object, ...]) -> int:
        identity = tuple(map(id, frames))
        known = self._by_identity.get(identity)
        if known is None:
            indices = tuple(map(self._frame, frames))
            known = self._by_frames.setdefault(indices, len(self._by_frames))
            self._by_identity[identity] = known
        return known

    def _frame(self, value: object) -> int:
        known = self._frame_of.get(id(value))
        if known is None:
            frame = _frame(value)
            known = self._frames.setdefault(frame, len(self._frames))
            self._frame_of[id(value)] = known
        return known


def _frame(value: object) -> Frame:
    if isinstance(value, dict):
        filename, line, function = value.get("filename"), value.get("line"), value.get("name")
        if isinstance(filename, str) and isinstance(function, str) and _is_line(line):
            return Frame(filename, line, function)
    raise TraceError("a frame has no file, line and name: this is not a memory snapshot")


def _is_line(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value.bit_length() < _LINE_BITS
