"""Grouping of calls: by name, shapes, module or line of code."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.ops.call_detail import calling_frames, module_calls
from perftui.analysis.ops.calls import Calls, op_calls
from perftui.format import is_generated
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import NONE, PYTHON, Int32, Int64, Trace
from perftui.trace.text import printable

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Where pip and Debian's packages install; ``sysconfig`` knows only this interpreter's."""

_BETWEEN = frozenset(
    {
        *("abc.py", "contextlib.py", "copy.py", "functools.py", "inspect.py", "queue.py"),
        *("runpy.py", "threading.py", "typing.py", "weakref.py"),
        *("asyncio", "collections", "concurrent", "importlib", "logging", "multiprocessing"),
    }
)
"""Files and directories of the standard library between a script and torch. The profiler cuts off
the directory that modules are found in, so its other modules cannot be recognised."""
_PACKAGES = frozenset(
    {
        *("torch", "functorch", "triton", "accelerate", "einops", "numpy", "tqdm"),
        *("IPython", "ipykernel"),
    }
)
"""Packages between a model and its operators; the profiler also cuts off ``site-packages``. Lines
of packages of models, such as transformers, say more than the line that calls those."""
_AGENT = ("perftui", "agent")
"""Directory of our own hooks, which are called between a script and torch."""


@dataclass(frozen=True)
class SourceLine:
    """A function and a line of it; text as in the trace.

    PyTorch 2.13 has the line at which the function begins; for functions already running when the
    recording began, their current line. Call stacks of old traces have the line of the call.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


def source_line(name: str) -> SourceLine | None:
    """The line of a frame's name, if outside libraries; else None."""
    match = _FRAME.fullmatch(name)
    if match is None or is_library(match["file"]):
        return None
    return SourceLine(match["file"], int(match["line"]), match["function"])


def is_library(file: str) -> bool:
    """Whether the code came with Python, a package or us, or from torch.compile. A checkout called
    ``torch`` did not."""
    parts = PurePath(file).parts
    first = parts[0] if parts else ""
    standard = first in _BETWEEN or any(part.startswith("python3.") for part in parts)
    installed = first in _PACKAGES or not INSTALLED.isdisjoint(parts) or _AGENT in pairwise(parts)
    return installed or standard or file.startswith("<") or is_generated(file)


@dataclass(frozen=True, eq=False)
class OpArguments:
    """Index of a text for each row of the trace; NONE without one in the file."""

    shape: Int32
    shapes: tuple[str, ...]
    """Sizes of the inputs: ``[64,128] [128]``, in the order of the arguments."""
    line: Int32
    lines: tuple[str, ...]
    """Innermost line of the user's code, in traces with stacks among the arguments."""


def op_arguments(
    trace: Trace, progress: Callable[[float], bool] | None = None, rows: Int64 | None = None
) -> OpArguments:
    """Read the arguments of the operators in ``rows``, by default of all; otherwise as
    ``arguments_of``."""
    if rows is None:
        rows = np.flatnonzero(kinds.operators(trace))
    shape = np.full(len(trace), NONE, np.int32)
    line = shape.copy()
    shapes: dict[str, int] = {}
    lines: dict[str, int] = {}
    stacks: dict[str, str] = {}
    for row, arguments in arguments_of(trace, rows, progress):
        text = _shapes(arguments)
        if text is not None:
            shape[row] = shapes.setdefault(text, len(shapes))
        stack = arguments.get("Call stack")
        if isinstance(stack, str) and stack:
            if stack not in stacks:
                stacks[stack] = _line(stack)
            if stacks[stack]:
                line[row] = lines.setdefault(stacks[stack], len(lines))
    return OpArguments(shape, tuple(shapes), line, tuple(lines))


def _shapes(arguments: Mapping[str, Any]) -> str | None:
    """None if shapes were not recorded; empty for an operator without tensors."""
    for key in ("Input Dims", "Input dims"):
        dims = arguments.get(key)
        if isinstance(dims, list):
            sizes = [_size(size) for size in dims]
            while sizes and sizes[-1] == "[]":
                sizes.pop()
            return printable(" ".join(sizes))
    return None


def _size(size: Any) -> str:
    """The size of a tensor; for a list of tensors, of sizes."""
    if not isinstance(size, list):
        return str(size)
    return f"[{','.join(_size(part) for part in size)}]"


def _line(stack: str) -> str:
    """The innermost frame in user code, of frames listed innermost first; empty without one."""
    for frame in stack.replace("\n", ";").split(";"):
        line = source_line(frame.strip())
        if line is not None:
            return printable(str(line))
    return ""


NO_LINE = "(no line of yours)"
"""Operators called only by frames of Python, torch and other packages: those of threads that were
there before the recording."""


class By(enum.Enum):
    """What calls are grouped by; the value is the word on screen."""

    NAME = "name"
    SHAPE = "shapes"
    MODULE = "module"
    LINE = "line"


@dataclass(frozen=True, eq=False)
class Grouped:
    """One grouping, as a table and as a tree."""

    flat: Calls
    """Own times sum to those of all operators; by module, to the time in modules and operators."""
    nested: Calls
    """With modules, or lines, between the operators as separate callers."""


def grouped(trace: Trace, by: By, arguments: Callable[[], OpArguments]) -> Grouped | None:
    """The calls grouped by ``by``; None if the trace has no such data."""
    if by is By.NAME:
        calls = op_calls(trace)
        return Grouped(calls, calls)
    if by is By.SHAPE:
        read = arguments()
        if not read.shapes:
            return None
        calls = Calls.of(trace, kinds.operators(trace), *by_shape(trace, read))
        return Grouped(calls, calls)
    if by is By.MODULE:
        flat = module_calls(trace)
        if flat is None:
            return None
        shown = [kinds.module_of(name) for name in trace.names]
        # A module may have the name of an operator: they stay separate.
        wanted = kinds.module_calls(trace) | kinds.operators(trace)
        return Grouped(flat, Calls.of(trace, wanted, trace.name, shown))
    return _by_line(trace, arguments)


def by_shape(trace: Trace, arguments: OpArguments) -> tuple[Int32, tuple[str, ...]]:
    """Index of each row's name and shapes, and their labels."""
    # An index for each pair of name and shape; a row without shapes has only its name.
    width = len(arguments.shapes) + 1
    pairs = trace.name.astype(np.int64) * width + arguments.shape + 1
    keys, group = np.unique(pairs, return_inverse=True)
    shapes = ("", *arguments.shapes)
    labels = [
        f"{trace.names[pair // width]}  {shapes[pair % width]}".rstrip() for pair in keys.tolist()
    ]
    distinct = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    numbers = np.array([distinct[label] for label in labels], dtype=np.int32)
    return numbers[group.reshape(-1)], tuple(distinct)


def _by_line(trace: Trace, arguments: Callable[[], OpArguments]) -> Grouped | None:
    lines = [source_line(name) for name in trace.names]
    is_line = np.array([line is not None for line in lines], dtype=bool)
    frames = trace.in_category(PYTHON) & is_line[trace.name] if len(trace) else is_line
    operators = kinds.operators(trace)
    if not frames.any():
        # Traces of older versions have the stack among the arguments.
        read = arguments()
        if not read.lines:
            return None
        group = np.where(read.line == NONE, len(read.lines), read.line).astype(np.int32)
        calls = Calls.of_labels(trace, operators, group, [*read.lines, NO_LINE])
        return Grouped(calls, calls)
    around = calling_frames(trace, frames)
    group = np.where(around == NONE, len(lines), trace.name[around]).astype(np.int32)
    shown = [
        name if line is None else str(line) for name, line in zip(trace.names, lines, strict=True)
    ]
    flat = Calls.of_labels(trace, operators, group, [*shown, NO_LINE])
    return Grouped(flat, Calls.of(trace, frames | operators, trace.name, shown))
