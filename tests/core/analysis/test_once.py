from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from perftui.analysis.once import once
from perftui.trace.model import Int64, Trace
from tests.traces.events import cpu, trace_of

pytestmark = pytest.mark.slow


def test_a_column_is_worked_out_once_for_each_trace_and_goes_with_it() -> None:
    asked = []

    @once
    def doubled(trace: Trace) -> Int64:
        asked.append(len(trace))
        return 2 * trace.duration

    first, second = trace_of(cpu("a", 0, 1)), trace_of(cpu("a", 0, 1), cpu("b", 2, 3))
    assert doubled(first) is doubled(first)
    assert doubled(second).tolist() == [2000, 6000]
    assert asked == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        np.add(doubled(first), 1, out=doubled(first))
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
