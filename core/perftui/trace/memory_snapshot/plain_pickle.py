"""Pickled numbers, text, lists, tuples and dicts, read without Python's pickle."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.containers import EndedError, Plain
from perftui.trace.memory_snapshot.machine import STOPPED, UINT4, Machine

BYTES_HELD_FOR_EACH = 96
"""Memory while loading is at most this times the pickle's size, and 1 MiB. The dearest byte is an
instruction that makes an empty dict: 64 bytes and a place on the stack. Measured for a file of
nothing else: 73; for real snapshots: 5 to 9."""

PIECE = 256 * 1024
"""Bytes between two calls of ``watch``."""

ENDED = "it ends before its value does"

_FITS_32_BITS = 1 << 32
_BINGET, _LONG_BINGET = ord("h"), ord("j")


@dataclass(frozen=True)
class Damage:
    """Where reading stopped, and why: all before ``at`` was read."""

    why: str
    at: int

    @property
    def ended(self) -> bool:
        """Whether there was no more to read, so that the file was cut short."""
        return self.why == ENDED


class PlainPickle(Machine):
    """Reads one pickle of any protocol; ``end`` is the offset behind it.

    Time and memory grow with the size of the data, never with a number in it.
    """

    def read(self, watch: Callable[[int], None]) -> Plain:
        """The value; ``watch`` is told the bytes read so far, and may raise to stop.

        Raises TraceError where the data asks for anything but plain values, is cut off or damaged.
        """
        damage = self.run(watch)
        if damage is not None:
            raise TraceError(f"it is damaged at byte {damage.at}: {damage.why}")
        return self.value

    def run(self, watch: Callable[[int], None]) -> Damage | None:
        """Read as far as it goes; ``stack`` and ``marks`` hold what was read of a damaged one.

        Raises RefusedError where the data asks to run code.
        """
        position, size = 0, len(self.data)
        while position < size:
            following, damage = self._step(position, min(position + PIECE, size))
            if damage is not None:
                return damage
            position = following
            watch(min(position, size))
        return None if position == STOPPED else Damage(ENDED, size)

    @property
    def value(self) -> Plain:
        """What was read to its end."""
        return self.stack[-1]

    def _step(self, position: int, limit: int) -> tuple[int, Damage | None]:
        data, memo, handlers = self.data, self.memo, self.handlers
        push, index_at = self.stack.append, UINT4.unpack_from
        try:
            while position < limit:
                code = data[position]
                # Two of three instructions of a real snapshot fetch a frame from the memo.
                if code == _BINGET:
                    push(memo[data[position + 1]])
                    position += 2
                elif code == _LONG_BINGET:
                    push(memo[index_at(data, position + 1)[0]])
                    position += 5
                else:
                    position = handlers[code](position + 1)
        except TraceError:
            raise
        except (EndedError, struct.error):
            return position, Damage(ENDED, position)
        except (IndexError, ValueError) as error:
            # An argument of one byte that is not there is the only index behind the data.
            why = ENDED if position + 1 == len(data) and _takes_byte(code) else str(error)
            return position, Damage(why, position)
        return position, None


def _takes_byte(code: int) -> bool:
    return code in b"\x80hqK\x8a\x8c"


class PlacedPickle(PlainPickle):
    """Remembers where each dict began, for 12 bytes a dict: within what is held for its byte."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._identities = array("Q")
        self._places = array("I" if len(data) < _FITS_32_BITS else "Q")

    def place(self, value: Plain) -> int | None:
        """The offset of the instruction that made this dict, None for what is none of its dicts."""
        for index in range(len(self._identities) - 1, -1, -1):
            if self._identities[index] == id(value):
                return self._places[index]
        return None

    def _empty_dict(self, at: int) -> int:
        return self._placed(super()._empty_dict(at), at)

    def _whole_dict(self, at: int) -> int:
        return self._placed(super()._whole_dict(at), at)

    def _placed(self, following: int, at: int) -> int:
        self._identities.append(id(self.stack[-1]))
        self._places.append(at - 1)
        return following
