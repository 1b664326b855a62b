"""The calls of a trace in groups: by name, or by whatever else distinguishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perftui.analysis.intervals import sums
from perftui.analysis.links import Links
from perftui.analysis.model import OpTable
from perftui.analysis.ops.call_tree import (
    CallTimes,
    call_times,
    callers_of,
    innermost,
    innermost_operator,
    sums_by_name,
)
from perftui.trace.model import NONE, Int32, Int64, Mask, Trace


@dataclass(frozen=True, eq=False)
class Calls:
    """Some rows of a trace, each in one group; every other row is part of the one around it.

    Times are those of ``call_tree.sums_by_name``, with groups for names.
    """

    trace: Trace
    """With the group of each row for its name, and the labels of groups for names."""
    links: Links
    around: Int32
    """For each row the nearest call among itself and its callers, or NONE."""

    @classmethod
    def of(
        cls, trace: Trace, links: Links, wanted: Mask, group: Int32, labels: Sequence[str]
    ) -> Calls:
        """Calls among the ``wanted`` rows; ``group`` has the number of each row's label."""
        grouped = replace(trace, name=group, names=tuple(labels))
        return cls(grouped, links, innermost(trace, wanted))

    @classmethod
    def of_labels(
        cls, trace: Trace, links: Links, wanted: Mask, group: Int32, labels: Sequence[str]
    ) -> Calls:
        """Calls among the ``wanted`` rows, where groups whose labels agree are one."""
        distinct = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        if len(distinct) < len(labels):
            group = np.array([distinct[label] for label in labels], dtype=np.int32)[group]
        return cls.of(trace, links, wanted, group, tuple(distinct))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the groups."""
        return self.trace.names

    @cached_property
    def rows(self) -> Int64:
        """The calls, in order of the trace."""
        return np.flatnonzero(self.around == np.arange(len(self.trace)))

    @cached_property
    def callers(self) -> Int32:
        """For each row the call that made it, or NONE."""
        return callers_of(self.trace, self.around)

    @cached_property
    def launchers(self) -> Int64:
        """For each of ``links.activity`` the innermost call around its launch, or around the
        operator that its id names; NONE where neither is in a call."""
        launch, operator = self.links.launch, self.links.operator
        if not len(self.around):
            return np.full(len(launch), NONE, np.int64)
        found = np.where(launch == NONE, NONE, self.around[launch])
        by_operator = np.where(operator == NONE, NONE, self.around[operator])
        return np.where(found == NONE, by_operator, found).astype(np.int64)

    @cached_property
    def launched(self) -> Int64:
        """Device time that each row launched itself."""
        linked = self.launchers != NONE
        lasting = self.trace.duration[self.links.activity[linked]]
        return sums(self.launchers[linked], lasting, len(self.trace))

    @cached_property
    def times(self) -> CallTimes:
        """Times of each row's call."""
        return call_times(self.trace, self.rows, self.callers, self.launched)

    def table(self) -> OpTable:
        """One line for each group that has calls, most self time first (device, then CPU)."""
        columns = sums_by_name(self.trace, self.around, self.launched)
        groups = np.flatnonzero(columns["calls"])
        keys = (-columns["cpu_self"][groups], -columns["device_self"][groups])
        order = groups[np.lexsort(keys)]
        return OpTable(
            names=tuple(self.labels[number] for number in order.tolist()),
            **{name: column[order] for name, column in columns.items()},
        )


def op_calls(trace: Trace, links: Links) -> Calls:
    """The operators by name."""
    return Calls(trace, links, innermost_operator(trace))


def op_table(trace: Trace, links: Links) -> OpTable:
    """One line for each operator name, most self time first (device, then CPU)."""
    return op_calls(trace, links).table()
