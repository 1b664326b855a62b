"""Sets of intervals; facts that are worked out once, and all of the time once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.intervals import Intervals, complement, intersect, subtract, union, unite
from perftui.analysis.kernels.category import tensor_core_time
from perftui.analysis.kinds import once
from perftui.analysis.ops.call_groups import By, Grouped, grouped, op_arguments
from perftui.analysis.ops.calls import link
from perftui.trace.model import Int64, Trace
from tests.traces.events import call, cpu, frame, gpu, mark, trace_of

Pairs = list[tuple[int, int]]
PAIRS = st.lists(st.tuples(st.integers(-20, 40), st.integers(-3, 12)), max_size=12)
MOMENTS = range(-40, 80)


def covered(pairs: Pairs) -> set[int]:
    """Slow and obvious: every unit of time by itself."""
    return {moment for start, length in pairs for moment in range(start, start + length)}


def made(pairs: Pairs) -> Intervals:
    start = np.array([start for start, _ in pairs], dtype=np.int64)
    return union(start, start + np.array([length for _, length in pairs], dtype=np.int64))


def moments(intervals: Intervals) -> set[int]:
    ends = zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
    return {moment for start, end in ends for moment in range(start, end)}


def is_normal(intervals: Intervals) -> bool:
    """Sorted, not empty, not touching."""
    lasting = bool(np.all(intervals.end > intervals.start))
    return lasting and bool(np.all(intervals.start[1:] > intervals.end[:-1]))


@pytest.mark.slow
@given(PAIRS)
def test_union(pairs: Pairs) -> None:
    assert moments(made(pairs)) == covered(pairs)
    assert made(pairs).total == len(covered(pairs))
    assert is_normal(made(pairs))


@given(PAIRS)
def test_moments_that_are_covered(pairs: Pairs) -> None:
    times = np.array(MOMENTS, dtype=np.int64)
    held = made(pairs).holds(times)
    assert set(times[held].tolist()) == covered(pairs) & set(MOMENTS)


@pytest.mark.slow
@given(PAIRS, PAIRS)
def test_set_operations(first: Pairs, second: Pairs) -> None:
    one, other = covered(first), covered(second)
    results = {
        "intersect": (intersect(made(first), made(second)), one & other),
        "subtract": (subtract(made(first), made(second)), one - other),
        "unite": (unite(made(first), made(second)), one | other),
    }
    for name, (found, wanted) in results.items():
        assert moments(found) == wanted, name
        assert is_normal(found), name


@given(PAIRS, st.integers(-30, 60), st.integers(0, 40))
def test_complement(pairs: Pairs, start: int, length: int) -> None:
    found = complement(made(pairs), start, start + length)
    assert moments(found) == set(range(start, start + length)) - covered(pairs)
    assert is_normal(found)


@pytest.mark.slow
@given(PAIRS)
def test_time_covered_before_and_within(pairs: Pairs) -> None:
    times = np.array(MOMENTS, dtype=np.int64)
    inside = covered(pairs)
    before = [sum(moment < time for moment in inside) for time in MOMENTS]
    assert made(pairs).before(times).tolist() == before
    within = made(pairs).within(times, times + 7).tolist()
    assert within == [sum(t <= moment < t + 7 for moment in inside) for t in MOMENTS]


def test_uniting_nothing_is_nothing() -> None:
    assert len(unite()) == 0


@pytest.mark.slow
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


LENGTH = 40
"""us of each call, before and behind what it calls."""

KERNELS = (
    "ampere_fp16_s16816gemm_fp16_128x128_tn",
    "ampere_sgemm_128x64_tn",
    "add",
    "triton_tem_0",
)


@dataclass(frozen=True)
class Node:
    """Something that is called, and what it calls."""

    kind: str
    which: int
    inside: tuple[Node, ...] = ()


nodes = st.recursive(
    st.builds(Node, st.sampled_from(["launch", "op"]), st.integers(0, 3)),
    lambda inner: st.builds(
        Node,
        st.sampled_from(["op", "module", "frame", "library", "torch module"]),
        st.integers(0, 2),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


def events(top: tuple[Node, ...], marked: bool) -> list[dict[str, Any]]:
    """The events of these calls; ``marked`` adds the agent's marks of modules to torch's own."""
    found: list[dict[str, Any]] = []
    now, launches = [0], count(1)

    def made(node: Node) -> Iterator[dict[str, Any]]:
        begin = now[0]
        now[0] += LENGTH
        for each in node.inside:
            found.extend(made(each))
        now[0] += LENGTH
        lasts = now[0] - begin
        if node.kind == "launch":
            number = next(launches)
            yield call("cudaLaunchKernel", begin, lasts, correlation=number)
            yield gpu(KERNELS[node.which], 10 * begin + 5, 300, number)
        elif node.kind == "op":
            yield cpu(f"aten::op{node.which}", begin, lasts)
        elif node.kind == "module":
            if marked:
                yield mark(f"nn.Module: layers.{node.which} (Linear)", begin, lasts)
            yield frame(f"nn.Module: Linear_{node.which}", begin + 1, lasts - 2)
        elif node.kind == "torch module":
            yield frame(f"nn.Module: Block_{node.which}", begin, lasts)
        elif node.kind == "library":
            yield frame(f"torch/nn/modules/linear.py({node.which}): forward", begin, lasts)
        else:
            yield frame(f"train.py({node.which}): step", begin, lasts)

    for node in top:
        found.extend(made(node))
    return found


def by(trace: Trace, how: By) -> Grouped | None:
    return grouped(trace, how, lambda: op_arguments(trace))


@pytest.mark.slow
@given(st.lists(nodes, min_size=1, max_size=4).map(tuple), st.booleans())
def test_each_grouping_has_all_of_it_once(top: tuple[Node, ...], marked: bool) -> None:
    trace = trace_of(*events((Node("op", 3, (Node("launch", 0),)), *top), marked))
    analysis, links = analyse(trace), link(trace)
    launched = int(trace.duration[links.activity].sum())
    of_operators = int(analysis.ops.device_self.sum())
    assert of_operators <= launched == int(analysis.kernels.total.sum())
    for how in (By.NAME, By.MODULE, By.LINE):
        found = by(trace, how)
        if found is None:
            continue
        flat, paths = found.flat.table(), found.nested
        # By module also what a module launches itself, outside of any operator.
        whole = int(flat.device_self.sum())
        assert whole == of_operators if how is not By.MODULE else of_operators <= whole <= launched
        assert int(paths.launched.sum()) <= launched
        time = tensor_core_time(trace, found.flat, flat.names)
        assert (time.own == flat.device_self).all()
        assert (time.used + time.unused + time.unknown <= time.own).all()
    lines = by(trace, By.LINE)
    if lines is not None:
        assert int(lines.flat.table().cpu_self.sum()) == int(analysis.ops.cpu_self.sum())


@pytest.mark.parametrize("marked", [True, False])
def test_modules_and_stacks_together(marked: bool) -> None:
    """The agent marks a call that torch's stacks name, too: it is one call."""
    inner = Node("module", 1, (Node("library", 114, (Node("op", 0, (Node("launch", 0),)),)),))
    step = Node("frame", 12, (Node("module", 0, (inner, Node("op", 1, (Node("launch", 1),)))),))
    trace = trace_of(*events((step, Node("op", 2, (Node("launch", 2),))), marked))
    analysis = analyse(trace)

    modules = analysis.modules
    names = ["layers.{} (Linear)", "Linear_{}"][not marked]
    calls = dict(zip(modules.names, modules.calls.tolist(), strict=True))
    assert calls == {names.format(0): 1, names.format(1): 1, "(in no module)": 1}
    assert modules.device_self.tolist() == [300_000] * 3

    lines = by(trace, By.LINE)
    assert lines is not None
    table = lines.flat.table()
    shown = dict(zip(table.names, table.device_self.tolist(), strict=True))
    assert shown == {"train.py:12 step": 600_000, "(no line of yours)": 300_000}
    assert int(table.cpu_self.sum()) == int(analysis.ops.cpu_self.sum())


def test_time_on_tensor_cores_by_names() -> None:
    top = tuple(Node("op", at, (Node("launch", at),)) for at in range(4))
    trace = trace_of(*events(top, False))
    found = by(trace, By.NAME)
    assert found is not None
    time = tensor_core_time(trace, found.flat, [f"aten::op{at}" for at in range(4)])
    assert time.used.tolist() == [300_000, 0, 0, 0]
    assert time.unused.tolist() == [0, 300_000, 0, 0]
    assert time.unknown.tolist() == [0, 0, 0, 300_000]
    assert time.own.tolist() == [300_000] * 4
