"""What the Ops screen has to show of a trace, without the screen."""

from __future__ import annotations

import enum
from collections.abc import Callable

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


_TENSOR_CORES = "tensor: inferred from kernel names"


class OpsContent:
    """Tables and trees of one trace; those that take long are worked out on threads."""

    def __init__(self, analysis: TraceAnalysis, metrics: KernelMetrics | None) -> None:
        self.analysis, self.facts = analysis, CallFacts(analysis)
        self.trees: dict[By, CallTreeState] = {}
        joined = join_kernels(metrics, analysis.kernels).kernels if metrics else ()
        self._measured = {kernel.row: kernel for kernel in joined}
        self._problems: dict[By | str, str] = {}
        self._made: dict[By | str, TableData] = {}
        self.known_roofline: Roofline | None = None
        """None before it is worked out, and where it is not known."""
        self._sums: dict[Table, NameSums] = {}

    @property
    def lacks_launches(self) -> bool:
        """Whether launches of kernels can still be read from the file."""
        known = self.facts.known_launches is not None or "launches" in self._problems
        return not known and len(self.analysis.kernels) > 0

    def read_launches(self, progress: Progress) -> bool:
        """Read how kernels were launched, on a thread; False where ``progress`` returned False."""
        # What went wrong is shown on the page of a kernel; the table has the columns that it has.
        return self._complete("launches", lambda: self.facts.launches(progress))

    def lacks_tensor_cores(self, by: By) -> bool:
        """Whether the time on tensor cores of a table that is there can still be worked out."""
        known = by in self.facts.known_tensor_cores or by in self._problems
        table = self.facts.known_tables.get(by)
        return not known and len(self.analysis.kernels) > 0 and table is not None and len(table) > 0

    def work_out_tensor_cores(self, by: By, progress: Progress) -> bool:
        """Work it out, on a thread; False where ``progress`` returned False."""
        return self._complete(by, lambda: self.facts.tensor_cores(by, progress))

    def kernels(self) -> TableData:
        """The kernels, with all that is known of them so far."""
        launches = self.facts.known_launches
        key = "kernels" if launches is None else "kernels and launches"
        if key not in self._made:
            self._made[key] = kernel_table(self.analysis.kernels, launches, self._measured)
        return self._made[key]

    @property
    def lacks_roofline(self) -> bool:
        """Whether the roofline is still to be worked out."""
        return self.known_roofline is None and "roofline" not in self._problems

    def work_out_roofline(self, progress: Progress) -> bool:
        """Work it out, on a thread; False where ``progress`` returned False."""

        def read() -> None:
            try:
                self.known_roofline = roofline(self.analysis)
            except (UnknownError, NotApplicableError) as error:
                self._problems["roofline"] = f"no roofline: {error}"

        return self._complete("roofline", read) and progress(1.0)

    def roofline(self) -> TableData:
        """The calls of a step against the roofs of the card, or why they cannot be."""
        if self.known_roofline is None:
            text = self._problems.get("roofline", "reading the sizes of the longest calls")
            return TableData((), (), empty=printable(text))
        if "roofline" not in self._made:
            self._made["roofline"] = roofline_table(self.known_roofline)
        return self._made["roofline"]

    def sums(self, table: Table) -> TableData | None:
        """Ranges or calls by name; None where they have to be summed up first."""
        if table in self._sums and table.value not in self._made:
            nests = table is Table.RANGES
            data = sums_table(self._sums[table], *_SUMS[table][1:], nests=nests)
            self._made[table.value] = data
        return self._made.get(table.value)

    def sum_up(self, table: Table, progress: Progress) -> bool:
        """Complete ``sums``, on a thread: of ten million events it takes seconds."""
        self._sums[table] = _SUMS[table][0](self.analysis.trace)
        return progress(1.0)

    def longest_of_sum(self, table: Table, row: int) -> int:
        """Row of the trace of the longest range or call in a row of the table."""
        return int(self._sums[table].first_row[row])

    def operators(self, by: By, needle: str, *, is_tree: bool) -> TableData | None:
        """The operators as a table or a tree; None where that has to be worked out first."""
        table = self.facts.known_tables.get(by)
        if by in self._problems:
            return TableData((), (), empty=printable(self._problems[by]))
        if table is None:
            return None
        if not is_tree or (not len(table) and by is not By.NAME):
            tensor = self.facts.known_tensor_cores.get(by)
            key = by if tensor is None else f"{by.value} and tensor cores"
            if key not in self._made:
                nothing = TableData((), (), empty=_NOT_RECORDED.get(by, ""))
                has_rows = len(table) or by is By.NAME
                self._made[key] = group_table(table, *_TITLES[by], tensor) if has_rows else nothing
            return self._made[key]
        if by not in self.trees:
            paths = self.facts.known_paths.get(by)
            if paths is None:
                return None
            self.trees[by] = CallTreeState(paths)
        self.trees[by].needle = needle
        return self.trees[by].table()

    def work_out(self, by: By, progress: Progress, *, is_tree: bool) -> bool:
        """Complete ``operators``, on a thread; False where ``progress`` returned False."""

        def read() -> None:
            self.facts.table(by, progress)
            if is_tree:
                self.facts.paths(by, progress)

        return self._complete(by, read)

    def _complete(self, what: By | str, read: Callable[[], object]) -> bool:
        try:
            read()
        except TraceError as error:
            self._problems[what] = str(error)
        except LoadCancelled:
            return False
        return True

    def longest(self, by: By, row: int, *, is_tree: bool) -> int:
        """Row of the trace of the longest call in a row of the table, or of the tree."""
        if is_tree:
            rows = self.trees[by].shown[row].node.rows
            return int(rows[self.analysis.trace.duration[rows].argmax()])
        table = self.facts.known_tables.get(by)
        return int((self.analysis.ops if table is None else table).first_row[row])

    def outside(self, by: By) -> str:
        """Device time that belongs to no operator, so that the sum agrees with the whole."""
        analysis = self.analysis
        table = analysis.modules if by is By.MODULE and len(analysis.modules) else analysis.ops
        rest = int(analysis.kernels.total.sum()) - int(table.device_self.sum())
        outside = f"+ {format_ns(rest)} of GPU time not launched by these" if rest > 0 else ""
        has_finding = by in self.facts.known_tensor_cores
        return "   ".join(filter(None, [outside, _TENSOR_CORES if has_finding else ""]))
