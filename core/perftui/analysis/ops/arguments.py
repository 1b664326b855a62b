"""What only the arguments of events hold, read from the file once and kept by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.ops.frames import source_line
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import NONE, Int32, Int64, Trace
from perftui.trace.text import printable

_SHAPES = ("Input Dims", "Input dims")
_STACK = "Call stack"


@dataclass(frozen=True, eq=False)
class OpArguments:
    """By row of the trace the number of a text; NONE where the file gives none."""

    shape: Int32
    shapes: tuple[str, ...]
    """Sizes of the inputs: ``[64,128] [128]``, in the order of the arguments."""
    line: Int32
    lines: tuple[str, ...]
    """Innermost line of the user's code; of traces that have stacks among the arguments."""


def op_arguments(
    trace: Trace,
    progress: Callable[[float], bool] | None = None,
    rows: Int64 | None = None,
) -> OpArguments:
    """Read the arguments of the operators in ``rows``, by default of all; the rest is as for
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
        stack = arguments.get(_STACK)
        if isinstance(stack, str) and stack:
            if stack not in stacks:
                stacks[stack] = _line(stack)
            if stacks[stack]:
                line[row] = lines.setdefault(stacks[stack], len(lines))
    return OpArguments(shape, tuple(shapes), line, tuple(lines))


def _shapes(arguments: Mapping[str, Any]) -> str | None:
    """None where shapes were not recorded; empty for an operator without a tensor."""
    for key in _SHAPES:
        found = arguments.get(key)
        if isinstance(found, list):
            sizes = [_size(each) for each in found]
            while sizes and sizes[-1] == "[]":
                sizes.pop()
            return printable(" ".join(sizes))
    return None


def _size(size: Any) -> str:
    """A list of tensors has a list of sizes."""
    if not isinstance(size, list):
        return str(size)
    return f"[{','.join(_size(each) for each in size)}]"


def _line(stack: str) -> str:
    """Frames stand in it innermost first; empty where none is the user's."""
    for frame in stack.replace("\n", ";").split(";"):
        found = source_line(frame.strip())
        if found is not None:
            return printable(str(found))
    return ""
