"""Tables of NumPy columns for users, which pandas and Polars can take."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.analysis.model import KernelTable, OpTable, StepParts, TraceAnalysis
from perftui.facts.fact import Facts
from perftui.report.csv_tables import GapSources, rates, step_columns
from perftui.report.report import longest_kernels, longest_ops
from perftui.run.columns import PHASES, STEP_COLUMNS, TEXT
from perftui.run.table import Table as RunTable

MOST_SHOWN = 6
"""Columns that a ``repr`` names."""


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Named columns of equal length, read-only; ``table["duration_ns"]`` is one of them.

    Columns are int64 or bool, float64 where a value may be unknown, which is then NaN, and object
    for text, where what is unknown is None. Rows, and lists of ``to_dict``, hold values of Python,
    and None for all that is unknown.
    """

    values: Mapping[str, npt.NDArray[Any]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.values)

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.values[name]

    def __iter__(self) -> Iterator[Any]:
        """Rows as named tuples: ``row.duration_ns``."""
        row: Any = namedtuple("Row", self.columns)  # type: ignore[misc]  # known only here
        return map(row._make, zip(*self.to_dict().values(), strict=True))

    def to_dict(self) -> dict[str, list[Any]]:
        """The values of each column."""
        return {name: _plain(column) for name, column in self.values.items()}

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with these columns; unknown values are missing there, too."""
        return _imported("pandas", "to_pandas").DataFrame(dict(self.values))

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` with these columns; what is unknown is null.

        Raises:
            ImportError: Polars is not installed.
        """
        polars = _imported("polars", "to_polars")
        columns = {
            name: column.tolist() if column.dtype == object else column
            for name, column in self.values.items()
        }
        return polars.DataFrame(columns, nan_to_null=True)

    def __repr__(self) -> str:
        names = [*self.columns[:MOST_SHOWN], *(["..."] if len(self.columns) > MOST_SHOWN else [])]
        rows = "1 row" if len(self) == 1 else f"{len(self)} rows"
        return f"<Table: {rows} of {', '.join(names)}>"


def table_of(columns: Mapping[str, npt.NDArray[Any]]) -> Table:
    """The table of ``columns``, which nobody writes to."""
    frozen = {}
    for name, column in columns.items():
        view = column.view()
        view.flags.writeable = False
        frozen[name] = view
    return Table(MappingProxyType(frozen))


def texts(values: Iterable[str | None]) -> npt.NDArray[Any]:
    """A column of text."""
    listed = list(values)
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column


def whole(values: Iterable[int]) -> npt.NDArray[np.int64]:
    """A column of whole numbers that are all known."""
    return np.array(list(values), dtype=np.int64)


def _plain(column: npt.NDArray[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype.kind != "f" or not np.isnan(column).any():
        return values
    return [None if value != value else value for value in values]


def _imported(package: str, method: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{method} needs {package}: pip install {package}") from error


ALWAYS_KNOWN = frozenset({"index", "start", "duration", *PHASES, "micro_batches", "overhead"})
"""Columns of whole numbers: runs of every version have them."""


def step_table(steps: RunTable | None) -> Table:
    """``steps`` by ``STEP_COLUMNS``, with units in the names of the columns; empty without any."""
    columns = {}
    for column in STEP_COLUMNS:
        name = column.name + {"ns": "_ns", "B": "_bytes"}.get(column.unit, "")
        is_there = steps is not None and column.name in steps
        values = steps[column.name] if steps is not None and is_there else None
        columns[name] = _converted(column.name, values, len(steps) if steps is not None else 0)
    return table_of(columns)


def _converted(name: str, values: npt.NDArray[Any] | None, rows: int) -> npt.NDArray[Any]:
    if name in TEXT:
        return texts(values if values is not None else [None] * rows)
    numbers = values if values is not None else np.full(rows, -1, dtype=np.int64)
    if name == "profiled":
        return np.asarray(numbers == 1)
    is_unknown = numbers < 0
    if name in ALWAYS_KNOWN and not is_unknown.any():
        return numbers
    return np.where(is_unknown, np.nan, numbers)


def op_table(ops: OpTable) -> Table:
    """Operators, or modules."""
    rows = np.array(longest_ops(ops), dtype=np.int64)
    return table_of(
        {
            "name": texts(ops.names[row] for row in rows),
            "calls": ops.calls[rows],
            "cpu_own_ns": ops.cpu_self[rows],
            "cpu_total_ns": ops.cpu_total[rows],
            "device_own_ns": ops.device_self[rows],
            "device_total_ns": ops.device_total[rows],
        }
    )


def kernel_table(kernels: KernelTable) -> Table:
    """Kernels, copies and sets."""
    rows = np.array(longest_kernels(kernels), dtype=np.int64)
    return table_of(
        {
            "name": texts(kernels.names[row] for row in rows),
            "category": texts(kernels.categories[row] for row in rows),
            "calls": kernels.calls[rows],
            "total_ns": kernels.total[rows],
            "shortest_ns": kernels.shortest[rows],
            "median_ns": kernels.median[rows],
            "longest_ns": kernels.longest[rows],
        }
    )


_KNOWN, _TEXTS = ("calls", "time (ns)"), ("operator", "sizes", "longest kernel", "category")


def rate_table(analysis: TraceAnalysis) -> Table:
    """Operators by the sizes of their inputs, with what they computed and moved."""
    found, columns = rates(Facts(None, analysis)), {}
    for at, title in enumerate(found.heading):
        cells: list[Any] = [row[at] for row in found.rows]
        name = title.replace(" (ns)", "_ns").replace("/", "_per_").replace(" ", "_").lower()
        if title in (*_TEXTS, "precision", "limit"):
            columns[name] = texts(cells)
        else:
            columns[name] = np.array(cells, np.int64 if title in _KNOWN else np.float64)
    return table_of(columns)


def step_parts_table(steps: Sequence[StepParts]) -> Table:
    """Steps and their parts; a part that a step does not have takes 0 ns of it."""
    index, *times = step_columns(steps).items()
    columns = {re.sub(r"\W", "_", name) + "_ns": whole(values) for name, values in times}
    return table_of({"index": whole(index[1]), **columns})


def gap_table(facts: Facts) -> Table:
    """Idle gaps of the GPUs; with a run in ``facts`` its stack samples name lines, too."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    sources = GapSources(facts)
    places = [sources.of(gap)[1:] for gap in gaps]
    return table_of(
        {
            "device": whole(gap.device for gap in gaps),
            "start_ns": whole(gap.start for gap in gaps),
            "duration_ns": whole(gap.duration for gap in gaps),
            "cause": texts(gap.cause.value for gap in gaps),
            "phase": texts(gap.phase or None for gap in gaps),
            "operator": texts(operator for operator, _ in places),
            "source": texts(line for _, line in places),
        }
    )
