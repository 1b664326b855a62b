"""Columns that many tables ask for are worked out once for each trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from perftui.trace.model import Trace

Kind = TypeVar("Kind", bound=np.generic)


def cached(
    column: Callable[[Trace], npt.NDArray[Kind]],
) -> Callable[[Trace], npt.NDArray[Kind]]:
    """The same function, whose result is kept as long as the trace is and cannot be written to."""
    known: WeakKeyDictionary[Trace, npt.NDArray[Any]] = WeakKeyDictionary()

    @wraps(column)
    def once(trace: Trace) -> npt.NDArray[Kind]:
        found = known.get(trace)
        if found is None:
            found = column(trace)
            found.setflags(write=False)
            known[trace] = found
        return found

    return once
