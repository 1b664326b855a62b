"""Stack intervals of a thread by the line of the user's code that it was at."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import perftui
from perftui.recorder.stacks.events import Frame, StackInterval
from perftui.run.stack_samples import (
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

LONGEST_TEXT = 300
"""Characters kept of a name: a stack that changes while it is read may hold anything."""

OURS = tuple(str(Path(perftui.__file__).parent / room) for room in ("agent", "wire"))
"""Our hooks stand on the training's stack; they are no place of its own."""

_STANDARD = re.compile(r"/lib(64)?/python3\.\d+/")

_LOADING = "torch/utils/data/_utils/"
_WORKER = f"{_LOADING}worker.py"
"""Holds the loop of a worker. What stands outside it in a forked one is the stack of the training
at the moment of the fork."""
_FETCH = f"{_LOADING}fetch.py"
_COLLATE = f"{_LOADING}collate.py"
_CALLS_COLLATE = "collate_fn("
"""Text of the line of torch's ``fetch`` that calls the collate function."""
_AROUND = ("plain_around.py", "call")
"""Our own frame around the collate function, where the agent is not compiled."""


@dataclass(frozen=True)
class Place:
    """Where an interval was: the innermost line of the user's own code, and the innermost frame."""

    file: str
    line: int
    function: str
    inner: str
    stage: str = ""
    via: str = ""


_ACTIVITIES = tuple(
    (name, re.compile(marks))
    for name, marks in (
        # Much of what compiles is also on the stack while compiled code runs.
        (
            COMPILE,
            r"torch/(_dynamo/(convert_frame|symbolic_convert)\b"
            r"|_inductor/(?!utils|output_code|cudagraph|compile_fx\.py (\S+\.)?run$"
            r"|codecache\.py CompiledFxGraph)"
            r"|fx/(?!traceback|graph_module|_lazy_graph_module|interpreter))",
        ),
        (SAVE, r"torch/(serialization\.py (save|_save)|distributed/checkpoint/\S+ \w*save)\b"),
        # Every optimizer marks its steps for a profiler that need not be there.
        (PROFILE, r"torch/(profiler/profiler\.py |autograd/profiler\.py (?!record_function))"),
        (OPTIMIZER, r"torch/optim/"),
        (BACKWARD, r"torch/(autograd/(__init__|graph)\.py |_tensor\.py (\w+\.)?backward)"),
        (FORWARD, r"torch/nn/modules/module\.py "),
    )
)
"""By file and function of a frame anywhere on the stack, what counts first."""

Locate: TypeAlias = Callable[[Sequence[Frame]], Place]


@dataclass(frozen=True)
class Stay:
    """From ``start`` to ``end`` every sample found ``place``; ``samples`` of them found another
    stack than the sample before."""

    start: int
    end: int
    place: Place
    samples: int = 1

    def row(self, every: int) -> list[Any]:
        """By ``STACK_COLUMNS``; ``every`` is the mean time between samples in ns."""
        place = self.place
        named = [place.file, place.line, place.function, place.inner]
        held = self.end - self.start
        return [self.start, held, self.samples, *named, every, place.stage, place.via]


def stays(intervals: Iterable[StackInterval], locate: Locate) -> list[Stay]:
    """Intervals as stays, those of one place that follow each other as one."""
    found: list[Stay] = []
    for interval in intervals:
        place = locate(interval.stack)
        last = found[-1] if found else None
        if last is not None and last.place == place and last.end == interval.start:
            found[-1] = replace(last, end=interval.end, samples=last.samples + 1)
        else:
            found.append(Stay(interval.start, interval.end, place))
    return found


def main_place(stack: Sequence[Frame]) -> Place:
    """Where the thread that trains is; ``stack`` is its frames, the outermost first, 1 at least."""
    return replace(_place(stack), stage=_stage(stack) or _activity(stack))


def worker_place(stack: Sequence[Frame]) -> Place:
    """Where a worker is. Outside its loop, when it starts or ends, it has no line of its own."""
    loop = _last(stack, _WORKER)
    within = stack[loop + 1 :] if loop is not None else ()
    stage = _stage(within)
    if stage:
        fetch = _last(within, _FETCH)
        return replace(_place(within[fetch or 0 :]), stage=stage)
    place = Place("", -1, "", _place(stack).inner)
    return place if loop is None else replace(place, stage=WAIT)


def _stage(stack: Sequence[Frame]) -> str:
    fetch = _last(stack, _FETCH)
    if fetch is None:
        return ""
    caller, called = stack[fetch], stack[fetch + 1 : fetch + 2]
    if _CALLS_COLLATE in linecache.getline(caller.file, caller.line):
        return COLLATE
    # A torch that cannot be read from here.
    return COLLATE if any(_is_collate(frame) for frame in called) else FETCH


def _activity(stack: Sequence[Frame]) -> str:
    """What a training thread is at outside the data loader.

    Work that torch does beside the training counts first, then the phases as the step's breakdown
    has them: a forward pass that is computed again within backward is backward.
    """
    found = {_activity_of(frame.file, frame.function) for frame in stack}
    return next((name for name, _ in _ACTIVITIES if name in found), "")


@lru_cache(maxsize=4096)
def _activity_of(file: str, function: str) -> str:
    text = f"{file} {function}"
    return next((name for name, marks in _ACTIVITIES if marks.search(text)), "")


def _is_collate(frame: Frame) -> bool:
    name, function = _AROUND
    is_ours = frame.file.startswith(OURS) and frame.file.endswith(name)
    is_around = is_ours and frame.function.rsplit(".", 1)[-1] == function
    return is_around or frame.file.endswith(_COLLATE)


def _last(stack: Sequence[Frame], file: str) -> int | None:
    """Where the innermost frame of ``file`` stands."""
    found = (at for at in reversed(range(len(stack))) if stack[at].file.endswith(file))
    return next(found, None)


def _place(stack: Sequence[Frame]) -> Place:
    theirs = [frame for frame in reversed(stack) if not frame.file.startswith(OURS)]
    at = next((at for at, frame in enumerate(theirs) if is_own(frame.file)), None)
    inner = theirs[0] if theirs else stack[-1]
    text = f"{_short(inner.file)}:{inner.line} {inner.function}"[:LONGEST_TEXT]
    if at is None:
        return Place("", -1, "", text)
    own = theirs[at]
    called = theirs[at - 1] if at else None
    via = f"{_short(called.file)} {called.function}"[:LONGEST_TEXT] if called else ""
    return Place(own.file[:LONGEST_TEXT], own.line, own.function[:LONGEST_TEXT], text, via=via)


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
