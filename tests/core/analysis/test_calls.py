"""Calls in groups, as a tree and opened, against an oracle that walks up from each of them."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.ops.call_detail import NO_CALL, NOBODY, Part, open_group, open_kernel
from perftui.analysis.ops.call_paths import CallPaths, PathNode
from perftui.analysis.ops.calls import Calls, Links, innermost, op_calls
from perftui.trace.columns.arrays import nest, order
from perftui.trace.model import NONE, Trace, Track
from tests.traces.events import analysis_of, call, cpu, gpu, trace_of

NAMES = ("f", "g", "h")
NO_LINKS = Links(*[np.zeros(0, dtype=np.int64)] * 3)
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


def rows_of(rows: list[Row]) -> tuple[Trace, np.ndarray, np.ndarray]:
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


@pytest.mark.slow
@given(ROWS)
def test_the_nearest_wanted_row_of_each(rows: list[Row]) -> None:
    trace, wanted, _ = rows_of(rows)
    slow = [
        row if wanted[row] else next(iter(callers(trace, row, wanted)), NONE)
        for row in range(len(trace))
    ]
    assert innermost(trace, wanted).tolist() == slow


@pytest.mark.slow
@given(ROWS)
def test_a_table_sums_by_name(rows: list[Row]) -> None:
    trace, wanted, launched = rows_of(rows)
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
    calls = Calls(trace, NO_LINKS, innermost(trace, wanted))
    object.__setattr__(calls, "launched", launched.astype(np.int64))
    table = calls.table()
    numbers = [NAMES.index(name) for name in table.names]
    assert sorted(numbers) == sorted(slow["calls"])
    for column in slow:
        assert getattr(table, column).tolist() == [slow[column][name] for name in numbers], column
    for name, first in zip(numbers, table.first_row.tolist(), strict=True):
        mine = np.flatnonzero(wanted & (trace.name == name)).tolist()
        assert first == max(mine, key=lambda row: (trace.duration[row], -row))


GROUPS = st.lists(st.integers(0, 2), min_size=25, max_size=25)


def in_groups(rows: list[Row], numbers: list[int]) -> tuple[Trace, Calls, np.ndarray]:
    """Rows in groups of their own, where each launched what ``rows_of`` says of it."""
    trace, wanted, launched = rows_of(rows)
    group = np.array(numbers[: len(rows)], dtype=np.int32)
    calls = Calls.of(trace, wanted, group, ("a", "b", "c"))
    object.__setattr__(calls, "launched", launched.astype(np.int64))
    return trace, calls, launched


def lasting_of(trace: Trace, wanted: np.ndarray) -> dict[int, int]:
    """How long each call lasts: until its caller ends, at the latest."""
    found: dict[int, int] = {}
    for row in np.flatnonzero(wanted).tolist():
        above = callers(trace, row, wanted)
        found[row] = int(trace.duration[row])
        if above:
            end = int(trace.start[above[0]]) + found[above[0]]
            found[row] = max(0, min(found[row], end - int(trace.start[row])))
    return found


def every_node(paths: CallPaths) -> list[PathNode]:
    found, waiting = [], list(paths.roots())
    while waiting:
        found.append(waiting.pop())
        waiting += paths.below(found[-1])
    return found


@pytest.mark.slow
@given(ROWS, GROUPS)
def test_groups_sum_to_the_same_whole(rows: list[Row], numbers: list[int]) -> None:
    _, wanted, launched = rows_of(rows)
    _, calls, _ = in_groups(rows, numbers)
    table, by_name = calls.table(), calls_by_name(rows).table()

    assert int(table.cpu_self.sum()) == int(by_name.cpu_self.sum())
    assert int(table.device_self.sum()) == int(launched[wanted].sum())
    assert int(table.calls.sum()) == int(wanted.sum())
    assert set(table.names) == {calls.labels[numbers[row]] for row in np.flatnonzero(wanted)}


def calls_by_name(rows: list[Row]) -> Calls:
    trace, wanted, launched = rows_of(rows)
    calls = Calls.of(trace, wanted, trace.name, NAMES)
    object.__setattr__(calls, "launched", launched.astype(np.int64))
    return calls


@pytest.mark.slow
@given(ROWS, GROUPS)
def test_each_path_of_the_tree_holds_its_calls(rows: list[Row], numbers: list[int]) -> None:
    trace, calls, launched = in_groups(rows, numbers)
    _, wanted, _ = rows_of(rows)
    lasting = lasting_of(trace, wanted)
    slow: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in np.flatnonzero(wanted).tolist():
        chain = [*callers(trace, row, wanted)[::-1], row]
        path = tuple(numbers[each] for each in chain)
        slow[path][0] += 1
        slow[path][1] += lasting[row]
        for upto in range(1, len(path) + 1):
            slow[path[:upto]][2] += int(launched[row])
        slow[path][3] += int(launched[row])

    found = {node.path: node for node in every_node(CallPaths(calls))}
    assert {
        path: [node.calls, node.cpu_total, node.device_total, node.device_self]
        for path, node in found.items()
    } == slow


@pytest.mark.slow
@given(ROWS, GROUPS)
def test_a_node_is_its_own_time_and_what_it_calls(rows: list[Row], numbers: list[int]) -> None:
    _, calls, _ = in_groups(rows, numbers)
    paths = CallPaths(calls)
    for node in every_node(paths):
        below = paths.below(node)
        assert node.calls_others == bool(below)
        assert node.cpu_total == node.cpu_self + sum(each.cpu_total for each in below)
        assert node.device_total == node.device_self + sum(each.device_total for each in below)
    assert sum(node.cpu_total for node in paths.roots()) == int(calls.times.own.sum())


@pytest.mark.slow
@given(ROWS, GROUPS)
def test_callers_sum_to_the_total_of_a_group(rows: list[Row], numbers: list[int]) -> None:
    trace, calls, _ = in_groups(rows, numbers)
    table = calls.table()
    for index, name in enumerate(table.names):
        detail = open_group(trace, calls, name)
        assert detail is not None
        assert sum(part.time for part in detail.callers) == int(table.cpu_total[index])
        outer = sum(part.count for part in detail.callers)
        assert outer + detail.inner == detail.spread.count == int(table.calls[index])


@pytest.mark.slow
@given(ROWS, GROUPS, st.integers(0, 2))
def test_what_leads_to_a_group(rows: list[Row], numbers: list[int], group: int) -> None:
    trace, calls, _ = in_groups(rows, numbers)
    _, wanted, _ = rows_of(rows)
    slow = set()
    for row in np.flatnonzero(wanted).tolist():
        if numbers[row] == group:
            slow |= {row, *callers(trace, row, wanted)}
    mask = np.arange(3) == group
    assert set(np.flatnonzero(CallPaths(calls).leading_to(mask)).tolist()) == slow


@pytest.fixture
def training() -> Trace:
    """Two matrix products, one of them in a linear layer, and a copy that no call launched."""
    return trace_of(
        cpu("linear", 0, 100),
        cpu("mm", 10, 50),
        call("cudaLaunchKernel", 20, 5, correlation=1),
        call("cudaLaunchKernel", 80, 5, correlation=2),
        cpu("mm", 200, 30),
        call("cudaLaunchKernel", 210, 5, correlation=3),
        gpu("gemm", 300, 8, 1, stream=7),
        gpu("bias", 310, 1, 2, stream=7),
        gpu("gemm", 320, 4, 3, stream=20),
        gpu("gemm", 330, 2, 9, stream=7),
    )


def rows(parts: tuple[Part, ...]) -> list[tuple[str, int, int]]:
    return [(part.label, part.count, part.time // 1000) for part in parts]


def test_an_operator_opened(training: Trace) -> None:
    detail = open_group(training, op_calls(training), "mm")

    assert detail is not None
    assert rows(detail.callers) == [("linear", 1, 50), (NOBODY, 1, 30)]
    assert rows(detail.kernels) == [("gemm", 2, 12)]
    spread = detail.spread
    assert (spread.shortest, spread.median, spread.longest) == (30_000, 30_000, 50_000)
    assert [training.start[row] // 1000 for row in detail.longest] == [10, 200]


def test_an_operator_has_the_kernels_of_what_it_calls(training: Trace) -> None:
    detail = open_group(training, op_calls(training), "linear")

    assert detail is not None
    assert {each.label: each.time // 1000 for each in detail.kernels} == {"gemm": 8, "bias": 1}
    assert open_group(training, op_calls(training), "nothing") is None


def test_a_kernel_opened(training: Trace) -> None:
    analysis = analyse(training)
    line = analysis.kernels.names.index("gemm")
    detail = open_kernel(training, op_calls(training), analysis.kernels, line)

    assert detail is not None
    assert rows(detail.callers) == [("mm", 2, 12), (NO_CALL, 1, 2)]
    assert training.name_of(detail.callers[0].row) == "mm"
    assert [training.tracks[int(each.label)].stream for each in detail.places] == [7, 20]


def test_kernels_have_a_middle_and_streams(training: Trace) -> None:
    kernels = analyse(training).kernels
    line = kernels.names.index("gemm")

    lengths = (kernels.shortest, kernels.median, kernels.longest)
    assert [int(column[line]) // 1000 for column in lengths] == [2, 4, 8]
    assert kernels.streams[line] == ((0, 7), (0, 20))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=20))
def test_the_middle_of_a_kernel(runs: list[tuple[str, int]]) -> None:
    events = [gpu(name, 10 * at, lasting, at) for at, (name, lasting) in enumerate(runs)]
    kernels = analysis_of(*events).kernels
    for line, name in enumerate(kernels.names):
        ordered = sorted(lasting for own, lasting in runs if own == name)
        middle = ordered[(len(ordered) - 1) // 2]
        assert int(kernels.median[line]) == 1000 * middle
        assert int(kernels.shortest[line]) == 1000 * ordered[0]


def test_nothing_to_open() -> None:
    trace = trace_of(gpu("gemm", 0, 5, 1))
    calls = op_calls(trace)
    assert CallPaths(calls).roots() == ()
    assert len(calls.table()) == 0
    assert calls.launchers.tolist() == [NONE]
