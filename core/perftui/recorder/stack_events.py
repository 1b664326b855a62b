"""What py-spy writes as a Chrome trace, read as stretches of the main thread."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec

LONGEST_TEXT = 300
"""Characters kept of a name: a stack that changes while it is read may hold anything."""

_MAIN = ("<module>", "_run_module_as_main")
"""Outermost functions of a main thread; other threads begin in ``threading``."""

_STANDARD = re.compile(r"[/\\]lib(64)?[/\\]python3\.\d+[/\\]")


class _Where(msgspec.Struct):
    filename: str = ""
    line: int | None = None


class _Event(msgspec.Struct):
    name: str
    ph: str
    pid: int
    tid: int
    ts: int
    """Microseconds since py-spy began."""
    args: _Where


_DECODER = msgspec.json.Decoder(list[_Event])


@dataclass(frozen=True)
class Frame:
    """A line that was being executed."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Stretch:
    """From ``start`` to ``end`` (ns) every look found ``stack``, outermost frame first."""

    start: int
    end: int
    stack: tuple[Frame, ...]


class StackError(ValueError):
    """The file holds no stacks that can be read."""


def read_stretches(content: bytes, pid: int, begun_ns: int) -> list[Stretch]:
    """Stretches of the main thread of ``pid`` in order; ``begun_ns`` is the time of ``ts`` 0.

    Empty where no main thread was seen.

    Raises:
        StackError: it is no Chrome trace of py-spy.
    """
    try:
        events = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StackError(str(error)) from error
    threads: dict[int, list[_Event]] = defaultdict(list)
    for event in events:
        if event.pid == pid:
            threads[event.tid].append(event)
    found = [list(_stretches(of_thread, begun_ns)) for of_thread in threads.values()]
    mains = [one for one in found if one and one[0].stack[0].function in _MAIN]
    return max(mains, key=lambda one: sum(each.end - each.start for each in one), default=[])


def _stretches(events: Iterable[_Event], begun_ns: int) -> Iterator[Stretch]:
    """Every event of one look has the same time; the stack is whole again before the next."""
    stack: list[Frame] = []
    since = 0
    for event in events:
        if event.ts > since:
            if stack:
                yield Stretch(begun_ns + since * 1000, begun_ns + event.ts * 1000, tuple(stack))
            since = event.ts
        if event.ph == "B":
            stack.append(Frame(event.name, event.args.filename, event.args.line or 0))
        elif event.ph == "E" and stack:
            stack.pop()


@dataclass(frozen=True)
class Place:
    """Where a stretch was: the innermost line of the user's own code, and the innermost frame."""

    file: str
    line: int
    function: str
    inner: str


@dataclass(frozen=True)
class Stay:
    """From ``start`` to ``end`` every look found ``place``; ``looks`` of them found another stack
    than the look before."""

    start: int
    end: int
    place: Place
    looks: int = 1

    def row(self) -> list[Any]:
        """By ``STACK_COLUMNS``."""
        place = self.place
        named = [place.file, place.line, place.function, place.inner]
        return [self.start, self.end - self.start, self.looks, *named]


def stays(stretches: Iterable[Stretch], hidden: str) -> list[Stay]:
    """Stretches as stays, those of one place that follow each other as one.

    Files below ``hidden`` are ours and never a place.
    """
    found: list[Stay] = []
    for stretch in stretches:
        place = _place(stretch.stack, hidden)
        last = found[-1] if found else None
        if last is not None and last.place == place and last.end == stretch.start:
            found[-1] = replace(last, end=stretch.end, looks=last.looks + 1)
        else:
            found.append(Stay(stretch.start, stretch.end, place))
    return found


def _place(stack: tuple[Frame, ...], hidden: str) -> Place:
    theirs = [frame for frame in reversed(stack) if not frame.file.startswith(hidden)]
    own = next((frame for frame in theirs if is_own(frame.file)), None)
    inner = theirs[0] if theirs else stack[-1]
    said = _text(f"{_short(inner.file)}:{inner.line} {inner.function}")
    if own is None:
        return Place("", -1, "", said)
    return Place(_text(own.file), own.line, _text(own.function), said)


def is_own(file: str) -> bool:
    """Whether ``file`` is the user's: neither installed, nor of Python itself, nor made up."""
    parts = PurePath(file).parts
    installed = "site-packages" in parts or "dist-packages" in parts
    return not (not file or file.startswith("<") or installed or _STANDARD.search(file))


def _short(file: str) -> str:
    """A file as its package knows it, else with its directory."""
    parts = PurePath(file).parts
    for name in ("site-packages", "dist-packages"):
        if name in parts:
            return "/".join(parts[parts.index(name) + 1 :])
    return "/".join(parts[-2:])


def _text(text: str) -> str:
    return text[:LONGEST_TEXT]
