"""Calls by shapes, module, line and stack, and what only arguments hold."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.analyse import analyse
from perftui.analysis.intervals import union
from perftui.analysis.kernels.metrics import launch_shapes
from perftui.analysis.model import OpTable
from perftui.analysis.ops.call_detail import OUTSIDE, module_table
from perftui.analysis.ops.call_groups import (
    NO_LINE,
    By,
    Grouped,
    OpArguments,
    grouped,
    is_library,
    op_arguments,
    source_line,
)
from perftui.analysis.ops.call_paths import CallPaths, stack_times
from perftui.analysis.ops.calls import callers_of, innermost, link
from perftui.trace.model import NONE, PYTHON, LoadCancelled, Trace
from tests.traces.builder import TraceBuilder, us
from tests.traces.events import call, cpu, frame, gpu, mark, trace_of


def told_apart(trace: Trace, by: By) -> Grouped:
    found = grouped(trace, by, lambda: op_arguments(trace))
    assert found is not None
    return found


def own_times(found: Grouped) -> dict[str, int]:
    """Own time on the CPU by group, in us."""
    table = found.flat.table()
    return {name: int(table.cpu_self[row]) // 1000 for row, name in enumerate(table.names)}


def roots(found: Grouped) -> list[str]:
    return [node.label for node in CallPaths(found.nested).roots()]


@pytest.fixture
def training() -> Trace:
    """A script's frame around torch's, a module, and a backward pass on another thread."""
    return trace_of(
        frame("train.py(12): step", 0, 200),
        frame("nn.Module: Linear_0", 5, 100),
        frame("torch/nn/modules/linear.py(114): forward", 6, 95),
        cpu("aten::linear", 10, 80, **{"Input Dims": [[64, 128], [32, 128], []]}),
        cpu("aten::addmm", 20, 40, **{"Input Dims": [[32], [64, 128], [128, 32]]}),
        cpu("aten::addmm", 150, 20, **{"Input Dims": [[32], [8, 128], [128, 32]]}),
        cpu("aten::mm", 300, 30, tid=2, **{"Input Dims": [[8, 8], [8, 8]]}),
    )


def test_by_shapes(training: Trace) -> None:
    assert own_times(told_apart(training, By.SHAPE)) == {
        "aten::linear  [64,128] [32,128]": 40,
        "aten::addmm  [32] [64,128] [128,32]": 40,
        "aten::addmm  [32] [8,128] [128,32]": 20,
        "aten::mm  [8,8] [8,8]": 30,
    }


def test_by_module(training: Trace) -> None:
    found = told_apart(training, By.MODULE)
    modules = analyse(training).modules

    assert own_times(found) == {"Linear_0": 100, OUTSIDE: 50}
    assert dict(zip(modules.names, (modules.cpu_self // 1000).tolist(), strict=True)) == own_times(
        found
    )
    assert roots(found) == ["Linear_0", "aten::mm", "aten::addmm"]


def test_by_line_of_the_script(training: Trace) -> None:
    found = told_apart(training, By.LINE)

    assert own_times(found) == {"train.py:12 step": 100, NO_LINE: 30}
    assert roots(found) == ["train.py:12 step", "aten::mm"]
    assert int(found.nested.times.own.sum()) == 230_000


def test_a_backward_pass_belongs_to_the_line_that_began_it() -> None:
    trace = trace_of(
        frame("train.py(12): step", 0, 200),
        frame("torch/_tensor.py(500): backward", 50, 100),
        frame("torch/autograd/__init__.py(200): backward", 55, 90),
        cpu("aten::mse_loss", 10, 20),
        # As autograd runs it for a GPU: on a thread of its own, without frames.
        cpu("autograd::engine::evaluate_function: MmBackward0", 60, 40, tid=2),
        cpu("aten::mm", 65, 30, tid=2),
        cpu("autograd::engine::evaluate_function: MmBackward0", 170, 10, tid=2),
        # A thread that only happens to work meanwhile.
        cpu("aten::pin_memory", 70, 5, tid=3),
    )
    assert own_times(told_apart(trace, By.LINE)) == {"train.py:12 step": 60, NO_LINE: 15}


def test_by_line_where_stacks_are_arguments() -> None:
    inner = "/usr/lib/python3.8/site-packages/torch/nn/functional.py(1848): linear"
    stack = f"{inner};model.py(7): forward;train.py(12): step"
    trace = trace_of(
        cpu("aten::linear", 0, 10, **{"Call stack": stack}),
        cpu("aten::relu", 20, 5, **{"Call stack": inner}),
        cpu("aten::mm", 30, 7),
    )
    assert own_times(told_apart(trace, By.LINE)) == {"model.py:7 forward": 10, NO_LINE: 12}


@pytest.mark.parametrize("by", [By.SHAPE, By.MODULE, By.LINE])
def test_what_was_not_recorded_is_no_group(by: By) -> None:
    trace = trace_of(cpu("aten::mm", 0, 10))
    assert grouped(trace, by, lambda: op_arguments(trace)) is None


def test_shapes_need_not_be_there_for_all() -> None:
    trace = trace_of(
        cpu("aten::mm", 0, 10, **{"Input Dims": [[2, 2], [2, 2]]}),
        cpu("aten::mm", 20, 5),
        cpu("aten::empty", 30, 1, **{"Input Dims": [[], []]}),
        cpu("aten::cat", 40, 2, **{"Input Dims": [[[2, 2], [3]], []]}),
    )
    assert own_times(told_apart(trace, By.SHAPE)) == {
        "aten::mm  [2,2] [2,2]": 10,
        "aten::mm": 5,
        "aten::empty": 1,
        "aten::cat  [[2,2],[3]]": 2,
    }


def test_shapes_are_harmless_text() -> None:
    trace = trace_of(cpu("aten::mm", 0, 10, **{"Input Dims": ["\x1b[31m", None, 3]}))
    assert op_arguments(trace).shapes == ("\\x1b[31m None 3",)


def test_reading_can_be_called_off(training: Trace) -> None:
    told: list[float] = []
    assert isinstance(op_arguments(training, lambda done: told.append(done) or True), OpArguments)
    assert told == [0.0]
    with pytest.raises(LoadCancelled):
        op_arguments(training, lambda _done: False)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train.py(12): forward", "train.py:12 forward"),
        ("/home/me/torch/train.py(3): <module>", "/home/me/torch/train.py:3 <module>"),
        ("torch/nn/modules/linear.py(114): forward", None),
        ("/usr/lib/python3.11/random.py(3): choice", None),
        ("/opt/site-packages/numpy/core.py(3): f", None),
        ("contextlib.py(132): __enter__", None),
        ("copy.py(128): deepcopy", None),
        ("multiprocessing/connection.py(250): recv", None),
        ("random.py(3): choice", "random.py:3 choice"),
        ("accelerate/utils/operations.py(820): forward", None),
        (
            "transformers/models/vit/modeling_vit.py(252): forward",
            "transformers/models/vit/modeling_vit.py:252 forward",
        ),
        ("/home/me/accelerate/train.py(9): main", "/home/me/accelerate/train.py:9 main"),
        ("perftui/agent/hooks.py(53): inner", None),
        ("/opt/checkout/core/perftui/agent/hooks/watch.py(53): inner", None),
        ("perftui/train.py(3): main", "perftui/train.py:3 main"),
        ("<string>(2): __init__", None),
        ("<built-in function len>", None),
        ("nn.Module: Linear_0", None),
    ],
)
def test_a_line_of_the_user(name: str, line: str | None) -> None:
    found = source_line(name)
    assert (str(found) if found else None) == line


def test_a_checkout_called_torch_is_no_library() -> None:
    assert is_library("torch/nn/functional.py")
    assert is_library(f"/home/me/inductor/od/codwfm{'x' * 46}.py")
    assert not is_library("/home/me/torch/train.py")


def test_how_kernels_were_launched() -> None:
    key = "est. achieved occupancy %"
    trace = trace_of(
        gpu("gemm", 0, 30, 1, grid=[4, 1, 1], block=[128, 1, 1], **{key: 50}),
        gpu("gemm", 40, 10, 2, grid=[4, 1, 1], block=[128, 1, 1], **{key: 10}),
        gpu("gemm", 60, 0, 3, grid=[8, 1, 1], block=[128, 1, 1], **{key: 10}),
        gpu("big", 100, 5, 7, grid=[99, 1, 1], block=[32, 1, 1], **{key: 0, "warps per SM": 3}),
        gpu("tiny", 110, 5, 8, grid=[1, 1, 1], block=[32, 1, 1], **{key: 0, "warps per SM": 0.1}),
        gpu("add", 70, 5, 4, grid=[1, 1, 1], block=[32, 1, 1], **{key: 7}),
        gpu("add", 80, 5, 5, grid=[1, 1, 1], block=[32, 1, 1]),
        gpu("bare", 90, 5, 6),
    )
    kernels = analyse(trace).kernels
    found = {kernels.names[line]: shapes for line, shapes in launch_shapes(trace, kernels).items()}

    assert set(found) == {"gemm", "add", "big", "tiny"}
    assert found["big"].occupancy is None
    assert found["tiny"].occupancy == 0
    assert found["gemm"].occupancy == pytest.approx((30_000 * 50 + 10_001 * 10) / 40_001)
    assert found["gemm"].shapes == (((4, 1, 1), (128, 1, 1), 2), ((8, 1, 1), (128, 1, 1), 1))
    assert found["add"].occupancy is None


def rows(table: OpTable) -> dict[str, tuple[int, ...]]:
    """By name: calls, total and own time on the CPU, total and own on the device, in us."""
    columns = (table.cpu_total, table.cpu_self, table.device_total, table.device_self)
    return {
        name: (int(table.calls[row]), *(int(column[row]) // 1000 for column in columns))
        for row, name in enumerate(table.names)
    }


def module(name: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
    return mark(f"nn.Module: {name}", start, duration, **more)


def test_each_module_has_the_time_of_its_calls_and_what_they_launched() -> None:
    trace = trace_of(
        module("Model", 0, 100),
        module("layers.0 (Block)", 10, 40),
        cpu("aten::mm", 20, 20),
        call("cudaLaunchKernel", 25, 5, correlation=1),
        module("layers.0 (Block)", 60, 20),
        call("cudaLaunchKernel", 90, 5, correlation=2),
        cpu("aten::backward", 110, 30),
        cpu("aten::mul", 115, 10),
        call("cudaLaunchKernel", 116, 5, correlation=3),
        gpu("gemm", 200, 7, 1),
        gpu("add", 210, 4, 2),
        gpu("mul", 220, 2, 3),
    )
    table = module_table(trace)

    assert rows(table) == {
        "layers.0 (Block)": (2, 60, 60, 7, 7),
        "Model": (1, 100, 40, 11, 4),
        OUTSIDE: (2, 30, 30, 2, 2),
    }
    assert trace.name_of(int(table.first_row[0])) == "nn.Module: layers.0 (Block)"
    assert trace.name_of(int(table.first_row[2])) == "aten::backward"


def test_modules_are_no_operators() -> None:
    trace = trace_of(cpu("aten::outer", 0, 100), module("Model", 10, 80), cpu("aten::mm", 20, 20))
    analysis = analyse(trace)

    assert set(analysis.ops.names) == {"aten::outer", "aten::mm"}
    assert int(analysis.ops.cpu_self.sum()) == 100_000
    assert rows(analysis.modules) == {"Model": (1, 80, 80, 0, 0), OUTSIDE: (1, 20, 20, 0, 0)}


def test_modules_of_python_stacks_count_where_the_agent_marked_none() -> None:
    python = frame("nn.Module: Linear_0", 0, 10)
    alone = trace_of(python, cpu("aten::mm", 1, 2))
    both = trace_of(python, module("head (Linear)", 1, 8), cpu("aten::mm", 2, 2))

    assert rows(module_table(alone)) == {"Linear_0": (1, 10, 10, 0, 0)}
    assert rows(module_table(both)) == {"head (Linear)": (1, 8, 8, 0, 0)}


def test_without_modules_there_is_no_table() -> None:
    trace = trace_of(cpu("aten::mm", 1, 2))

    assert len(module_table(trace)) == 0


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 1000, depth: int = 4) -> list[Any]:
    """Calls one inside the other, each a module, an operator or a launch."""
    found: list[Any] = []
    while depth and start < end and draw(st.booleans()):
        begin = draw(st.integers(start, end - 1))
        stop = draw(st.integers(begin + 1, end))
        kind = draw(st.sampled_from(["module", "operator", "operator", "launch"]))
        found.append((kind, draw(st.sampled_from("abc")), begin, stop))
        if kind != "launch":
            found += draw(nested(begin, stop, depth - 1))
        start = stop
    return found


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nested())
def test_own_times_sum_to_what_modules_and_operators_cover(calls: list[Any]) -> None:
    events = [module("root", 2000, 1)]
    for number, (kind, name, begin, stop) in enumerate(calls, 1):
        if kind == "module":
            events.append(module(name, begin, stop - begin))
        elif kind == "operator":
            events.append(cpu(f"aten::{name}", begin, stop - begin))
        else:
            launch = call("cudaLaunchKernel", begin, stop - begin, correlation=number)
            events += [launch, gpu("kernel", 3000 + number, 1, number)]
    trace = trace_of(*events)
    links = link(trace)
    table = module_table(trace)

    counted = kinds.module_calls(trace) | kinds.operators(trace)
    covered = union(trace.start[counted], trace.ends_of(counted))
    assert int(table.cpu_self.sum()) == int((covered.end - covered.start).sum())
    around = [
        launch != -1
        and any(
            trace.start[row] <= trace.start[launch] and trace.end[row] >= trace.end[launch]
            for row in counted.nonzero()[0]
        )
        for launch in links.launch
    ]
    assert int(table.device_self.sum()) == 1000 * sum(around)


CALLS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 40),
        st.integers(0, 30),
        st.sampled_from(["cpu_op", "python_function", "cuda_runtime", "user_annotation"]),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=25,
)


def outermost_time(trace: Trace) -> Counter[int]:
    """United time of the outermost calls, by track."""
    wanted = kinds.operators(trace) | trace.in_category(PYTHON)
    callers = callers_of(trace, innermost(trace, wanted))
    found: Counter[int] = Counter()
    for track in range(len(trace.tracks)):
        rows = wanted & (callers == NONE) & (trace.track == track)
        found[track] = union(trace.start[rows], trace.ends_of(rows)).total
    return +found


def by_track(trace: Trace) -> Counter[int]:
    found: Counter[int] = Counter()
    for one in stack_times(trace):
        found[one.track] += one.own
    return found


@pytest.mark.slow
@given(CALLS)
def test_a_thread_sums_to_its_outermost_calls(calls: list[tuple[str, int, int, str, int]]) -> None:
    """However calls overlap: clocks are read one after the other, and old ones in whole us."""
    events = [cpu(name, ts, dur, cat, tid) for name, ts, dur, cat, tid in calls]
    trace = trace_of(*events)
    assert by_track(trace) == outermost_time(trace)


def test_operators_that_overlap_behind_a_mark_are_not_counted_twice() -> None:
    """An operator outlasts the mark around it by the microsecond that the next begins in."""
    mark = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = trace_of(cpu(mark, 0, 10), cpu("a", 5, 6), cpu("b", 10, 5), cpu("c", 10, 2))
    assert by_track(trace) == outermost_time(trace) == Counter({0: 10_000})


def test_stacks_are_apart_by_caller_and_thread() -> None:
    built = TraceBuilder().frame("train.py(1): f").op("a").op("b", us(3)).pause(us(2)).close()
    built.op("b", us(4)).close().on(2).op("b", us(7))
    trace = built.trace()
    found = {(trace.tracks[one.track].thread, one.names): one.own for one in stack_times(trace)}
    assert found == {
        ("1", ("train.py(1): f", "a", "b")): us(3),
        ("1", ("train.py(1): f", "a")): us(2),
        ("1", ("train.py(1): f", "b")): us(4),
        ("2", ("b",)): us(7),
    }


def test_a_device_has_no_stacks() -> None:
    assert list(stack_times(trace_of(gpu("gemm", 0, 5)))) == []
