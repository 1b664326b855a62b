"""What the Ops screen needs of a trace beyond its tables, worked out on threads and cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property

from perftui.analysis.kernels.category import TensorCoreTime, tensor_core_time
from perftui.analysis.kernels.metrics import LaunchShapes, launch_shapes
from perftui.analysis.model import OpTable, TraceAnalysis
from perftui.analysis.ops.call_detail import (
    Detail,
    Part,
    groups_of,
    open_group,
    open_kernel,
    parts_of,
)
from perftui.analysis.ops.call_groups import By, Grouped, OpArguments, grouped, op_arguments
from perftui.analysis.ops.call_paths import CallPaths
from perftui.analysis.ops.calls import Links, link
from perftui.trace.model import NONE, Int64

Progress = Callable[[float], bool]


class CallFacts:
    """Facts of the calls in a trace; methods may take seconds at first: call them on threads."""

    def __init__(self, analysis: TraceAnalysis) -> None:
        self.analysis, self.trace = analysis, analysis.trace
        self._lock = threading.Lock()
        self._groups: dict[By, Grouped | None] = {}
        self.known_tables: dict[By, OpTable] = {By.NAME: analysis.ops, By.MODULE: analysis.modules}
        """Without rows where the trace has no such data."""
        self.known_tensor_cores: dict[By, TensorCoreTime] = {}
        self.known_paths: dict[By, CallPaths] = {}
        self._arguments: OpArguments | None = None
        self.known_launches: Mapping[int, LaunchShapes] | None = None

    @cached_property
    def _links(self) -> Links:
        return link(self.trace)

    @cached_property
    def line_of(self) -> Mapping[tuple[str, str], int]:
        """Lines of the kernel table by name and category."""
        kernels = self.analysis.kernels
        names = zip(kernels.names, kernels.categories, strict=True)
        return {key: line for line, key in enumerate(names)}

    def table(self, by: By, progress: Progress) -> OpTable:
        """The calls grouped by ``by``; without rows where the trace has no such data.

        Raises TraceError and LoadCancelled as ``op_arguments`` does.
        """
        with self._lock:
            if by not in self.known_tables:
                found = self._grouped(by, progress)
                self.known_tables[by] = OpTable.empty() if found is None else found.flat.table()
            return self.known_tables[by]

    def tensor_cores(self, by: By, progress: Progress) -> TensorCoreTime | None:
        """Time on tensor cores of the groups of ``table``; None without data or a GPU. Raises as
        ``table`` does."""
        table = self.table(by, progress)
        with self._lock:
            found = self._grouped(by, progress)
            if found is None or not len(self.analysis.kernels):
                return None
            if by not in self.known_tensor_cores:
                time = tensor_core_time(self.trace, found.flat, table.names)
                self.known_tensor_cores[by] = time
            return self.known_tensor_cores[by]

    def paths(self, by: By, progress: Progress) -> CallPaths | None:
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
            found = self._grouped(by)
            if found is None:
                return None
            return open_group(self.trace, found.nested if nested else found.flat, label)

    def open_kernel(self, name: str, category: str) -> Detail | None:
        """One line of the kernel table."""
        line = self.line_of.get((name, category))
        with self._lock:
            found = self._grouped(By.NAME)
            if found is None or line is None:
                return None
            return open_kernel(self.trace, found.flat, self.analysis.kernels, line)

    def shapes_of(self, rows: Int64, progress: Progress) -> tuple[Part, ...]:
        """Input shapes of some operators, longest first; none where they were not recorded.

        Raises as ``op_arguments`` does.
        """
        with self._lock:
            arguments = self._read_arguments(progress)
        rows = rows[arguments.shape[rows] != NONE]
        labels = tuple(text or "(no tensor)" for text in arguments.shapes)
        return parts_of(arguments.shape[rows], self.trace.duration[rows], rows, labels)

    def lines_of(self, rows: Int64, progress: Progress) -> tuple[Part, ...]:
        """The lines of code that some operators were called from, longest first; none where the
        trace does not hold them. Raises as ``op_arguments`` does, where only arguments do."""
        with self._lock:
            found = self._grouped(By.LINE, progress)
        return () if found is None else groups_of(found.flat, rows)

    def launches(self, progress: Progress) -> Mapping[int, LaunchShapes]:
        """How kernels were launched, by line of the kernel table. Raises as ``launch_shapes``."""
        with self._lock:
            if self.known_launches is None:
                self.known_launches = launch_shapes(self.trace, self.analysis.kernels, progress)
            return self.known_launches

    def _grouped(self, by: By, progress: Progress | None = None) -> Grouped | None:
        if by not in self._groups:
            self._groups[by] = grouped(
                self.trace, self._links, by, lambda: self._read_arguments(progress)
            )
        return self._groups[by]

    def _read_arguments(self, progress: Progress | None) -> OpArguments:
        if self._arguments is None:
            self._arguments = op_arguments(self.trace, progress)
        return self._arguments
