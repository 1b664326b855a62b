"""Pickled numbers, text, lists, tuples and dicts, read without Python's pickle.

A pickle is a program for a small stack machine, and some of its instructions import a name or call
it. This machine has no code for those: what asks for one is refused, whatever it names. Python's
own unpickler with a ``find_class`` that raises is not enough: codes of the extension registry that
are in its cache never reach ``find_class``, an index of the memo makes it allocate as much as the
index asks, and a key of deeply nested tuples is hashed by recursion in C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from perftui.trace.model import TraceError
from perftui.trace.text import printable

PIECE = 256 * 1024
"""Bytes between two calls of ``watch``."""

ENDED = "it ends before its value does"

_STOPPED = 1 << 62
"""The position behind the last instruction."""

_RUNS_CODE = b"cRiobPQ\x81\x82\x83\x84\x92\x93"
"""GLOBAL, REDUCE, INST, OBJ, BUILD, PERSID, BINPERSID, NEWOBJ, EXT1 to EXT4, NEWOBJ_EX and
STACK_GLOBAL import, call or build what the file names: refused, damaged or not."""

_BINGET, _LONG_BINGET = ord("h"), ord("j")
_UINT2, _UINT4, _UINT8 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_INT4, _DOUBLE = struct.Struct("<i"), struct.Struct(">d")

Plain: TypeAlias = object
"""None, bool, int, float, str, or a list, tuple or dict with text keys of such."""

Kind = TypeVar("Kind", "list[Plain]", "dict[str, Plain]")


class DamagedError(ValueError):
    """An instruction cannot be carried out; the message says why."""


class EndedError(DamagedError):
    """An instruction needs bytes behind the end of the data."""


@dataclass(frozen=True)
class Damage:
    """Where reading stopped, and why: all before ``at`` was read."""

    why: str
    at: int


class PlainPickle:
    """Reads one pickle of protocol 2 and above, which is what torch writes.

    Time and memory grow with the size of the data, never with a number in it: at most 96 times the
    data is held, and 1 MiB. The costliest byte is an instruction that makes an empty dict: 64 bytes
    and a place on the stack. Measured for a file of nothing else: 73; for real snapshots: 5 to 9.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = 0
        """The offset behind the pickle, once it was read to its end."""
        self.stack: list[Plain] = []
        """The value; of a damaged pickle also what waits to be put into lists and dicts."""
        self.marks: list[int] = []
        """Heights of the stack; no pickler makes them fall."""
        self._memo: list[Plain] = []
        self._handlers = self._table()

    def run(self, watch: Callable[[int], None]) -> Damage | None:
        """Read as far as it goes; ``watch`` is called with the bytes read so far, and may raise.

        Raises TraceError where the data asks to run code.
        """
        position, size = 0, len(self.data)
        while position < size:
            following, damage = self._step(position, min(position + PIECE, size))
            if damage is not None:
                return damage
            position = following
            watch(min(position, size))
        return None if position == _STOPPED else Damage(ENDED, size)

    def _step(self, position: int, limit: int) -> tuple[int, Damage | None]:
        data, memo, handlers = self.data, self._memo, self._handlers
        push, index_at = self.stack.append, _UINT4.unpack_from
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
            # The last byte may lack its argument; whatever it is, the value does not end with it.
            return position, Damage(ENDED if position + 1 == len(data) else str(error), position)
        return position, None

    def _table(self) -> list[Callable[[int], int]]:
        """By instruction what is given the position behind it, and returns the next."""
        handlers: list[Callable[[int], int]] = [self._unknown] * 256
        for code in _RUNS_CODE:
            handlers[code] = self._refused
        for name, handler in {
            b"\x80": self._protocol,
            b"\x95": lambda at: at + 8,
            b".": self._stop,
            b"(": self._mark,
            b"]": lambda at: self._push([], at),
            b"}": lambda at: self._push({}, at),
            b")": lambda at: self._push((), at),
            b"N": lambda at: self._push(None, at),
            b"\x88": lambda at: self._push(True, at),
            b"\x89": lambda at: self._push(False, at),
            b"t": lambda at: self._from_mark(self._tuple, at),
            b"\x85": lambda at: self._tuple(len(self.stack) - 1, at),
            b"\x86": lambda at: self._tuple(len(self.stack) - 2, at),
            b"\x87": lambda at: self._tuple(len(self.stack) - 3, at),
            b"a": lambda at: self._extend(len(self.stack) - 1, at),
            b"e": lambda at: self._from_mark(self._extend, at),
            b"s": lambda at: self._set_items(len(self.stack) - 2, at),
            b"u": lambda at: self._from_mark(self._set_items, at),
            b"K": lambda at: self._push(self.data[at], at + 1),
            b"M": lambda at: self._push(_UINT2.unpack_from(self.data, at)[0], at + 2),
            b"J": lambda at: self._push(_INT4.unpack_from(self.data, at)[0], at + 4),
            b"G": lambda at: self._push(_DOUBLE.unpack_from(self.data, at)[0], at + 8),
            b"\x8a": lambda at: self._long(self.data[at], at + 1),
            b"\x8b": lambda at: self._long(_INT4.unpack_from(self.data, at)[0], at + 4),
            b"\x8c": lambda at: self._text(self.data[at], at + 1),
            b"X": lambda at: self._text(_UINT4.unpack_from(self.data, at)[0], at + 4),
            b"\x8d": lambda at: self._text(_UINT8.unpack_from(self.data, at)[0], at + 8),
            b"q": lambda at: self._put(self.data[at], at + 1),
            b"r": lambda at: self._put(_UINT4.unpack_from(self.data, at)[0], at + 4),
            b"\x94": lambda at: self._put(len(self._memo), at),
        }.items():
            handlers[name[0]] = handler
        return handlers

    def _refused(self, at: int) -> int:
        raise TraceError(
            f"it asks to run code ({_name(self.data[at - 1])}{self._wanted(at)} at byte {at - 1}): "
            "refused, nothing was run; a memory snapshot holds only numbers, text, lists and dicts"
        )

    def _wanted(self, at: int) -> str:
        """What was to be imported, as far as it is written there."""
        parts: list[str] = []
        if self.data[at - 1] in b"ci":
            lines = self.data[at : at + 200].split(b"\n")[:2]
            parts = [line.decode("utf-8", "replace") for line in lines]
        elif self.data[at - 1] == b"\x93"[0]:
            parts = [part for part in self.stack[-2:] if isinstance(part, str)]
        name = printable(".".join(parts))[:80]
        return f" {name}" if name else ""

    def _unknown(self, at: int) -> int:
        raise DamagedError(f"{_name(self.data[at - 1])} is refused, as no memory snapshot holds it")

    def _protocol(self, at: int) -> int:
        if self.data[at] > 5:
            raise DamagedError(f"protocol {self.data[at]} is not known")
        return at + 1

    def _stop(self, at: int) -> int:
        if len(self.stack) != 1:
            raise DamagedError(f"it stops with {len(self.stack)} values instead of one")
        self.end = at
        return _STOPPED

    def _mark(self, at: int) -> int:
        self.marks.append(len(self.stack))
        return at

    def _push(self, value: Plain, position: int) -> int:
        self.stack.append(value)
        return position

    def _from_mark(self, handler: Callable[[int, int], int], at: int) -> int:
        following = handler(self.marks[-1], at)
        self.marks.pop()
        return following

    def _tuple(self, begin: int, at: int) -> int:
        if begin < 0:
            raise DamagedError("values are missing")
        self.stack[begin:] = [tuple(self.stack[begin:])]
        return at

    def _extend(self, begin: int, at: int) -> int:
        self._below(begin, list).extend(self.stack[begin:])
        del self.stack[begin:]
        return at

    def _set_items(self, begin: int, at: int) -> int:
        self._below(begin, dict).update(_dict(self.stack[begin:]))
        del self.stack[begin:]
        return at

    def _below(self, begin: int, kind: type[Kind]) -> Kind:
        """What the values from ``begin`` on are put into; the stack stays as it is if they fail."""
        target = self.stack[begin - 1] if begin > 0 else None
        if not isinstance(target, kind):
            raise DamagedError(f"values are put into something that is not a {kind.__name__}")
        return target

    def _bytes(self, length: int, at: int) -> bytes:
        if length < 0:
            raise DamagedError("a value has a negative length")
        if length > len(self.data) - at:
            raise EndedError("a value is longer than the file")
        return self.data[at : at + length]

    def _long(self, length: int, at: int) -> int:
        value = int.from_bytes(self._bytes(length, at), "little", signed=True)
        return self._push(value, at + length)

    def _text(self, length: int, at: int) -> int:
        return self._push(self._bytes(length, at).decode("utf-8", "surrogatepass"), at + length)

    def _put(self, index: int, position: int) -> int:
        # Every pickler numbers its memo without gaps; a gap would cost memory that nothing fills.
        if index > len(self._memo):
            raise DamagedError(f"memo {index} follows memo {len(self._memo) - 1}")
        if index == len(self._memo):
            self._memo.append(self.stack[-1])
        else:
            self._memo[index] = self.stack[-1]
        return position


def _dict(values: list[Plain]) -> dict[str, Plain]:
    """Text keys only: their hash is random, so no file can choose keys that collide."""
    keys = values[::2]
    if len(values) % 2:
        raise DamagedError("a key has no value")
    if set(map(type, keys)) - {str}:
        raise DamagedError("a key is not text")
    return dict(zip(keys, values[1::2], strict=True))  # type: ignore[arg-type]  # checked above


def _name(code: int) -> str:
    """What Python's documentation calls the instruction."""
    from pickletools import opcodes

    named = {each.code: each.name for each in opcodes}
    return named.get(chr(code), f"an instruction spelled {bytes([code])!r}")
