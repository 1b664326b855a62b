"""A table that grows by appended rows and returns frozen columns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.run.journal import Column


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, read-only: int64 or float64 for numbers, object for text.

    A missing number is NaN in a float column. ``table["duration"]`` is the column of that name.
    """

    columns: tuple[Column, ...] = ()
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def last(self, name: str) -> Any:
        """The newest value of a column, None if it is empty."""
        column = self.values.get(name)
        return None if column is None or not len(column) else column[-1]

    def then(self, after: Table) -> Table:
        """This table's rows and those of ``after``, in this table's columns; values missing in
        ``after`` are NaN, in columns of integers -1."""
        values = {}
        for name, column in self.values.items():
            if name in after:
                rows = after[name]
            else:
                unknown: Any = {"f": np.nan, "i": -1}.get(column.dtype.kind)
                rows = np.full(len(after), unknown, dtype=column.dtype)
            values[name] = np.concatenate((column, rows))
        return Table(self.columns, values)

    def where(self, mask: npt.NDArray[np.bool_]) -> Table:
        """The rows for which ``mask`` is true."""
        return Table(self.columns, {name: column[mask] for name, column in self.values.items()})

    def head(self, count: int) -> Table:
        """The first ``count`` rows, without a copy of them."""
        return Table(self.columns, {name: column[:count] for name, column in self.values.items()})


class GrowingTable:
    """Collects rows; ``freeze`` only creates views of them."""

    def __init__(self, columns: Sequence[Column], floats: bool, text: Iterable[str] = ()) -> None:
        """``floats`` chooses float64 for numbers; ``text`` names the columns that hold objects."""
        self.columns = tuple(columns)
        text = frozenset(text)
        number: type = np.float64 if floats else np.int64
        self._fill = np.nan if floats else -1
        self._kinds = "iufb" if floats else "ib"
        self.refused = 0
        self._arrays: dict[str, npt.NDArray[Any]] = {
            column.name: np.empty(64, dtype=object if column.name in text else number)
            for column in self.columns
        }
        self._length = 0

    def extend(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows``; None becomes NaN, or -1 in a column of integers.

        A row with anything but a number in a column of numbers (or a fraction, or more than 64
        bits, in one of integers) is skipped and counted in ``refused``.
        """
        if self._append(rows):
            return
        for row in rows:
            self.refused += not self._append([row])

    def __len__(self) -> int:
        return self._length

    def remove(self, start: int, end: int) -> Table:
        """Remove and return rows ``start`` to before ``end``; tables frozen before keep them."""
        removed = Table(self.columns, {name: a[start:end] for name, a in self._arrays.items()})
        rest = self._length - end
        for name, array in self._arrays.items():
            shorter = np.empty(max(64, 2 * (start + rest)), dtype=array.dtype)
            shorter[:start] = array[:start]
            shorter[start : start + rest] = array[end : self._length]
            self._arrays[name] = shorter
        self._length = start + rest
        return removed

    def _append(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Append all of ``rows`` or none; returns whether they fit."""
        if not rows:
            return True
        values = [
            self._convert(column.name, [row[index] for row in rows])
            for index, column in enumerate(self.columns)
        ]
        end = self._length + len(rows)
        for column, new in zip(self.columns, values, strict=True):
            if new is None:
                return False
            array = self._grown(column.name, end)
            array[self._length : end] = new
        self._length = end
        return True

    def _convert(self, name: str, values: list[Any]) -> npt.NDArray[Any] | None:
        """``values`` as an array for the column ``name``, None if one does not fit."""
        if self._arrays[name].dtype == object:
            # A text column has few words, in every row: one object for each is enough.
            values = [sys.intern(value) if type(value) is str else value for value in values]
            return np.fromiter(values, dtype=object, count=len(values))
        try:
            numbers = np.array([self._fill if value is None else value for value in values])
        except (ValueError, OverflowError):
            return None
        return numbers if numbers.ndim == 1 and numbers.dtype.kind in self._kinds else None

    def _grown(self, name: str, length: int) -> npt.NDArray[Any]:
        array = self._arrays[name]
        if length > len(array):
            grown = np.empty(max(length, 2 * len(array)), dtype=array.dtype)
            grown[: self._length] = array[: self._length]
            array = self._arrays[name] = grown
        return array

    def freeze(self) -> Table:
        """All rows so far, as a table that later appends do not change."""
        views = {}
        for name, array in self._arrays.items():
            view = array[: self._length]
            view.flags.writeable = False
            views[name] = view
        return Table(self.columns, views)
