"""The stack machine of pickles, with instructions for plain values only.

A pickle is a program for a small stack machine, and some of its instructions import a name or call
it. This machine has no code for those: what asks for one is refused, whatever it names. Python's
own unpickler with a ``find_class`` that raises is not enough: codes of the extension registry that
are in its cache never reach ``find_class``, an index of the memo makes it allocate as much as the
index says, and a key of deeply nested tuples is hashed by recursion in C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from perftui.trace.memory_snapshot.containers import (
    Containers,
    DamagedError,
    EndedError,
    Plain,
)
from perftui.trace.memory_snapshot.refusal import NOT_PLAIN, RUNS_CODE, refusal

STOPPED = 1 << 62
"""The position behind the last instruction."""

UINT4 = struct.Struct("<I")
_UINT2, _INT4 = struct.Struct("<H"), struct.Struct("<i")
_UINT8, _DOUBLE = struct.Struct("<Q"), struct.Struct(">d")

_WIDEST_TEXT_NUMBER = 64
"""Digits of a number in protocol 0: longer ones are no sizes, and take quadratic time to read."""


class Machine(Containers):
    """``handlers`` by instruction: each is given the position behind it, and returns the next.

    They raise RefusedError for what would run code; DamagedError, IndexError, ValueError or
    struct.error for what cannot be done.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data
        self.end = 0
        self.memo: list[Plain] = []
        self.handlers = self._table()

    def _table(self) -> list[Callable[[int], int]]:
        handlers: list[Callable[[int], int]] = [self._unknown] * 256
        for name in RUNS_CODE:
            handlers[name[0]] = self._refused
        for name in NOT_PLAIN:
            handlers[name[0]] = self._not_plain
        for name, handler in {
            b"\x80": self._protocol,
            b"\x95": self._frame,
            b".": self._stop,
            b"(": self._mark,
            b"]": lambda at: self._push([], at),
            b"}": self._empty_dict,
            b")": lambda at: self._push((), at),
            b"N": lambda at: self._push(None, at),
            b"\x88": lambda at: self._push(True, at),
            b"\x89": lambda at: self._push(False, at),
            b"l": lambda at: self._push(self._since_mark(), at),
            b"t": lambda at: self._push(tuple(self._since_mark()), at),
            b"d": self._whole_dict,
            b"\x85": lambda at: self._push(tuple(self._last(1)), at),
            b"\x86": lambda at: self._push(tuple(self._last(2)), at),
            b"\x87": lambda at: self._push(tuple(self._last(3)), at),
            b"a": self._append,
            b"e": self._extend,
            b"s": self._set_item,
            b"u": self._set_items,
            b"K": lambda at: self._push(self.data[at], at + 1),
            b"M": lambda at: self._push(_UINT2.unpack_from(self.data, at)[0], at + 2),
            b"J": lambda at: self._push(_INT4.unpack_from(self.data, at)[0], at + 4),
            b"G": lambda at: self._push(_DOUBLE.unpack_from(self.data, at)[0], at + 8),
            b"\x8a": lambda at: self._long(self.data[at], at + 1),
            b"\x8b": lambda at: self._long(_INT4.unpack_from(self.data, at)[0], at + 4),
            b"I": self._int_line,
            b"L": lambda at: self._number_line(at, lambda text: int(text.removesuffix("L"))),
            b"F": lambda at: self._number_line(at, float),
            b"V": self._text_line,
            b"\x8c": lambda at: self._text(self.data[at], at + 1),
            b"X": lambda at: self._text(UINT4.unpack_from(self.data, at)[0], at + 4),
            b"\x8d": lambda at: self._text(_UINT8.unpack_from(self.data, at)[0], at + 8),
            b"g": self._get_line,
            b"p": self._put_line,
            b"q": lambda at: self._put(self.data[at], at + 1),
            b"r": lambda at: self._put(UINT4.unpack_from(self.data, at)[0], at + 4),
            b"\x94": lambda at: self._put(len(self.memo), at),
        }.items():
            handlers[name[0]] = handler
        return handlers

    def _refused(self, at: int) -> int:
        raise refusal(self.data, at - 1, self.stack)

    def _not_plain(self, at: int) -> int:
        name = NOT_PLAIN[self.data[at - 1 : at]]
        raise DamagedError(f"{name} is refused, as no memory snapshot holds it")

    def _unknown(self, at: int) -> int:
        raise DamagedError(f"no instruction is spelled {self.data[at - 1 : at]!r}")

    def _protocol(self, at: int) -> int:
        if self.data[at] > 5:
            raise DamagedError(f"protocol {self.data[at]} is not known")
        return at + 1

    def _frame(self, at: int) -> int:
        return at + 8

    def _stop(self, at: int) -> int:
        if len(self.stack) != 1:
            raise DamagedError(f"it stops with {len(self.stack)} values instead of one")
        self.end = at
        return STOPPED

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

    def _line(self, at: int) -> bytes:
        end = self.data.find(b"\n", at)
        if end < 0:
            raise EndedError("a line has no end")
        return self.data[at:end]

    def _text_line(self, at: int) -> int:
        line = self._line(at)
        return self._push(line.decode("raw-unicode-escape"), at + len(line) + 1)

    def _number_line(self, at: int, convert: Callable[[str], float]) -> int:
        line = self._line(at)
        if len(line) > _WIDEST_TEXT_NUMBER:
            raise DamagedError("a number has too many digits")
        return self._push(convert(line.decode("ascii")), at + len(line) + 1)

    def _int_line(self, at: int) -> int:
        # Protocol 0 has no booleans: these two spellings of an integer stand for them.
        flags = {"00": False, "01": True}
        return self._number_line(at, lambda text: flags[text] if text in flags else int(text))

    def _get_line(self, at: int) -> int:
        line = self._line(at)
        return self._push(self.memo[_index(line)], at + len(line) + 1)

    def _put_line(self, at: int) -> int:
        line = self._line(at)
        return self._put(_index(line), at + len(line) + 1)

    def _put(self, index: int, position: int) -> int:
        # Every pickler numbers its memo without gaps; a gap would cost memory that nothing fills.
        if index > len(self.memo):
            raise DamagedError(f"memo {index} follows memo {len(self.memo) - 1}")
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        else:
            self.memo[index] = self.stack[-1]
        return position


def _index(line: bytes) -> int:
    if not line.isdigit() or len(line) > _WIDEST_TEXT_NUMBER:
        raise DamagedError("an index of the memo is no number")
    return int(line)
