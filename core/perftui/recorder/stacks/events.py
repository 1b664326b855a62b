"""What py-spy writes as a Chrome trace, read as intervals of the main thread of a process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

_MAIN = ("<module>", "_run_module_as_main")
"""Outermost functions of a main thread; other threads begin in ``threading``."""


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
class StackInterval:
    """From ``start`` to ``end`` (ns) every sample found ``stack``, outermost frame first."""

    start: int
    end: int
    stack: tuple[Frame, ...]


class StackError(ValueError):
    """The file holds no stacks that can be read."""


def read_intervals(content: bytes, pid: int, begun_ns: int) -> list[StackInterval]:
    """Stack intervals of the main thread of ``pid`` in order, as ``read_threads`` finds it."""
    return read_threads(content, pid, begun_ns)[0]


def read_threads(
    content: bytes, pid: int, begun_ns: int
) -> tuple[list[StackInterval], list[list[StackInterval]]]:
    """Stack intervals of the main thread of ``pid`` in order, and those of each other thread of
    Python; ``begun_ns`` is the time of ``ts`` 0.

    Empty where no main thread was seen, or no other one.

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
    found = [list(_intervals(of_thread, begun_ns)) for of_thread in threads.values()]
    mains = [one for one in found if one and one[0].stack[0].function in _MAIN]
    main = max(mains, key=lambda one: sum(each.end - each.start for each in one), default=[])
    return main, [one for one in found if one and one not in mains]


def _intervals(events: Iterable[_Event], begun_ns: int) -> Iterator[StackInterval]:
    """Every event of one sample has the same time; the stack is whole again before the next."""
    stack: list[Frame] = []
    since = 0
    for event in events:
        if event.ts > since:
            if stack:
                yield StackInterval(
                    begun_ns + since * 1000, begun_ns + event.ts * 1000, tuple(stack)
                )
            since = event.ts
        if event.ph == "B":
            stack.append(Frame(event.name, event.args.filename, event.args.line or 0))
        elif event.ph == "E" and stack:
            stack.pop()
