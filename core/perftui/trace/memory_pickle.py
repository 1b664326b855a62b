"""Memory snapshots: pickles of plain values, read without Python's pickle.

A pickle is a program for a small stack machine, and some of its instructions import a name or call
it. This machine has no code for those: they are refused, whatever they name. Python's own unpickler
with a ``find_class`` that raises is not enough: codes of the extension registry that are in its
cache never reach ``find_class``, an index of the memo makes it allocate as much as the index asks,
and a key of deeply nested tuples is hashed by recursion in C.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

from perftui.trace.kineto.source import GZIP_WINDOW, MAGIC, Source, zlib
from perftui.trace.memory_snapshot import (
    MemorySnapshot,
    Row,
    StackTable,
    block_table,
    event_table,
    rows_of,
    segment_table,
)
from perftui.trace.model import LoadCancelled, LoadWarning, TraceError
from perftui.trace.text import printable

PIECE = 256 * 1024
"""Bytes between two calls of ``watch``."""

ENDED = "it ends before its value does"

_STOPPED = 1 << 62
"""The position after the last instruction."""

_RUNS_CODE = b"cRiobPQ\x81\x82\x83\x84\x92\x93"
"""GLOBAL, REDUCE, INST, OBJ, BUILD, PERSID, BINPERSID, NEWOBJ, EXT1 to EXT4, NEWOBJ_EX and
STACK_GLOBAL import, call or build objects named in the file: refused, damaged or not."""

_BINGET, _LONG_BINGET = ord("h"), ord("j")
_UINT2, _UINT4, _UINT8 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_INT4, _DOUBLE = struct.Struct("<i"), struct.Struct(">d")

Plain: TypeAlias = object
"""None, bool, int, float, str, or a list, tuple or dict with text keys of such."""

Kind = TypeVar("Kind", "list[Plain]", "dict[str, Plain]")


class DamagedError(ValueError):
    """An instruction cannot be carried out; the message says why."""


class EndedError(DamagedError):
    """An instruction needs bytes beyond the end of the data."""


@dataclass(frozen=True)
class Damage:
    """Where reading stopped, and why: everything before ``at`` was read."""

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
        """The offset after the pickle, if it was read to its end."""
        self.stack: list[Plain] = []
        """The value; of a damaged pickle also values not yet put into lists and dicts."""
        self.marks: list[int] = []
        """Heights of the stack; no pickler makes them fall."""
        self._memo: list[Plain] = []
        self._handlers = self._table()

    def run(self, watch: Callable[[int], None]) -> Damage | None:
        """Read as far as possible; ``watch`` is called with the bytes read so far, and may raise.

        Raises TraceError if the data asks to run code.
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
            # The last byte may lack its argument; it cannot complete the value anyway.
            return position, Damage(ENDED if position + 1 == len(data) else str(error), position)
        return position, None

    def _table(self) -> list[Callable[[int], int]]:
        """Function of each instruction: takes the position after it, and returns the next."""
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
            f"it asks to run code ({_name(self.data[at - 1])}{self._import(at)} at byte {at - 1}): "
            "refused, nothing was run; a memory snapshot holds only numbers, text, lists and dicts"
        )

    def _import(self, at: int) -> str:
        """The name to be imported, as far as it is written there."""
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
        # Text keys only: their hash is random, so no file can choose keys that collide.
        target, values = self._below(begin, dict), self.stack[begin:]
        keys = values[::2]
        if len(values) % 2:
            raise DamagedError("a key has no value")
        if set(map(type, keys)) - {str}:
            raise DamagedError("a key is not text")
        target.update(zip(keys, values[1::2], strict=True))  # type: ignore[arg-type]  # checked above
        del self.stack[begin:]
        return at

    def _below(self, begin: int, kind: type[Kind]) -> Kind:
        """The container for the values from ``begin`` on; the stack is unchanged if they fail."""
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
        # Every pickler numbers its memo without gaps; a gap would take memory that nothing fills.
        if index > len(self._memo):
            raise DamagedError(f"memo {index} follows memo {len(self._memo) - 1}")
        if index == len(self._memo):
            self._memo.append(self.stack[-1])
        else:
            self._memo[index] = self.stack[-1]
        return position


def _name(code: int) -> str:
    """The instruction's name in Python's documentation."""
    from pickletools import opcodes

    names = {opcode.code: opcode.name for opcode in opcodes}
    return names.get(chr(code), f"an instruction spelled {bytes([code])!r}")


_SEGMENTS, _TRACES = "segments", "device_traces"


@dataclass(frozen=True)
class Content:
    """Rows are segments and events, not yet checked."""

    fields: dict[str, Plain]
    """Fields of the top level, without the rows."""
    segments: list[Plain]
    traces: list[Plain]
    """One list of events for each device."""
    segments_whole: bool = True
    whole_traces: int | None = None
    """Number of complete traces; None for all."""


def content_of(pickle: PlainPickle, damage: Damage | None) -> Content:
    """The content of ``pickle``; raises TraceError if it is no snapshot, or without a row."""
    if damage is None:
        return _whole(pickle.stack[-1])
    problem = f"it is damaged at byte {damage.at}: {damage.why}; nothing before that can be shown"
    try:
        content = _finished(pickle.stack, pickle.marks)
    except TraceError as error:
        raise TraceError(f"{problem}: record it again") from error
    pickle.stack.clear()
    if not content.segments and not any(content.traces):
        raise TraceError(f"{problem}: record it again")
    return content


def _whole(tree: Plain) -> Content:
    """Content of a complete pickle."""
    if isinstance(tree, list) and tree:
        return Content({}, tree, [])
    if not isinstance(tree, dict) or not {_SEGMENTS, _TRACES} & tree.keys():
        raise TraceError("it has no segments and no device_traces: this is not a memory snapshot")
    segments, traces = tree.get(_SEGMENTS, []), tree.get(_TRACES, [])
    if not isinstance(segments, list):
        raise TraceError("segments are not a list of dicts: this is not a memory snapshot")
    if not isinstance(traces, list):
        raise TraceError("'device_traces' is not a list: this is not a memory snapshot")
    return Content(tree, segments, traces)


def _finished(stack: Sequence[Plain], marks: Sequence[int]) -> Content:
    """Content that an incomplete pickle had finished.

    A list on the stack is taken as far as it goes: it may be unfinished, but none of its rows is. A
    dict on top of the stack is left out: it may be incomplete.
    """
    root = stack[0] if stack else None
    if isinstance(root, list):
        return replace(_whole(_rows(stack, 0, _end(stack, 0, dict))), segments_whole=False)
    if not isinstance(root, dict):
        raise TraceError("it holds nothing that could be read")
    tree, at, open_ones = dict(root), 1, set(marks)
    # Values below a mark are being filled.
    while _is_key(stack, at) and _is_key(stack, at + 2) and at + 2 not in open_ones:
        tree[str(stack[at])] = stack[at + 1]
        at += 2
    opened = str(stack[at]) if _is_key(stack, at) else ""
    whole_traces = None if _TRACES in tree else 0
    if opened == _SEGMENTS:
        tree[opened] = _rows(stack, at + 1, _end(stack, at + 1, dict))
    elif opened == _TRACES:
        end = _end(stack, at + 1, list)
        traces = _rows(stack, at + 1, end)
        whole_traces = len(traces)
        if end > at + 2:
            traces.append(_rows(stack, end - 1, _end(stack, end - 1, dict)))
        tree[opened] = traces
    return replace(
        _whole(tree),
        segments_whole=_SEGMENTS in tree and opened != _SEGMENTS,
        whole_traces=whole_traces,
    )


def _is_key(stack: Sequence[Plain], at: int) -> bool:
    return at < len(stack) and isinstance(stack[at], str)


def _rows(stack: Sequence[Plain], at: int, end: int) -> list[Plain]:
    """The list at ``at`` and the values above it that wait to be appended, except for the last
    before ``end``."""
    listed = stack[at] if at < len(stack) else None
    return [*(listed if isinstance(listed, list) else ()), *islice(stack, at + 1, end - 1)]


def _end(stack: Sequence[Plain], at: int, kind: type[object]) -> int:
    """The first index after ``at`` with another kind of value."""
    end = at + 1
    while end < len(stack) and isinstance(stack[end], kind):
        end += 1
    return end


MOST_INFLATED = 128
"""Times the file's size that is inflated: real snapshots shrink to a tenth or a twentieth, and gzip
can hold a thousand times its size."""

_ALWAYS = 1024 * 1024
"""Bytes that may be inflated of any file."""


def read_bytes(path: Path, check: Callable[[], None]) -> tuple[bytes, Source]:
    """Read and inflate the file, within twice its (inflated) size; ``check`` may raise to stop.

    Returns all readable bytes, and their source, which knows whether gzip was damaged. Raises
    TraceError if it cannot be read, is empty, or is larger than ``MOST_INFLATED`` allows.
    """
    source = Source(path)
    most = max(_ALWAYS, MOST_INFLATED * source.total)
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in source.pieces():
            check()
            pieces.append(piece)
            size += len(piece)
            if source.compressed and size > most:
                raise TraceError(
                    f"{path} inflates to more than {MOST_INFLATED} times its size: refused; unpack "
                    "it with gunzip, and open what comes out"
                )
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if not size and source.damage is None:
        raise TraceError(f"{path} is empty: the snapshot was not written; record it again")
    return b"".join(pieces), source


def inflated_head(head: bytes, size: int) -> bytes:
    """The first bytes of the content, from the first bytes of the file, which may be gzip."""
    if not head.startswith(MAGIC):
        return head[:size]
    try:
        return bytes(zlib.decompressobj(GZIP_WINDOW).decompress(head, size))
    except zlib.error:
        return b""


_HEAD = 512
"""Bytes of a pickle that show whether it is a snapshot."""

_OPENING = re.compile(rb"\x80[\x02-\x05]")
_FIRST_KEY = re.compile(rb"segments|device_traces|total_size|allocated_size|segment_type")


def is_memory_snapshot(first_bytes: bytes) -> bool:
    """Whether a file with these first bytes is a pickled memory snapshot, gzip or not.

    Some hundred bytes are enough; of gzip some thousand, as its header can hold a name.
    """
    head = inflated_head(first_bytes, _HEAD)
    return bool(_OPENING.match(head) and _FIRST_KEY.search(head))


def load_memory_snapshot(
    path: Path,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> MemorySnapshot:
    """Load a file of ``torch.cuda.memory._dump_snapshot``, or a pickled ``memory_snapshot()``.

    It may be gzip. Nothing in the file is imported, called or built beyond numbers, text, lists,
    tuples and dicts; ``PlainPickle`` bounds the memory, and ``MOST_INFLATED`` the size of inflated
    content. ``progress`` is called with the bytes of the pickle read and in all, and ``cancelled``
    asked, every 256 KiB.

    Of a file that is cut off or damaged the segments and events before the damage are loaded; one
    of ``warnings`` says where it lies. Nothing after it is read: instructions refer to values by
    the count of those before them, so they would be misread.

    Raises TraceError, which says what to do, if the file cannot be read, is no memory snapshot, is
    damaged before its first segment or event is read, holds one whose fields are none of a
    snapshot, or asks for more than plain values, damaged or not; LoadCancelled after ``cancelled``
    returned True.
    """

    def check() -> None:
        if cancelled is not None and cancelled():
            raise LoadCancelled

    def watch(done: int) -> None:
        check()
        if progress is not None:
            progress(done, len(data))

    data, source = read_bytes(path, check)
    try:
        pickle = PlainPickle(data)
        damage = pickle.run(watch)
        content = content_of(pickle, damage)
        warnings = _damage_of(source, damage, pickle.end, len(data))
        return _snapshot(path, content, len(data), warnings)
    except TraceError as error:
        raise TraceError(f"cannot read {path}: {error}") from error


def _damage_of(source: Source, damage: Damage | None, end: int, size: int) -> list[LoadWarning]:
    """At most one warning; bytes after a complete pickle are no damage."""
    at = end if damage is None else damage.at
    extent = f"loaded up to byte {at:,}{' of the inflated pickle' if source.compressed else ''}"
    if damage is not None and damage.why != ENDED:
        return [LoadWarning(f"the file is damaged ({damage.why}); {extent}", at)]
    if source.damage is not None:
        return [LoadWarning(f"{source.damage}; {extent}", at)]
    if damage is not None:
        return [LoadWarning(f"the file ends before its value does; {extent}", at)]
    if size > end:
        return [LoadWarning(f"{size - end} bytes after the snapshot were not read", end)]
    return []


def _snapshot(
    path: Path, content: Content, size: int, warnings: list[LoadWarning]
) -> MemorySnapshot:
    """All tables; ``size`` is the pickle's in bytes, which bounds the rows."""
    segments = rows_of(content.segments, "segments")
    stacks, unknown, whole = StackTable(), Counter[str](), content.whole_traces
    blocks = block_table(segments, stacks, most=size)
    traces = tuple(
        event_table(device, events, stacks, unknown, whole is None or device < whole)
        for device, events in enumerate(_traces(content.traces, most=size))
    )
    warnings = [*warnings]
    if unknown:
        names = ", ".join(printable(name)[:40] for name, _ in unknown.most_common(3))
        message = f"{unknown.total()} events have actions that are not known: {names}"
        warnings.append(LoadWarning(message))
    host = content.fields.get("host_segments")
    if isinstance(host, list) and host:
        warnings.append(LoadWarning(f"{len(host)} segments of pinned host memory are not shown"))
    return MemorySnapshot(
        path=path,
        segments=segment_table(segments, content.segments_whole),
        blocks=blocks,
        traces=traces,
        stacks=stacks.stacks(),
        whole=content.segments_whole and whole is None,
        warnings=tuple(warnings),
    )


def _traces(traces: list[object], most: int) -> list[list[Row]]:
    """Raises TraceError for more than ``most`` events: one list can be named many times."""
    if sum(len(events) + 1 for events in traces if isinstance(events, list)) > most:
        raise TraceError("it lists more events than it has bytes: refused")
    return [rows_of(events, "device_traces") for events in traces]
