"""What is worked out once for each trace and kept as long as that is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from perftui.trace.model import Trace

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def once(
    compute: Callable[Concatenate[Trace, Arguments], Found],
) -> Callable[Concatenate[Trace, Arguments], Found]:
    """Works ``compute`` out once for each trace and arguments, which must be hashable.

    An array that it gives cannot be written to. What it gives must not hold the trace: that would
    keep both for ever.
    """
    known: WeakKeyDictionary[Trace, dict[object, Found]] = WeakKeyDictionary()

    @wraps(compute)
    def found(trace: Trace, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        of_trace = known.setdefault(trace, {})
        key = (args, tuple(kwargs.items()))
        if key not in of_trace:
            result = compute(trace, *args, **kwargs)
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
            of_trace[key] = result
        return of_trace[key]

    return found
