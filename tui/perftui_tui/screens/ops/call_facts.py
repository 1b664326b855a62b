"""What the Ops screen needs of a trace beyond its tables, worked out on threads and cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from perftui.analysis.grouping import sums
from perftui.analysis.kernels.launches import LaunchShapes, launch_shapes
from perftui.analysis.links import Links, link
from perftui.analysis.model import OpTable, TraceAnalysis
from perftui.analysis.ops.arguments import OpArguments, op_arguments
from perftui.analysis.ops.call_detail import Detail, Part, groups_of, open_group, open_kernel
from perftui.analysis.ops.call_groups import By, Grouped, grouped
from perftui.analysis.ops.call_paths import CallPaths
from perftui.trace.model import NONE, Int64

Progress = Callable[[float], bool]


def no_progress(_done: float) -> bool:
    """Ignore progress and go on."""
    return True


class CallFacts:
    """Facts of the calls in a trace; methods may take seconds at first: call them on threads."""

    def __init__(self, analysis: TraceAnalysis) -> None:
        self.analysis, self.trace = analysis, analysis.trace
        self._lock = threading.Lock()
        self._groups: dict[By, Grouped | None] = {}
        self.known_tables: dict[By, OpTable] = {By.NAME: analysis.ops, By.MODULE: analysis.modules}
        """Without rows where the trace has no such data."""
        self.known_paths: dict[By, CallPaths] = {}
        self._arguments: OpArguments | None = None
        self.known_launches: Mapping[int, LaunchShapes] | None = None

    @cached_property
    def _links(self) -> Links:
        return link(self.trace)

    def table(self, by: By, progress: Progress = no_progress) -> OpTable:
        """The calls grouped by ``by``; without rows where the trace has no such data.

        Raises TraceError and LoadCancelled as ``op_arguments`` does.
        """
        with self._lock:
            if by not in self.known_tables:
                found = self._grouped(by, progress)
                self.known_tables[by] = OpTable.empty() if found is None else found.flat.table()
            return self.known_tables[by]

    def paths(self, by: By, progress: Progress = no_progress) -> CallPaths | None:
        """The tree of calls, with its roots worked out; None where the trace has no such data."""
        with self._lock:
            found = self._grouped(by, progress)
            if found is None:
                return None
            if by not in self.known_paths:
                paths = CallPaths(found.nested)
                paths.roots()
                self.known_paths[by] = paths
            return self.known_paths[by]

    def open_group(self, by: By, label: str, *, nested: bool) -> Detail | None:
        """One group, of the table or of the tree."""
        with self._lock:
            found = self._grouped(by, no_progress)
            if found is None:
                return None
            return open_group(self.trace, found.nested if nested else found.flat, label)

    def open_kernel(self, line: int) -> Detail | None:
        """One line of the kernel table."""
        with self._lock:
            found = self._grouped(By.NAME, no_progress)
            if found is None:
                return None
            return open_kernel(self.trace, found.flat, self.analysis.kernels, line)

    def shapes_of(
        self, rows: Int64, progress: Progress = no_progress
    ) -> list[tuple[str, int, int]] | None:
        """Input shapes of some operators, with how many calls had them and their time, longest
        first; None where shapes were not recorded. Raises as ``op_arguments`` does."""
        with self._lock:
            arguments = self._read_arguments(progress)
        numbers = arguments.shape[rows]
        known = numbers != NONE
        if not known.any():
            return None
        found, group = np.unique(numbers[known], return_inverse=True)
        counts = np.bincount(group)
        times = sums(group, self.trace.duration[rows[known]], len(found))
        order = np.argsort(-times, kind="stable")
        return [
            (arguments.shapes[int(found[at])], int(counts[at]), int(times[at]))
            for at in order.tolist()
        ]

    def lines_of(self, rows: Int64, progress: Progress = no_progress) -> tuple[Part, ...]:
        """The lines of code that some operators were called from, longest first; none where the
        trace does not tell. Raises as ``op_arguments`` does, where only arguments tell."""
        with self._lock:
            found = self._grouped(By.LINE, progress)
        return () if found is None else groups_of(found.flat, rows)

    def launches(self, progress: Progress = no_progress) -> Mapping[int, LaunchShapes]:
        """How kernels were launched, by line of the kernel table. Raises as ``launch_shapes``."""
        with self._lock:
            if self.known_launches is None:
                self.known_launches = launch_shapes(self.trace, self.analysis.kernels, progress)
            return self.known_launches

    def _grouped(self, by: By, progress: Progress) -> Grouped | None:
        if by not in self._groups:
            self._groups[by] = grouped(
                self.trace, self._links, by, lambda: self._read_arguments(progress)
            )
        return self._groups[by]

    def _read_arguments(self, progress: Progress) -> OpArguments:
        if self._arguments is None:
            self._arguments = op_arguments(self.trace, progress)
        return self._arguments
