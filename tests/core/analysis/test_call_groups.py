"""Calls told apart by shapes, module and line, and what only arguments tell."""

from __future__ import annotations

import pytest

from perftui.analysis.analyse import analyse
from perftui.analysis.kernels.launches import launch_shapes
from perftui.analysis.links import link
from perftui.analysis.ops.arguments import OpArguments, op_arguments
from perftui.analysis.ops.call_detail import OUTSIDE
from perftui.analysis.ops.call_groups import NO_LINE, By, Grouped, grouped
from perftui.analysis.ops.call_paths import CallPaths
from perftui.analysis.ops.frames import is_library, source_line
from perftui.trace.model import LoadCancelled, Trace
from tests.traces.events import cpu, frame, gpu, trace_of


def told_apart(trace: Trace, by: By) -> Grouped:
    found = grouped(trace, link(trace), by, lambda: op_arguments(trace))
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
    assert grouped(trace, link(trace), by, lambda: op_arguments(trace)) is None
    assert by.option.startswith("--")


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
