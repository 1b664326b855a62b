"""Stack intervals of a thread by line of the user's code."""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import msgspec

import perftui
from perftui.format import is_generated
from perftui.run.columns import (
    BACKWARD,
    COLLATE,
    COMPILE,
    FETCH,
    FORWARD,
    OPTIMIZER,
    PROFILE,
    SAVE,
    WAIT,
)

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
    """A line that a sample found in execution."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class StackInterval:
    """All samples from ``start`` to ``end`` (ns) have ``stack``, outermost frame first."""

    start: int
    end: int
    stack: tuple[Frame, ...]


class StackError(ValueError):
    """The file holds no stacks that can be read."""


def read_threads(
    content: bytes, pid: int, begun_ns: int
) -> tuple[list[StackInterval], list[list[StackInterval]]]:
    """Stack intervals of the main thread of ``pid`` in order, and those of each other Python
    thread; ``begun_ns`` is the time of ``ts`` 0.

    Empty if no main thread was seen, or no other one. Raises StackError if it is no Chrome trace of
    py-spy."""
    try:
        events = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StackError(str(error)) from error
    threads: dict[int, list[_Event]] = defaultdict(list)
    for event in events:
        if event.pid == pid:
            threads[event.tid].append(event)
    by_thread = [list(_intervals(of_thread, begun_ns)) for of_thread in threads.values()]
    mains = [thread for thread in by_thread if thread and thread[0].stack[0].function in _MAIN]
    main = max(mains, key=lambda thread: sum(span.end - span.start for span in thread), default=[])
    return main, [thread for thread in by_thread if thread and thread not in mains]


def _intervals(events: Iterable[_Event], begun_ns: int) -> Iterator[StackInterval]:
    """All events of one sample have the same time; the stack is complete again before the next."""
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


LONGEST_TEXT = 300
"""Characters kept of a name: a stack that changes while it is read may hold anything."""

OURS = tuple(str(Path(perftui.__file__).parent / room) for room in ("agent", "wire"))
"""Our hooks are on the training's stack, but are no place of their own."""

_STANDARD = re.compile(r"/lib(64)?/python3\.\d+/")

_LOADING = "torch/utils/data/_utils/"
_WORKER = f"{_LOADING}worker.py"
"""File with the loop of a worker. Frames outside it in a forked worker are the stack of the
training at the moment of the fork."""
_FETCH = f"{_LOADING}fetch.py"
_COLLATE = f"{_LOADING}collate.py"
_DRAWING = "torch/utils/data/dataloader.py"
"""File in which the sampler is asked what the next batch is made of."""
_CALLS_COLLATE = "collate_fn("
"""Text of the line of torch's ``fetch`` that calls the collate function."""
_AROUND = ("plain.py", "call")
"""Our own frame around the collate function, where the agent is not compiled."""


@dataclass(frozen=True)
class StackPlace:
    """Place of an interval: the innermost line of the user's own code, and the innermost frame."""

    file: str
    line: int
    function: str
    inner: str
    stage: str = ""
    via: str = ""


_ACTIVITIES = tuple(
    (name, re.compile(marks))
    for name, marks in (
        # Compiler frames are often on the stack while compiled code runs, too. Before Python 3.11
        # the names of methods come without their class.
        (
            COMPILE,
            r"torch/(_dynamo/(convert_frame|symbolic_convert)\b"
            r"|_inductor/(?!utils|output_code|cudagraph|\S+ (\S+\.)?run$"
            r"|codecache\.py (CompiledFxGraph|__call__$))"
            r"|fx/(?!traceback|graph_module|_lazy_graph_module|interpreter))",
        ),
        (SAVE, r"torch/(serialization\.py (save|_save)|distributed/checkpoint/\S+ \w*save)\b"),
        # Every optimizer marks its steps for a profiler, even without one.
        (PROFILE, r"torch/(profiler/profiler\.py |autograd/profiler\.py (?!record_function|__))"),
        (OPTIMIZER, r"torch/optim/"),
        (BACKWARD, r"torch/(autograd/(__init__|graph)\.py |_tensor\.py (\w+\.)?backward)"),
        (FORWARD, r"torch/nn/modules/module\.py "),
    )
)
"""By file and function of a frame anywhere on the stack; the first match counts."""

Locate: TypeAlias = Callable[[Sequence[Frame]], StackPlace]


@dataclass(frozen=True)
class Stay:
    """All samples from ``start`` to ``end`` have ``place``; ``samples`` of them have another stack
    than the sample before."""

    start: int
    end: int
    place: StackPlace
    samples: int = 1

    def row(self, every: int) -> list[Any]:
        """The row by ``STACK_COLUMNS``; ``every`` is the mean time between samples in ns."""
        place = self.place
        names = [place.file, place.line, place.function, place.inner]
        duration = self.end - self.start
        return [self.start, duration, self.samples, *names, every, place.stage, place.via]


def stays(intervals: Iterable[StackInterval], locate: Locate) -> list[Stay]:
    """Merge consecutive intervals of one place."""
    result: list[Stay] = []
    for interval in intervals:
        place = locate(interval.stack)
        last = result[-1] if result else None
        if last is not None and last.place == place and last.end == interval.start:
            result[-1] = replace(last, end=interval.end, samples=last.samples + 1)
        else:
            result.append(Stay(interval.start, interval.end, place))
    return result


def main_place(stack: Sequence[Frame]) -> StackPlace:
    """Place of the training thread; ``stack`` holds its frames, the outermost first, 1 at least."""
    return replace(_place(stack), stage=_stage(stack) or _activity(stack))


def worker_place(stack: Sequence[Frame]) -> StackPlace:
    """Place of a worker. Outside its loop, when it starts or ends, it has no line of its own."""
    loop = _last(stack, _WORKER)
    within = stack[loop + 1 :] if loop is not None else ()
    stage = _stage(within)
    if stage:
        fetch = _last(within, _FETCH)
        return replace(_place(within[fetch or 0 :]), stage=stage)
    place = StackPlace("", -1, "", _place(stack).inner)
    return place if loop is None else replace(place, stage=WAIT)


def _stage(stack: Sequence[Frame]) -> str:
    fetch = _last(stack, _FETCH)
    if fetch is None:
        drawing = _last(stack, _DRAWING)
        is_drawn = drawing is not None and stack[drawing].function.endswith("_next_index")
        return FETCH if is_drawn else ""
    caller, called = stack[fetch], stack[fetch + 1 :]
    if _CALLS_COLLATE in linecache.getline(caller.file, caller.line):
        return COLLATE
    if not called:
        return FETCH
    # A torch whose source cannot be read here.
    name, function = _AROUND
    is_ours = called[0].file.startswith(OURS) and called[0].file.endswith(name)
    is_around = is_ours and called[0].function.rsplit(".", 1)[-1] == function
    return COLLATE if is_around or called[0].file.endswith(_COLLATE) else FETCH


def _activity(stack: Sequence[Frame]) -> str:
    """What a training thread does outside the data loader.

    Work that torch does beside the training counts first, then the phases as in the step's
    breakdown: a forward pass that is computed again within backward is backward.
    """
    activities = {_activity_of(frame.file, frame.function) for frame in stack}
    return next((name for name, _ in _ACTIVITIES if name in activities), "")


@lru_cache(maxsize=4096)
def _activity_of(file: str, function: str) -> str:
    text = f"{file} {function}"
    return next((name for name, marks in _ACTIVITIES if marks.search(text)), "")


def _last(stack: Sequence[Frame], file: str) -> int | None:
    """Index of the innermost frame of ``file``."""
    indices = (at for at in reversed(range(len(stack))) if stack[at].file.endswith(file))
    return next(indices, None)


def _place(stack: Sequence[Frame]) -> StackPlace:
    theirs = [frame for frame in reversed(stack) if not frame.file.startswith(OURS)]
    at = next((at for at, frame in enumerate(theirs) if is_own(frame.file)), None)
    inner = theirs[0] if theirs else stack[-1]
    text = f"{_short(inner.file)}:{inner.line} {inner.function}"[:LONGEST_TEXT]
    if at is None:
        return StackPlace("", -1, "", text)
    own = theirs[at]
    called = theirs[at - 1] if at else None
    via = f"{_short(called.file)} {called.function}"[:LONGEST_TEXT] if called else ""
    return StackPlace(own.file[:LONGEST_TEXT], own.line, own.function[:LONGEST_TEXT], text, via=via)


def is_own(file: str) -> bool:
    """Whether ``file`` is the user's: not installed, not of Python itself, not a made-up name."""
    parts = PurePath(file).parts
    installed = "site-packages" in parts or "dist-packages" in parts
    made = not file or file.startswith("<") or is_generated(file)
    return not (made or installed or _STANDARD.search(file))


def _short(file: str) -> str:
    """Path of a file within its package, else its name with its directory."""
    parts = PurePath(file).parts
    for name in ("site-packages", "dist-packages"):
        if name in parts:
            return "/".join(parts[parts.index(name) + 1 :])
    return "/".join(parts[-2:])
