"""The ways in which calls are grouped: by name, shapes, module or line of code."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.links import Links
from perftui.analysis.ops.arguments import OpArguments
from perftui.analysis.ops.call_detail import calling_frames, module_calls
from perftui.analysis.ops.calls import Calls, op_calls
from perftui.analysis.ops.frames import source_line
from perftui.trace.model import NONE, PYTHON, Int32, Trace

NO_LINE = "(no line of yours)"
"""Operators that no frame called but those of Python, torch and other packages: those of threads
that were there before the recording."""


class By(enum.Enum):
    """What calls are grouped by; the value is the word on screen."""

    NAME = "name"
    SHAPE = "shapes"
    MODULE = "module"
    LINE = "line"

    @property
    def option(self) -> str:
        """What records it."""
        return {By.SHAPE: "--shapes", By.MODULE: "--modules", By.LINE: "--stacks"}.get(self, "")

    @property
    def needs_arguments(self) -> bool:
        """Whether the file has to be read again."""
        return self in (By.SHAPE, By.LINE)


@dataclass(frozen=True, eq=False)
class Grouped:
    """One grouping, as a table and as a tree."""

    flat: Calls
    """Whose own times sum to those of all operators; by module, to the time spent in modules and
    operators."""
    nested: Calls
    """With the modules, or the lines, between the operators as callers of their own."""


def grouped(
    trace: Trace, links: Links, by: By, arguments: Callable[[], OpArguments]
) -> Grouped | None:
    """The calls grouped by ``by``; None where the trace has no such data."""
    if by is By.NAME:
        calls = op_calls(trace, links)
        return Grouped(calls, calls)
    if by is By.SHAPE:
        return _by_shape(trace, links, arguments())
    if by is By.MODULE:
        return _by_module(trace, links)
    return _by_line(trace, links, arguments)


def _by_shape(trace: Trace, links: Links, arguments: OpArguments) -> Grouped | None:
    if not arguments.shapes:
        return None
    group, labels = by_shape(trace, arguments)
    calls = Calls.of(trace, links, kinds.operators(trace), group, labels)
    return Grouped(calls, calls)


def by_shape(trace: Trace, arguments: OpArguments) -> tuple[Int32, tuple[str, ...]]:
    """For each row the number of its name and shapes, and the labels of those."""
    # One number for each pair of a name and a shape; a row without shapes has its name alone.
    width = len(arguments.shapes) + 1
    pairs = trace.name.astype(np.int64) * width + arguments.shape + 1
    found, group = np.unique(pairs, return_inverse=True)
    shapes = ("", *arguments.shapes)
    labels = [
        f"{trace.names[pair // width]}  {shapes[pair % width]}".rstrip() for pair in found.tolist()
    ]
    distinct = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    numbers = np.array([distinct[label] for label in labels], dtype=np.int32)
    return numbers[group.reshape(-1)], tuple(distinct)


def _by_module(trace: Trace, links: Links) -> Grouped | None:
    flat = module_calls(trace, links)
    if flat is None:
        return None
    shown = [kinds.module_of(name) for name in trace.names]
    # A module may be called what an operator is called: they stay two.
    wanted = kinds.module_calls(trace) | kinds.operators(trace)
    return Grouped(flat, Calls.of(trace, links, wanted, trace.name, shown))


def _by_line(trace: Trace, links: Links, arguments: Callable[[], OpArguments]) -> Grouped | None:
    lines = [source_line(name) for name in trace.names]
    is_line = np.array([line is not None for line in lines], dtype=bool)
    frames = trace.in_category(PYTHON) & is_line[trace.name] if len(trace) else is_line
    operators = kinds.operators(trace)
    if not frames.any():
        return _by_stack(trace, links, arguments())
    around = calling_frames(trace, frames)
    group = np.where(around == NONE, len(lines), trace.name[around]).astype(np.int32)
    shown = [
        name if line is None else str(line) for name, line in zip(trace.names, lines, strict=True)
    ]
    flat = Calls.of_labels(trace, links, operators, group, [*shown, NO_LINE])
    return Grouped(flat, Calls.of(trace, links, frames | operators, trace.name, shown))


def _by_stack(trace: Trace, links: Links, arguments: OpArguments) -> Grouped | None:
    """Calls by line, in traces of older versions, which have the stack among the arguments."""
    if not arguments.lines:
        return None
    group = np.where(arguments.line == NONE, len(arguments.lines), arguments.line)
    labels = [*arguments.lines, NO_LINE]
    calls = Calls.of_labels(trace, links, kinds.operators(trace), group.astype(np.int32), labels)
    return Grouped(calls, calls)
