"""Rows against intervals, as every row by itself tells; with the compiled loops and without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.kinds import begun_in, covered, part_of_rows, within
from perftui.analysis.ops.call_tree import called_operators
from perftui.trace.columns import native
from perftui.trace.model import NONE, Trace
from tests.traces.events import cpu, trace_of

SPAN = 40
events = st.tuples(st.integers(0, SPAN), st.integers(0, 12), st.integers(1, 3), st.booleans())
"""Start, duration, thread, and whether it is an operator."""

properties = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def _loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(native, "compiled", lambda: None)
    elif native.compiled() is None:
        pytest.skip("installed without a C compiler")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.lists(events, min_size=1, max_size=25))
    return trace_of(
        *(
            cpu("op", start, length, "cpu_op" if is_op else "cuda_runtime", tid=thread)
            for start, length, thread, is_op in rows
        )
    )


@st.composite
def parts(draw: st.DrawFn) -> list[np.ndarray]:
    """Intervals of two kinds in turns, in ns."""
    edges = sorted(draw(st.sets(st.integers(0, SPAN + 10), min_size=4, max_size=9)))
    pairs = np.array(edges[: len(edges) // 2 * 2], dtype=np.int64).reshape(-1, 2) * 1000
    return [pairs[::2], pairs[1::2]]


@pytest.mark.usefixtures("_loops")
@properties
@given(traces(), parts())
def test_a_row_is_of_the_part_that_it_begins_in(trace: Trace, pairs: list[np.ndarray]) -> None:
    sets = [union(*each.T) for each in pairs]
    found = part_of_rows(trace, sets)
    holds = [each.holds(trace.start) for each in sets]
    assert found.tolist() == np.select(holds, [0, 1], NONE).tolist()
    assert begun_in(trace, sets[1]).tolist() == holds[1].tolist()


@pytest.mark.usefixtures("_loops")
@properties
@given(traces())
def test_what_rows_cover_is_the_union_of_all_tracks(trace: Trace) -> None:
    chosen = kinds.operators(trace)
    found, expected = covered(trace, chosen), union(trace.start[chosen], trace.ends_of(chosen))
    assert found.start.tolist() == expected.start.tolist()
    assert found.end.tolist() == expected.end.tolist()


@pytest.mark.usefixtures("_loops")
@properties
@given(traces(), st.integers(2, 4))
def test_rows_are_within_those_chosen_before_them_on_their_track(trace: Trace, each: int) -> None:
    rows = np.flatnonzero(kinds.operators(trace))
    chosen = np.arange(len(rows)) % each == 0
    expected = [
        bool(chosen[at])
        or any(
            chosen[before]
            and trace.track[rows[before]] == trace.track[row]
            and trace.start[rows[before]] + trace.duration[rows[before]] > trace.start[row]
            for before in range(at)
        )
        for at, row in enumerate(rows.tolist())
    ]
    assert within(trace, rows, chosen).tolist() == expected


@pytest.mark.usefixtures("_loops")
@properties
@given(traces())
def test_an_operator_s_own_time_leaves_out_what_it_called(trace: Trace) -> None:
    operators = kinds.operators(trace)
    chosen = operators & (trace.start >= 5_000)
    found = called_operators(trace, chosen)
    rows = np.flatnonzero(chosen).tolist()
    own, callers = dict.fromkeys(rows, 0), []
    for row in rows:
        above = int(trace.parent[row])
        while above != NONE and not operators[above]:
            above = int(trace.parent[above])
        own[row] += int(trace.duration[row])
        if above in own:
            own[above] -= int(trace.duration[row])
        callers.append(rows.index(above) if above in own else NONE)
    assert found.rows.tolist() == rows
    assert found.caller.tolist() == callers
    assert found.own.tolist() == [max(time, 0) for time in own.values()]
