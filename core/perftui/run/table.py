"""A table that grows by appended rows and hands out frozen columns."""

from __future__ import annotations

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
        """The newest value of a column, None where there is none."""
        column = self.values.get(name)
        return None if column is None or not len(column) else column[-1]

    def where(self, mask: npt.NDArray[np.bool_]) -> Table:
        """The rows for which ``mask`` is true."""
        return Table(self.columns, {name: column[mask] for name, column in self.values.items()})


class GrowingTable:
    """Collects rows; ``freeze`` costs nothing but views of what is there."""

    def __init__(self, columns: Sequence[Column], floats: bool, text: Iterable[str] = ()) -> None:
        """``floats`` chooses float64 for numbers; ``text`` names the columns that hold objects."""
        self.columns = tuple(columns)
        text = frozenset(text)
        number: type = np.float64 if floats else np.int64
        self._fill = np.nan if floats else -1
        self._arrays: dict[str, npt.NDArray[Any]] = {
            column.name: np.empty(64, dtype=object if column.name in text else number)
            for column in self.columns
        }
        self._length = 0

    def extend(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows``; None becomes NaN, or -1 in a column of integers."""
        end = self._length + len(rows)
        for index, (name, array) in enumerate(self._arrays.items()):
            if end > len(array):
                grown = np.empty(max(end, 2 * len(array)), dtype=array.dtype)
                grown[: self._length] = array[: self._length]
                array = self._arrays[name] = grown
            if array.dtype == object:
                for at, row in enumerate(rows, self._length):
                    array[at] = row[index]
            else:
                array[self._length : end] = [
                    self._fill if row[index] is None else row[index] for row in rows
                ]
        self._length = end

    def freeze(self) -> Table:
        """What has been appended so far, as a table that later appends do not change."""
        views = {}
        for name, array in self._arrays.items():
            view = array[: self._length]
            view.flags.writeable = False
            views[name] = view
        return Table(self.columns, views)
