"""What the Ops screen has to show of a trace, without the screen."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from functools import partial

from perftui.analysis.kernels.metrics import join_kernels
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.call_groups import By
from perftui.analysis.ops.calls import NameSums, call_sums, range_sums
from perftui.facts.fact import NotApplicableError, UnknownError
from perftui.facts.gpu.roofline import Roofline, roofline
from perftui.trace.model import LoadCancelled, TraceError
from perftui.trace.ncu import KernelMetrics
from perftui.trace.text import printable
from perftui_tui.look.format import format_ns
from perftui_tui.screens.ops.detail import CallFacts, Progress
from perftui_tui.screens.ops.op_tables import (
    NO_CALLS,
    NO_RANGES,
    CallTreeState,
    group_table,
    kernel_table,
    sums_table,
)
from perftui_tui.screens.ops.roofline import roofline_table
from perftui_tui.tables.rows import TableData


class Table(enum.Enum):
    """Which tables there are, as their titles."""

    OPS = "Ops"
    KERNELS = "Kernels"
    ROOFLINE = "Roofline"
    RANGES = "Ranges"
    CALLS = "CUDA calls"


_SUMS = {
    Table.RANGES: (range_sums, "range", "ranges", NO_RANGES),
    Table.CALLS: (call_sums, "call", "functions", NO_CALLS),
}
"""How they are summed, the title of the first column, what its rows are, and why there are none."""

_TITLES = {
    By.NAME: ("op", "ops"),
    By.SHAPE: ("op and shapes of its inputs", "groups"),
    By.MODULE: ("module", "modules"),
    By.LINE: ("function at", "lines"),
}
"""Title of the first column, and what its rows are."""

_NOT_RECORDED = {
    By.SHAPE: "shapes were not recorded: --shapes records them (record_shapes=True in torch)",
    By.MODULE: "modules were not marked: --modules marks them (with_stack=True in torch)",
    By.LINE: "no lines were recorded: --stacks records them (with_stack=True in torch)",
}

Work = Callable[[Progress], object]


class OpsContent:
    """Tables and trees of one trace; those that take long are worked out on threads."""

    def __init__(self, analysis: TraceAnalysis, metrics: KernelMetrics | None) -> None:
        self.analysis, self.facts = analysis, CallFacts(analysis)
        self.trees: dict[By, CallTreeState] = {}
        joined = join_kernels(metrics, analysis.kernels).kernels if metrics else ()
        self._measured = {kernel.row: kernel for kernel in joined}
        self._problems: dict[str, str] = {}
        self._made: dict[Hashable, TableData] = {}
        self.known_roofline: Roofline | None = None
        """None before it is worked out, and where it is not known."""
        self._sums: dict[Table, NameSums] = {}

    def missing(self, table: Table, by: By, *, is_tree: bool) -> tuple[str, Work] | None:
        """What is still to be worked out of a table on a thread, and what that is called."""
        facts, has_kernels = self.facts, len(self.analysis.kernels) > 0
        lacks_tensor_cores = has_kernels and not is_tree and by not in facts.known_tensor_cores
        found: tuple[str, Work] | None = None
        if table is Table.KERNELS and has_kernels and facts.known_launches is None:
            # Grids and occupancies: the columns come when they are known.
            found = "launches", facts.launches
        elif table is Table.ROOFLINE and self.known_roofline is None:
            # The sizes of hundreds of calls are read from the file.
            found = table.value, self._read_roofline
        elif table in _SUMS and table not in self._sums:
            # Of ten million events it takes seconds.
            found = table.value, partial(self._sum_up, table)
        elif table is Table.OPS and self._lacks_groups(by, is_tree=is_tree):
            found = by.value, partial(facts.group, by, is_tree=is_tree)
        elif table is Table.OPS and lacks_tensor_cores and len(facts.known_tables[by]):
            found = f"tensor cores by {by.value}", partial(facts.tensor_cores, by)
        return None if found is None or found[0] in self._problems else found

    def work_out(self, name: str, work: Work, progress: Progress) -> None:
        """Do what is ``missing``, as long as ``progress`` returns True."""
        try:
            work(progress)
        except TraceError as error:
            self._problems[name] = str(error)
        except LoadCancelled:
            return

    def _read_roofline(self, _: Progress) -> None:
        try:
            self.known_roofline = roofline(self.analysis)
        except (UnknownError, NotApplicableError) as error:
            raise TraceError(f"no roofline: {error}") from error

    def _sum_up(self, table: Table, _: Progress) -> None:
        self._sums[table] = _SUMS[table][0](self.analysis.trace)

    def _has_groups(self, by: By) -> bool:
        """Whether operators can be grouped so; by their names they always are."""
        return by is By.NAME or len(self.facts.known_tables.get(by, ())) > 0

    def _lacks_groups(self, by: By, *, is_tree: bool) -> bool:
        facts = self.facts
        lacks_tree = is_tree and by not in facts.known_paths and self._has_groups(by)
        return by not in facts.known_tables or lacks_tree

    def data(self, table: Table, by: By, needle: str, *, is_tree: bool) -> TableData:
        """The rows of a table or a tree, with all that is known of them so far, or in their place
        why there are none."""
        problem = self._problems.get(by.value if table is Table.OPS else table.value)
        if problem is not None:
            return TableData((), (), empty=printable(problem))
        if table is Table.OPS:
            return self._operators(by, needle, is_tree=is_tree)
        if table is Table.KERNELS:
            launches = self.facts.known_launches
            make = partial(kernel_table, self.analysis.kernels, launches, self._measured)
            return self._once((table, launches is None), make)
        if table is Table.ROOFLINE:
            if self.known_roofline is None:
                return TableData((), (), empty="reading the sizes of the longest calls")
            return self._once(table, partial(roofline_table, self.known_roofline))
        if table not in self._sums:
            return TableData((), (), empty="counting")
        sums, nests = self._sums[table], table is Table.RANGES
        return self._once(table, partial(sums_table, sums, *_SUMS[table][1:], nests=nests))

    def _operators(self, by: By, needle: str, *, is_tree: bool) -> TableData:
        facts = self.facts
        if self._lacks_groups(by, is_tree=is_tree):
            is_read = by in (By.SHAPE, By.LINE)
            waits = "reading the arguments of all operators" if is_read else "counting"
            return TableData((), (), empty=waits)
        if not self._has_groups(by):
            return TableData((), (), empty=_NOT_RECORDED.get(by, ""))
        if is_tree:
            if by not in self.trees:
                self.trees[by] = CallTreeState(facts.known_paths[by])
            self.trees[by].needle = needle
            return self.trees[by].table()
        tensor = facts.known_tensor_cores.get(by)
        make = partial(group_table, facts.known_tables[by], *_TITLES[by], tensor)
        return self._once((by, tensor is None), make)

    def _once(self, key: Hashable, make: Callable[[], TableData]) -> TableData:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def longest(self, table: Table, by: By, row: int, *, is_tree: bool) -> int:
        """Row of the trace of the longest call in a row of a table, or of the tree."""
        if table is Table.KERNELS:
            return int(self.analysis.kernels.first_row[row])
        if table is Table.ROOFLINE and self.known_roofline is not None:
            return self.known_roofline.calls[row].row
        if table in self._sums:
            return int(self._sums[table].first_row[row])
        if is_tree:
            rows = self.trees[by].shown[row].node.rows
            return int(rows[self.analysis.trace.duration[rows].argmax()])
        return int(self.facts.known_tables.get(by, self.analysis.ops).first_row[row])

    def outside(self, by: By) -> str:
        """Device time that belongs to no operator, so that the sum agrees with the whole."""
        analysis = self.analysis
        table = analysis.modules if by is By.MODULE and len(analysis.modules) else analysis.ops
        rest = int(analysis.kernels.total.sum()) - int(table.device_self.sum())
        outside = f"+ {format_ns(rest)} of GPU time not launched by these" if rest > 0 else ""
        is_inferred = by in self.facts.known_tensor_cores
        tensor = "tensor: inferred from kernel names" if is_inferred else ""
        return "   ".join(filter(None, [outside, tensor]))
