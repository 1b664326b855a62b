"""A table of NumPy columns, which pandas and Polars can take."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

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
        """A ``pandas.DataFrame`` with these columns; what is unknown is missing there, too.

        Raises:
            ImportError: pandas is not installed.
        """
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
