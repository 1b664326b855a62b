"""Columns of integers in as few bytes as hold them: a large trace is mostly these."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.model import Ints

_LIMITS = tuple((kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int16, np.int32))


def downcast(column: npt.NDArray[np.signedinteger[Any]]) -> Ints:
    """The column as 16, 32 or 64 bits, whatever its values need; the same array if it is so."""
    if not len(column):
        return column
    lowest, highest = int(column.min()), int(column.max())
    for kind, least, most in _LIMITS:
        if least <= lowest and highest <= most:
            return column.astype(kind, copy=False)
    return column
