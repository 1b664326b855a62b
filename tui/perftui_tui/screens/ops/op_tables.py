"""The tables of operators, kernels and ranges, and the tree of calls, as columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis.kernels.category import TensorCores, TensorCoreTime, tensor_cores
from perftui.analysis.kernels.metrics import JoinedKernel, LaunchShapes
from perftui.analysis.model import KernelTable, OpTable
from perftui.analysis.ops.call_paths import CallPaths, PathNode
from perftui.analysis.ops.calls import NameSums
from perftui.trace.model import KERNEL, Int64, Mask
from perftui.trace.text import printable
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import MISSING, counted, format_count
from perftui_tui.tables.rows import (
    LEFT,
    RIGHT,
    Column,
    TableData,
    Texts,
    count_column,
    name_column,
    percent_column,
    share_columns,
    tensor_column,
    text_column,
    time_column,
)

_DIRECTORIES = re.compile(r"^.*[/\\](?=[^/\\]+[/\\][^/\\]+:\d+ )")
"""Directories of a line of code, all but the last."""

KERNEL_CELLS = 34
"""Cells in which most short names of kernels can be read."""

NO_OPERATORS = "no operator calls recorded: press {app.capture} to capture a window of steps"
NO_RANGES = (
    "no ranges in this trace: torch.profiler.record_function(NAME), or torch.cuda.nvtx.range(NAME) "
    "under nsys, marks one"
)
NO_CALLS = "no calls of the CUDA runtime or driver: recorded on the CPU only, or without them"
NO_KERNELS = "no GPU activity in this trace: recorded on the CPU only, or without CUDA activities"


def group_table(
    table: OpTable, title: str, things: str, tensor: TensorCoreTime | None = None
) -> TableData:
    """Groups of calls: sorted by device time where a GPU was used, else by CPU self time; with the
    share on tensor cores where that is known."""
    device = bool(table.device_self.sum())
    share_of = table.device_self if device else table.cpu_self
    columns = [
        name_column(title, Texts(len(table), lambda row: short_label(table.names[row])), things),
        count_column("calls", table.calls),
        time_column("own CPU", table.cpu_self, 3 if device else 0, summed=table.cpu_self),
        time_column("total CPU", table.cpu_total, 4),
    ]
    if device:
        columns += [
            time_column("own GPU", table.device_self, summed=table.device_self),
            time_column("total GPU", table.device_total, 5),
            *([tensor_column(tensor)] if tensor else []),
        ]
    columns += share_columns(share_of, int(share_of.sum()))
    by = 4 if device else 2
    return TableData(table.names, tuple(columns), sort_column=by, empty=hint(NO_OPERATORS))


def kernel_table(
    kernels: KernelTable,
    launches: Mapping[int, LaunchShapes] | None = None,
    measured: Mapping[int, JoinedKernel] | None = None,
) -> TableData:
    """Kernels, copies and sets, longest in sum first, with what is known of their launches."""
    count = len(kernels)
    kinds = [category.removeprefix("gpu_") for category in kernels.categories]
    names = name_column("kernel", [printable(name) for name in kernels.short_names], "kernels")
    columns = [
        # A saved table has the whole names, and a filter finds both.
        replace(names, fewest=KERNEL_CELLS, exact=kernels.names.__getitem__),
        text_column("kind", kinds, 6, 9),
        count_column("calls", kernels.calls),
        time_column("total", kernels.total, summed=kernels.total),
        time_column("min", kernels.shortest, 8),
        time_column("p50", kernels.median, 4),
        time_column("max", kernels.longest, 6),
        text_column("tensor", Texts(count, lambda row: _tensor(kernels, row)), 6, 3),
        *_measured(kernels, measured or {}),
        *_occupancy(kernels, launches or {}, measured or {}),
        text_column(
            "stream", Texts(count, lambda row: _streams(kernels.streams[row])), 8, 10, RIGHT
        ),
        *share_columns(kernels.total, int(kernels.total.sum())),
    ]
    ids = list(zip(kernels.categories, kernels.names, strict=True))
    return TableData(kernels.names, tuple(columns), sort_column=3, empty=NO_KERNELS, ids=ids)


def sums_table(found: NameSums, title: str, things: str, empty: str, *, nests: bool) -> TableData:
    """Ranges or calls by name, longest in sum first. The times of ranges, which nest, are not added
    up; shares are of that sum all the same, as in ``nsys stats``."""
    columns = (
        name_column(title, [printable(name) for name in found.names], things),
        count_column("calls", found.calls),
        time_column("total", found.total, summed=None if nests else found.total),
        time_column("mean", found.mean, 4),
        time_column("min", found.shortest, 6),
        time_column("max", found.longest, 5),
        *share_columns(found.total, int(found.total.sum())),
    )
    return TableData(found.names, columns, sort_column=2, empty=empty)


def short_label(label: str) -> str:
    """A line of code with one directory, and anything else as it is; safe to show."""
    return _DIRECTORIES.sub("", printable(label), count=1)


def _tensor(kernels: KernelTable, row: int) -> str:
    if kernels.categories[row] != KERNEL:
        return TensorCores.NONE.value
    return tensor_cores(kernels.names[row]).value


def _measured(kernels: KernelTable, measured: Mapping[int, JoinedKernel]) -> list[Column]:
    """What limits them, measured by ncu; no columns without its report."""
    if not measured:
        return []
    found = [measured.get(row) for row in range(len(kernels))]
    limits = [each.limit.value if each and each.limit else MISSING for each in found]
    return [
        percent_column("compute", [each.compute if each else None for each in found], 5),
        percent_column("memory", [each.memory if each else None for each in found], 5),
        text_column("limit", limits, 18, 8),
    ]


def _occupancy(
    kernels: KernelTable, launches: Mapping[int, LaunchShapes], measured: Mapping[int, JoinedKernel]
) -> list[Column]:
    """The occupancy measured by ncu, else the profiler's estimate."""
    sources: tuple[tuple[str, Mapping[int, JoinedKernel | LaunchShapes]], ...]
    sources = ("occupancy", measured), ("est. occ", launches)
    for title, found in sources:
        if any(each.occupancy is not None for each in found.values()):
            rows = (found.get(row) for row in range(len(kernels)))
            return [percent_column(title, [each.occupancy if each else None for each in rows], 7)]
    return []


def _streams(streams: Sequence[tuple[int, int]]) -> str:
    """Device and stream; of several the first, and how many more."""
    if not streams:
        return MISSING
    device, stream = streams[0]
    more = f" +{len(streams) - 1}" if len(streams) > 1 else ""
    return f"{device}:{stream}{more}"


MOST_ROWS = 5_000
"""Rows of a filtered tree: so many are built in 0.1 s, and nobody reads more."""

OPEN, CLOSED, LEAF = "▾ ", "▸ ", "  "

Path = tuple[int, ...]


@dataclass(frozen=True)
class Visible:
    """A node on screen, and which row is above it."""

    node: PathNode
    parent: int
    is_open: bool
    matches: bool


def visible_nodes(paths: CallPaths, opened: set[Path], needle: str) -> list[Visible]:
    """Nodes below opened ones; with a ``needle`` those that contain it, and the way there."""
    low = needle.casefold()
    named = [needle != "" and low in label.casefold() for label in paths.calls.labels]
    groups = np.array(named, dtype=bool)
    leading = paths.leading_to(groups) if needle else None
    found: list[Visible] = []
    waiting = [(node, -1, False) for node in reversed(paths.roots())]
    while waiting and len(found) < MOST_ROWS:
        node, parent, below_match = waiting.pop()
        matches = bool(groups[node.path[-1]])
        leads = leading is None or bool(leading[node.rows].any())
        if not leads and not below_match:
            continue
        below = paths.below(node) if node.path in opened or leading is not None else ()
        further = [each for each in below if leading is not None and leading[each.rows].any()]
        is_open = node.path in opened or bool(further)
        below_match = node.path in opened and (matches or below_match)
        found.append(Visible(node, parent, is_open and bool(below), matches))
        row = len(found) - 1
        if is_open:
            waiting += [(each, row, below_match) for each in reversed(below)]
    return found


def top_path(paths: CallPaths, start: PathNode | None) -> list[PathNode]:
    """From ``start``, or the top root, down to a leaf, always to the callee with the most time."""
    device = bool(paths.calls.launched.any())
    found = [] if start is None else [start]
    below = paths.below(start) if start else paths.roots()
    while below:
        node = max(below, key=lambda each: each.device_total if device else each.cpu_total)
        if device and not node.device_total and found:
            break
        found.append(node)
        below = paths.below(node)
    return found


def tree_table(paths: CallPaths, shown: Sequence[Visible], needle: str) -> TableData:
    """The columns of the group table, for the nodes that are ``shown``."""
    roots = paths.roots()
    device = any(node.device_total for node in roots)
    nodes = [each.node for each in shown]
    top = np.array([each.parent < 0 for each in shown], dtype=bool)
    columns = [
        _names(shown, needle),
        count_column("calls", _column(nodes, "calls"), summed=False),
        time_column("own CPU", _column(nodes, "cpu_self"), 3 if device else 0),
        _total("total CPU", _column(nodes, "cpu_total"), top, 4 if device else 0),
    ]
    if device:
        columns += [
            time_column("own GPU", _column(nodes, "device_self"), 5),
            _total("total GPU", _column(nodes, "device_total"), top, 0),
        ]
    total = "device_total" if device else "cpu_total"
    values = _column(nodes, total)
    whole = sum(getattr(node, total) for node in roots)
    columns += share_columns(values, whole, parts=np.where(top, values, 0))
    return TableData(
        names=[each.node.label for each in shown],
        columns=tuple(columns),
        sort_column=5 if device else 3,
        empty=f"no call's name contains '{printable(needle)}'" if needle else hint(NO_OPERATORS),
        ids=[node.path for node in nodes],
        parents=np.array([each.parent for each in shown], np.int64),
    )


def _column(nodes: Sequence[PathNode], name: str) -> Int64:
    return np.array([getattr(node, name) for node in nodes], np.int64)


def _total(title: str, values: Int64, top: Mask, optional: int) -> Column:
    """What overlaps below one another is added up at the top alone."""
    return time_column(title, values, optional, summed=np.where(top, values, 0))


def _names(shown: Sequence[Visible], needle: str) -> Column:
    texts = [_text(each) for each in shown]
    matches = sum(each.matches for each in shown)
    cut = f", the first {format_count(MOST_ROWS)}" if len(shown) >= MOST_ROWS else ""

    def total(rows: Int64) -> str:
        if needle:
            return f"{format_count(matches)} match{cut}"
        return f"{counted(len(rows), 'path')} shown{cut}"

    names = [printable(each.node.label) for each in shown]

    def spelled(row: int) -> str:
        """In a file the depth stays, as blanks, and the marks do not."""
        return " " * (len(shown[row].node.path) - 1) + names[row]

    return Column(
        *("call", names, texts.__getitem__), align=LEFT, total=total, middle=True, exact=spelled
    )


def _text(shown: Visible) -> str:
    mark = OPEN if shown.is_open else CLOSED if shown.node.calls_others else LEAF
    return f"{' ' * (len(shown.node.path) - 1)}{mark}{short_label(shown.node.label)}"


class CallTreeState:
    """The tree as it is on screen. Nothing is opened by itself."""

    def __init__(self, paths: CallPaths) -> None:
        self.paths = paths
        self.opened: set[Path] = set()
        self.needle = ""
        self.shown: Sequence[Visible] = ()

    def table(self) -> TableData:
        """The rows that are to be seen now."""
        self.shown = visible_nodes(self.paths, self.opened, self.needle)
        return tree_table(self.paths, self.shown, self.needle)

    def toggle(self, row: int) -> None:
        """Open a node, or close it."""
        shown = self.shown[row]
        if shown.is_open:
            self.opened.discard(shown.node.path)
        elif shown.node.calls_others:
            self.opened.add(shown.node.path)

    def right(self, row: int) -> int:
        """Open a node; from an open one to the first below it. Returns the row to go to."""
        shown = self.shown[row]
        if shown.node.calls_others and not shown.is_open:
            self.opened.add(shown.node.path)
            return row
        below = [place for place, each in enumerate(self.shown) if each.parent == row]
        return below[0] if below else row

    def left(self, row: int) -> int:
        """Close a node; from a closed one to the one above it. Returns the row to go to."""
        shown = self.shown[row]
        if shown.is_open and shown.node.path in self.opened:
            self.opened.discard(shown.node.path)
            return row
        return shown.parent if shown.parent >= 0 else row

    def open_top_path(self, row: int | None) -> Path | None:
        """Open the top path from a node, or from the top root, to its end; returns the last."""
        way = top_path(self.paths, None if row is None else self.shown[row].node)
        self.opened |= {node.path for node in way[:-1]}
        return way[-1].path if way else None
