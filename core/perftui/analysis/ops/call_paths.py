"""The tree of calls from the top: who calls whom, and what that takes, each path by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.grouping import sums
from perftui.analysis.kinds import Mask
from perftui.analysis.ops.calls import Calls
from perftui.trace.model import NONE, Int64


@dataclass(frozen=True, eq=False)
class PathNode:
    """All calls of one group that were made along one path of callers.

    Calls along one path never hold each other, so that totals are plain sums: the total of a node
    is its own time and the totals of what it calls, to the nanosecond.
    """

    label: str
    path: tuple[int, ...]
    """Groups from the outermost caller to this one."""
    rows: Int64
    calls: int
    cpu_total: int
    cpu_self: int
    device_total: int
    device_self: int
    calls_others: bool
    """Whether there is anything below it."""


class CallPaths:
    """The tree; nodes are made when they are asked for, and kept.

    The first node takes as long as the times of all calls, one that is opened as long as its calls.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        made = calls.callers[calls.rows]
        order = np.argsort(made, kind="stable")
        self._callees = calls.rows[order]
        self._callers = made[order].astype(np.int64)
        self._known: dict[tuple[int, ...], tuple[PathNode, ...]] = {}

    def roots(self) -> tuple[PathNode, ...]:
        """What nothing else calls, most time first."""
        return self._nodes((), np.array([NONE], dtype=np.int64))

    def below(self, node: PathNode) -> tuple[PathNode, ...]:
        """What ``node`` calls, most time first."""
        return self._nodes(node.path, node.rows)

    def _nodes(self, path: tuple[int, ...], callers: Int64) -> tuple[PathNode, ...]:
        if path not in self._known:
            self._known[path] = self._made(path, self._called_by(callers))
        return self._known[path]

    def _called_by(self, callers: Int64) -> Int64:
        begin = np.searchsorted(self._callers, callers, side="left")
        counts = np.searchsorted(self._callers, callers, side="right") - begin
        offsets = np.cumsum(counts) - counts
        places = np.repeat(begin - offsets, counts) + np.arange(int(counts.sum()))
        return self._callees[places]

    def _made(self, path: tuple[int, ...], rows: Int64) -> tuple[PathNode, ...]:
        calls = self.calls
        groups, group = np.unique(calls.trace.name[rows], return_inverse=True)
        columns = [
            sums(group, column[rows], len(groups)).tolist()
            for column in (*calls.times, calls.launched)
        ]
        order = np.argsort(group, kind="stable")
        counts = np.bincount(group, minlength=len(groups))
        parts = np.split(rows[order], np.cumsum(counts)[:-1]) if len(groups) else []
        nodes = [
            PathNode(
                label=calls.labels[number],
                path=(*path, number),
                rows=part,
                calls=len(part),
                cpu_total=total,
                cpu_self=own,
                device_total=under,
                device_self=launched,
                calls_others=self._calls_others(part),
            )
            for number, part, total, own, under, launched in zip(
                groups.tolist(), parts, *columns, strict=True
            )
        ]
        return tuple(sorted(nodes, key=lambda node: (-node.device_total, -node.cpu_total)))

    def _calls_others(self, rows: Int64) -> bool:
        at = np.searchsorted(self._callers, rows)
        safe = np.minimum(at, len(self._callers) - 1)
        return bool((self._callers[safe] == rows).any())

    def leading_to(self, groups: Mask) -> Mask:
        """Rows of calls of ``groups``, with all of their callers."""
        found = np.zeros(len(self.calls.trace), dtype=bool)
        current = self.calls.rows[groups[self.calls.trace.name[self.calls.rows]]]
        while len(current):
            found[current] = True
            above = self.calls.callers[current]
            current = np.unique(above[above != NONE])
            current = current[~found[current]]
        return found
