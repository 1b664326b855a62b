"""A column that grows as it is read, in as few bytes as hold its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.columns.downcast import downcast
from perftui.trace.model import Ints

_FEWEST = 1 << 14


class GrowableArray:
    """Values in one block that is made longer in place.

    A list of small arrays, joined at the end, takes twice the memory: what the small ones leave
    free is too scattered to be given back.
    """

    def __init__(self) -> None:
        self._values: npt.NDArray[Any] = np.empty(0, dtype=np.int16)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, values: Ints) -> None:
        """Append; the column becomes as wide as the widest value needs."""
        if not len(values):
            return
        length = self._length + len(values)
        width = self._values.dtype.itemsize
        if values.dtype.itemsize > width:
            values = downcast(values)
        if values.dtype.itemsize > width:
            self._values = self._values[: self._length].astype(values.dtype)
        if length > len(self._values):
            # An eighth more: what is not used yet is filled with zeros, and so takes memory.
            self._values.resize(max(_FEWEST, length + length // 8), refcheck=False)
        self._values[self._length : length] = values
        self._length = length

    def copy(self) -> GrowableArray:
        """Another column with the values so far."""
        other = GrowableArray()
        other.extend(self._values[: self._length])
        return other

    def take(self) -> npt.NDArray[Any]:
        """The column, which is empty afterwards."""
        self._values.resize(self._length, refcheck=False)
        values = self._values
        self._values, self._length = np.empty(0, dtype=np.int16), 0
        return values
