"""Instructions that no memory snapshot holds; some refuse the file whatever else it holds."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.trace.errors import TraceError
from perftui.trace.text import printable

RUNS_CODE = {
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
"""Import, call or build what the file names: refused, damaged or not."""

NOT_PLAIN = {
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
"""Make other values, or are written by no pickler: taken as damage."""


class RefusedError(TraceError):
    """The file asks for what is never given: nothing of it is shown."""


def refusal(data: bytes, at: int, stack: Sequence[object]) -> RefusedError:
    """Why the instruction at ``at``, one of those that run code, is refused, and what it names."""
    code = data[at : at + 1]
    return RefusedError(
        f"it asks to run code ({RUNS_CODE[code]}{_wanted(code, data, at, stack)} at byte {at}): "
        "refused, nothing was run; a memory snapshot holds only numbers, text, lists and dicts"
    )


def _wanted(code: bytes, data: bytes, at: int, stack: Sequence[object]) -> str:
    """The name that was to be imported, as far as it is written there."""
    parts: list[str] = []
    if code in b"ci":
        lines = data[at + 1 : at + 201].split(b"\n")[:2]
        parts = [line.decode("utf-8", "replace") for line in lines]
    elif code == b"\x93":
        parts = [part for part in stack[-2:] if isinstance(part, str)]
    name = printable(".".join(parts))[:80]
    return f" {name}" if name else ""
