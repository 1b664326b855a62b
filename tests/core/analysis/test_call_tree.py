"""What operators call and launch, against an oracle that walks up from each of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.ops.calls import innermost, sums_by_name
from perftui.trace.columns.arrays import nest, order
from perftui.trace.model import NONE, Trace, Track

pytestmark = [pytest.mark.usefixtures("route"), pytest.mark.slow]

NAMES = ("f", "g", "h")
Row = tuple[int, int, int, int, bool, bool, int]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 1),  # track
        st.integers(0, 30),  # start
        st.integers(0, 20),  # duration
        st.integers(0, 2),  # name
        st.booleans(),  # operator
        st.booleans(),  # range, if not
        st.sampled_from((0, 0, 1, 1000)),  # launched
    ),
    max_size=25,
)


def trace_of(rows: list[Row]) -> tuple[Trace, np.ndarray, np.ndarray]:
    """The rows ordered and nested, which of them are operators, and what each launched."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 7)
    by = order(table[:, 0].astype(np.int32), table[:, 1].copy(), table[:, 2].copy())
    track, start, duration, name, operator, is_range, launched = table[by].T.copy()
    wanted = operator.astype(bool)
    ranges = is_range.astype(bool) & ~wanted
    nesting = nest(track, start, duration, ranges)
    none = np.full(len(rows), NONE)
    trace = Trace(
        path=Path(), start=start, duration=duration, name=name.astype(np.int32), category=none,
        track=track, correlation=none, external_id=none, bytes=none, parent=nesting.parent,
        depth=nesting.depth, names=NAMES, categories=(), tracks=(Track("1", "1"), Track("1", "2")),
        origin=0, wall_origin=None,
    )  # fmt: skip
    return trace, wanted, np.where(wanted, launched, 0)


def callers(trace: Trace, row: int, wanted: np.ndarray) -> list[int]:
    found = []
    while (row := int(trace.parent[row])) != NONE:
        found += [row] * bool(wanted[row])
    return found


@given(ROWS)
def test_the_nearest_wanted_row_of_each(rows: list[Row]) -> None:
    trace, wanted, _ = trace_of(rows)
    slow = [
        row if wanted[row] else next(iter(callers(trace, row, wanted)), NONE)
        for row in range(len(trace))
    ]
    assert innermost(trace, wanted).tolist() == slow


@given(ROWS)
def test_sums_by_name(rows: list[Row]) -> None:
    trace, wanted, launched = trace_of(rows)
    slow: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    lasting: dict[int, int] = {}
    for row in np.flatnonzero(wanted).tolist():
        name, above = int(trace.name[row]), callers(trace, row, wanted)
        lasting[row] = int(trace.duration[row])
        if above:
            end = int(trace.start[above[0]]) + lasting[above[0]]
            lasting[row] = max(0, min(lasting[row], end - int(trace.start[row])))
            slow["cpu_self"][int(trace.name[above[0]])] -= lasting[row]
        slow["calls"][name] += 1
        slow["cpu_self"][name] += lasting[row]
        slow["device_self"][name] += int(launched[row])
        if name not in [int(trace.name[each]) for each in above]:
            slow["cpu_total"][name] += lasting[row]
        # Of callers with the same name, only the outermost is given what is launched below it.
        for outermost in {int(trace.name[each]) for each in [*above, row]}:
            slow["device_total"][outermost] += int(launched[row])
    found = sums_by_name(trace, innermost(trace, wanted), launched)
    first = found.pop("first_row")
    for column, values in found.items():
        assert values.tolist() == [slow[column][name] for name in range(len(NAMES))], column
    for name in range(len(NAMES)):
        mine = np.flatnonzero(wanted & (trace.name == name)).tolist()
        assert not mine or first[name] == max(mine, key=lambda row: (trace.duration[row], -row))
