"""Pickled numbers, text, lists, tuples and dicts, read without Python's pickle.

A pickle is a program for a small stack machine, and some of its instructions import a name or call
it. This machine has no code for those: what asks for one is refused, whatever it names. Python's
own unpickler with a ``find_class`` that raises is not enough: codes of the extension registry that
are in its cache never reach ``find_class``, an index of the memo makes it allocate as much as the
index says, and a key of deeply nested tuples is hashed by recursion in C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from perftui.trace.errors import TraceError
from perftui.trace.text import printable

Plain: TypeAlias = object
"""None, bool, int, float, str, or a list, tuple or dict with text keys of such."""

BYTES_HELD_FOR_EACH = 96
"""Memory while loading is at most this times the file's size, and 1 MiB. The dearest byte is an
instruction that makes an empty dict: 64 bytes and a place on the stack. Measured for a file of
nothing else: 73; for real snapshots: 5 to 9."""

PIECE = 256 * 1024
"""Bytes between two calls of ``watch``."""

_WIDEST_TEXT_NUMBER = 64
"""Digits of a number in protocol 0: longer ones are no sizes, and take quadratic time to read."""

_RUNS_CODE = {
    b"c": "GLOBAL",
    b"\x93": "STACK_GLOBAL",
    b"R": "REDUCE",
    b"i": "INST",
    b"o": "OBJ",
    b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX",
    b"b": "BUILD",
    b"P": "PERSID",
    b"Q": "BINPERSID",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
}
_NOT_PLAIN = {
    b"S": "STRING",
    b"T": "BINSTRING",
    b"U": "SHORT_BINSTRING",
    b"B": "BINBYTES",
    b"C": "SHORT_BINBYTES",
    b"\x8e": "BINBYTES8",
    b"\x96": "BYTEARRAY8",
    b"\x97": "NEXT_BUFFER",
    b"\x98": "READONLY_BUFFER",
    b"\x8f": "EMPTY_SET",
    b"\x90": "ADDITEMS",
    b"\x91": "FROZENSET",
    b"0": "POP",
    b"1": "POP_MARK",
    b"2": "DUP",
}

_STOPPED = 1 << 62
_BINGET, _LONG_BINGET = ord("h"), ord("j")
_UINT2, _UINT4 = struct.Struct("<H"), struct.Struct("<I")
_INT4, _UINT8, _DOUBLE = struct.Struct("<i"), struct.Struct("<Q"), struct.Struct(">d")


class _DamagedError(ValueError):
    pass


class PlainPickle:
    """Reads one pickle of any protocol; ``end`` is the offset behind it.

    Time and memory grow with the size of the data, never with a number in it.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = 0
        self._stack: list[Plain] = []
        self._marks: list[int] = []
        self._memo: list[Plain] = []
        self._handlers = self._table()

    def read(self, watch: Callable[[int], None]) -> Plain:
        """The value; ``watch`` is told the bytes read so far, and may raise to stop.

        Raises TraceError where the data asks for anything but plain values, is cut off or damaged.
        """
        position, size = 0, len(self.data)
        while position < size:
            position = self._run(position, min(position + PIECE, size))
            watch(min(position, size))
        if position != _STOPPED:
            raise TraceError("it is cut off: it ends before its value does; record it again")
        return self._stack[-1]

    def _run(self, position: int, limit: int) -> int:
        data, memo, handlers = self.data, self._memo, self._handlers
        push, index_at = self._stack.append, _UINT4.unpack_from
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
        except (IndexError, ValueError, struct.error) as error:
            raise TraceError(f"it is damaged at byte {position}: {error}") from error
        return position

    def _table(self) -> list[Callable[[int], int]]:
        handlers: list[Callable[[int], int]] = [self._unknown] * 256
        for name in _RUNS_CODE:
            handlers[name[0]] = self._refused
        for name in _NOT_PLAIN:
            handlers[name[0]] = self._refused
        for name, handler in {
            b"\x80": self._protocol,
            b"\x95": self._frame,
            b".": self._stop,
            b"(": self._mark,
            b"]": lambda at: self._push([], at),
            b"}": lambda at: self._push({}, at),
            b")": lambda at: self._push((), at),
            b"N": lambda at: self._push(None, at),
            b"\x88": lambda at: self._push(True, at),
            b"\x89": lambda at: self._push(False, at),
            b"l": lambda at: self._push(self._since_mark(), at),
            b"t": lambda at: self._push(tuple(self._since_mark()), at),
            b"d": lambda at: self._push(_dict(self._since_mark()), at),
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
            b"X": lambda at: self._text(_UINT4.unpack_from(self.data, at)[0], at + 4),
            b"\x8d": lambda at: self._text(_UINT8.unpack_from(self.data, at)[0], at + 8),
            b"g": self._get_line,
            b"p": self._put_line,
            b"q": lambda at: self._put(self.data[at], at + 1),
            b"r": lambda at: self._put(_UINT4.unpack_from(self.data, at)[0], at + 4),
            b"\x94": lambda at: self._put(len(self._memo), at),
        }.items():
            handlers[name[0]] = handler
        return handlers

    def _refused(self, at: int) -> int:
        code = self.data[at - 1 : at]
        if code in _NOT_PLAIN:
            raise TraceError(
                f"it holds what no memory snapshot holds ({_NOT_PLAIN[code]} at byte {at - 1}): "
                "refused; only numbers, text, lists and dicts are read"
            )
        raise TraceError(
            f"it asks to run code ({_RUNS_CODE[code]}{self._wanted(code, at)} at byte {at - 1}): "
            "refused, nothing was run; a memory snapshot holds only numbers, text, lists and dicts"
        )

    def _wanted(self, code: bytes, at: int) -> str:
        """The name that was to be imported, as far as it is written there."""
        parts: list[str] = []
        if code in b"ci":
            lines = self.data[at : at + 200].split(b"\n")[:2]
            parts = [line.decode("utf-8", "replace") for line in lines]
        elif code == b"\x93":
            parts = [part for part in self._stack[-2:] if isinstance(part, str)]
        name = printable(".".join(parts))[:80]
        return f" {name}" if name else ""

    def _unknown(self, at: int) -> int:
        raise _DamagedError(f"no instruction is spelled {self.data[at - 1 : at]!r}")

    def _protocol(self, at: int) -> int:
        if self.data[at] > 5:
            raise _DamagedError(f"protocol {self.data[at]} is not known")
        return at + 1

    def _frame(self, at: int) -> int:
        return at + 8

    def _stop(self, at: int) -> int:
        if not self._stack:
            raise _DamagedError("there is no value")
        self.end = at
        return _STOPPED

    def _mark(self, at: int) -> int:
        self._marks.append(len(self._stack))
        return at

    def _push(self, value: Plain, position: int) -> int:
        self._stack.append(value)
        return position

    def _since_mark(self) -> list[Plain]:
        mark = self._marks.pop()
        values = self._stack[mark:]
        del self._stack[mark:]
        return values

    def _last(self, count: int) -> list[Plain]:
        if len(self._stack) < count:
            raise _DamagedError("values are missing")
        values = self._stack[-count:]
        del self._stack[-count:]
        return values

    def _append(self, at: int) -> int:
        value = self._stack.pop()
        self._list().append(value)
        return at

    def _extend(self, at: int) -> int:
        values = self._since_mark()
        self._list().extend(values)
        return at

    def _list(self) -> list[Plain]:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise _DamagedError("it appends to what is no list")
        return target

    def _set_item(self, at: int) -> int:
        self._fill(self._last(2))
        return at

    def _set_items(self, at: int) -> int:
        self._fill(self._since_mark())
        return at

    def _fill(self, values: list[Plain]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise _DamagedError("it sets a key of what is no dict")
        target.update(_dict(values))

    def _bytes(self, length: int, at: int) -> bytes:
        if not 0 <= length <= len(self.data) - at:
            raise _DamagedError("a value is longer than the file")
        return self.data[at : at + length]

    def _long(self, length: int, at: int) -> int:
        value = int.from_bytes(self._bytes(length, at), "little", signed=True)
        return self._push(value, at + length)

    def _text(self, length: int, at: int) -> int:
        return self._push(self._bytes(length, at).decode("utf-8", "surrogatepass"), at + length)

    def _line(self, at: int) -> bytes:
        end = self.data.find(b"\n", at)
        if end < 0:
            raise _DamagedError("a line has no end")
        return self.data[at:end]

    def _text_line(self, at: int) -> int:
        line = self._line(at)
        return self._push(line.decode("raw-unicode-escape"), at + len(line) + 1)

    def _number_line(self, at: int, convert: Callable[[str], float]) -> int:
        line = self._line(at)
        if len(line) > _WIDEST_TEXT_NUMBER:
            raise _DamagedError("a number has too many digits")
        return self._push(convert(line.decode("ascii")), at + len(line) + 1)

    def _int_line(self, at: int) -> int:
        # Protocol 0 has no booleans: these two spellings of an integer stand for them.
        flags = {"00": False, "01": True}
        return self._number_line(at, lambda text: flags[text] if text in flags else int(text))

    def _get_line(self, at: int) -> int:
        line = self._line(at)
        return self._push(self._memo[_index(line)], at + len(line) + 1)

    def _put_line(self, at: int) -> int:
        line = self._line(at)
        return self._put(_index(line), at + len(line) + 1)

    def _put(self, index: int, position: int) -> int:
        # Every pickler numbers its memo without gaps; a gap would cost memory that nothing fills.
        if index > len(self._memo):
            raise _DamagedError(f"memo {index} follows memo {len(self._memo) - 1}")
        if index == len(self._memo):
            self._memo.append(self._stack[-1])
        else:
            self._memo[index] = self._stack[-1]
        return position


def _index(line: bytes) -> int:
    if not line.isdigit() or len(line) > _WIDEST_TEXT_NUMBER:
        raise _DamagedError("an index of the memo is no number")
    return int(line)


def _dict(values: list[Plain]) -> dict[str, Plain]:
    """Text keys only: their hash is random, so no file can choose keys that collide."""
    keys = values[::2]
    if len(values) % 2:
        raise _DamagedError("a key has no value")
    if set(map(type, keys)) - {str}:
        raise _DamagedError("a key is not text")
    return dict(zip(keys, values[1::2], strict=True))  # type: ignore[arg-type]  # checked above
