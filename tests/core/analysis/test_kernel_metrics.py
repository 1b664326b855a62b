"""What limits kernels, how they were launched, and what calls have to compute and to move."""

from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.kernels.limits import Tensor, Work, work_of
from perftui.analysis.kernels.metrics import Joined, Limit, join_kernels, limit_of
from perftui.analysis.model import KernelTable
from perftui.analysis.timeline.measure import Launches
from perftui.trace.model import NONE, Trace
from perftui.trace.ncu import KernelMetrics, Launch
from tests.traces.events import Event, call, cpu, gpu, trace_of

NAMES = {
    "time": "duration",
    "compute": "compute_throughput",
    "memory": "memory_throughput",
    "occupancy": "achieved_occupancy",
}


def launch(name: str, **values: float | None) -> Launch:
    return Launch(name, **{NAMES[key]: value for key, value in values.items()})


def table(*kernels: tuple[str, int, int], category: str = "kernel") -> KernelTable:
    """Name, calls and total of each."""
    calls = np.array([each[1] for each in kernels], np.int64)
    total = np.array([each[2] for each in kernels], np.int64)
    return KernelTable(
        names=tuple(each[0] for each in kernels),
        categories=(category,) * len(kernels),
        calls=calls,
        total=total,
        shortest=total,
        median=total,
        longest=total,
        first_row=np.arange(len(kernels)),
        streams=(((0, 7),),) * len(kernels),
    )


def join(launches: list[Launch], kernels: KernelTable) -> Joined:
    return join_kernels(KernelMetrics(Path("x"), tuple(launches)), kernels)


def rows(joined: Joined) -> list[tuple[int, int]]:
    return [(kernel.row, kernel.launches) for kernel in joined.kernels]


def test_a_kernel_gets_what_ncu_measured_of_its_name() -> None:
    measured = launch("void f<(int)64>(const T1 *)", time=300, compute=20, memory=70, occupancy=50)
    joined = join([measured], table(("copy", 1, 1), ("void f<64>(float const*)", 4, 800)))
    (kernel,) = joined.kernels
    assert (kernel.row, kernel.name) == (1, "void f<64>(float const*)")
    assert (kernel.compute, kernel.memory, kernel.occupancy) == (20, 70, 50)
    assert kernel.duration == 300
    assert kernel.duration_ratio == 1.5
    assert kernel.limit is Limit.MEMORY
    assert joined.unmatched == ()


def test_launches_of_one_name_are_weighted_by_their_duration() -> None:
    launches = [
        launch("k(int)", time=100, compute=10, memory=50),
        launch("k(int)", time=300, compute=90, memory=None),
        launch("k(int)", time=None),
    ]
    (kernel,) = join(launches, table(("k(int)", 1, 400))).kernels
    assert kernel.launches == 3
    assert kernel.compute == 70
    assert kernel.memory == 50
    assert kernel.duration == 200
    assert kernel.duration_ratio == 0.5
    assert kernel.occupancy is None


def test_without_durations_launches_count_alike() -> None:
    launches = [launch("k", compute=10), launch("k", time=5, compute=90)]
    (kernel,) = join(launches, table(("k", 1, 0))).kernels
    assert kernel.compute == 50
    assert kernel.duration_ratio is None


def test_a_kernel_is_known_by_its_template_or_by_a_bare_name_that_only_it_has() -> None:
    kernels = table(("void f<1>(int)", 1, 1), ("void f<2>(int)", 1, 1))
    joined = join([launch("void f<(int)2>(int)"), launch("void f<(int)3>(int)")], kernels)
    assert rows(joined) == [(1, 1)]
    assert joined.unmatched == ("void f<(int)3>(int)",)
    joined = join([launch("f"), launch("g")], table(("void ns::f<1>(int)", 1, 1)))
    assert rows(joined) == [(0, 1)]
    assert joined.unmatched == ("g",)
    two = table(("void f<1>(int)", 1, 1), ("void f<2>(int)", 1, 1))
    assert join([launch("f")], two).unmatched == ("f",)


def test_overloads_are_not_given_one_anothers_figures() -> None:
    joined = join([launch("f(int)"), launch("f(float)")], table(("f(double)", 1, 1)))
    assert rows(joined) == []
    assert joined.unmatched == ("f(int)", "f(float)")
    joined = join([launch("f(int)"), launch("f(float)")], table(("f(float)", 1, 1)))
    assert rows(joined) == [(0, 1)]
    assert joined.unmatched == ("f(int)",)


def test_copies_and_sets_are_no_kernels() -> None:
    joined = join([launch("Memset")], table(("Memset", 1, 1), category="gpu_memset"))
    assert joined.unmatched == ("Memset",)


@pytest.mark.parametrize(
    ("compute", "memory", "limit"),
    [
        (59.9, 59.9, Limit.LATENCY),
        (0.0, 0.0, Limit.LATENCY),
        (60.0, 20.0, Limit.COMPUTE),
        (20.0, 60.0, Limit.MEMORY),
        (69.9, 60.0, Limit.BOTH),
        (70.0, 60.0, Limit.COMPUTE),
        (55.0, 64.9, Limit.BOTH),
        (97.0, 85.0, Limit.COMPUTE),
        (None, 60.0, Limit.MEMORY),
        (60.0, None, Limit.COMPUTE),
        (None, 59.0, None),
        (59.0, None, None),
        (None, None, None),
    ],
)
def test_what_limits_a_kernel(
    compute: float | None, memory: float | None, limit: Limit | None
) -> None:
    assert limit_of(compute, memory) is limit


def row_of(trace: Trace, name: str) -> int:
    return [trace.name_of(row) for row in range(len(trace))].index(name)


def names(trace: Trace, rows: Any) -> list[str]:
    return [trace.name_of(int(row)) for row in rows]


def test_calls_lead_to_kernels_and_back() -> None:
    trace = trace_of(
        cpu("linear", 0, 50),
        call("cudaMalloc", 5, 2, correlation=1),
        call("cudaLaunchKernel", 10, 5, correlation=2),
        call("cudaGraphLaunch", 60, 5, correlation=3),
        gpu("gemm", 100, 5, 2),
        gpu("second", 130, 5, 3),
        gpu("first", 120, 5, 3, stream=20),
        gpu("alone", 140, 5),
        gpu("lost", 150, 5, 9),
    )
    launches = Launches(trace)
    for name in ("linear", "cudaLaunchKernel"):
        assert names(trace, launches.launched(row_of(trace, name))) == ["gemm"]
    assert names(trace, launches.launched(row_of(trace, "cudaGraphLaunch"))) == ["first", "second"]
    for nothing in ("cudaMalloc", "gemm"):
        assert not len(launches.launched(row_of(trace, nothing)))
    assert launches.launching(row_of(trace, "gemm")) == row_of(trace, "cudaLaunchKernel")
    assert launches.launching(row_of(trace, "first")) == row_of(trace, "cudaGraphLaunch")
    for nothing in ("alone", "lost", "linear", "cudaLaunchKernel"):
        assert launches.launching(row_of(trace, nothing)) == NONE


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["op", "call", "kernel"]),
            st.integers(0, 40),
            st.integers(0, 30),
            st.integers(-1, 4),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_the_same_as_asking_every_row(events: list[tuple[str, int, int, int]]) -> None:
    make: dict[str, Callable[[int, int, int], Event]] = {
        "op": lambda start, length, _: cpu("op", start, length),
        "call": lambda start, length, number: call("call", start, length, correlation=number),
        "kernel": lambda start, length, number: gpu("kernel", start, length, number),
    }
    trace = trace_of(*(make[kind](*about) for kind, *about in events))
    launches, work, calls = Launches(trace), kinds.device_activity(trace), kinds.launches(trace)
    ids, everything = trace.correlation.tolist(), range(len(trace))
    for row in everything:
        found = launches.launching(row)
        same = [one for one in everything if calls[one] and work[row] and ids[one] == ids[row]]
        assert found == (same[0] if same and ids[row] != NONE else NONE)
        end = int(trace.start[row] + trace.duration[row])
        inside = [
            one
            for one in everything
            if one >= row and trace.track[one] == trace.track[row] and trace.start[one] <= end
        ]
        joined = [
            one
            for one in inside
            if ids[one] != NONE and any(work[k] and ids[k] == ids[one] for k in everything)
        ]
        expected = []
        if joined and not work[row]:
            expected = [k for k in everything if work[k] and ids[k] == ids[joined[0]]]
        assert sorted(launches.launched(row).tolist()) == expected


HALF = "c10::BFloat16"


def called(kind: str, *sizes: list[int], texts: tuple[str, ...] = ()) -> dict[str, Any]:
    """Arguments of an event, as Kineto writes them."""
    return {
        "Input Dims": list(sizes),
        "Input type": [kind if size else "Scalar" for size in sizes],
        "Concrete Inputs": list(texts),
    }


def test_a_product_takes_two_operations_for_each_pair_and_moves_three_matrices() -> None:
    work = work_of("aten::mm", called("float", [4, 8], [8, 16]))
    assert work == Work(2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16))
    work = work_of("aten::addmm", called(HALF, [16], [4, 8], [8, 16], [], []))
    assert work == Work(2 * 4 * 8 * 16, 2 * (16 + 4 * 8 + 8 * 16 + 4 * 16))
    work = work_of("aten::bmm", called(HALF, [3, 4, 8], [3, 8, 16]))
    assert work == Work(2 * 3 * 4 * 8 * 16, 2 * 3 * (4 * 8 + 8 * 16 + 4 * 16))


def test_a_convolution_counts_the_spots_of_its_output() -> None:
    texts = ("", "", "[1, 1]", "[2, 2]", "[1, 1]", "1")
    sizes = ([2, 3, 8, 8], [5, 3, 3, 3])
    work = work_of("aten::cudnn_convolution", called("float", *sizes, [], [], [], [], texts=texts))
    # Four spots a side: (8 + 2 - 2 - 1) // 2 + 1.
    assert work == Work(2 * 2 * 4 * 4 * 5 * 27, 4 * (2 * 3 * 64 + 5 * 27 + 2 * 16 * 5))
    backward = called(
        "float", [2, 5, 4, 4], *sizes, *([[]] * 8), texts=("",) * 10 + ("[True, True, False]",)
    )
    found = work_of("aten::convolution_backward", backward)
    assert found is not None
    assert found.flops == 2 * 2 * 2 * 4 * 4 * 5 * 27


def test_causal_attention_counts_half_of_the_pairs() -> None:
    heads = [[2, 4, 16, 8]] * 3
    plain = work_of("aten::_cudnn_attention_forward", called(HALF, *heads))
    assert plain is not None
    assert plain.flops == 2 * 2 * (2 * 4 * 16) * 16 * 8
    causal = called(HALF, *heads, texts=("",) * 10 + ("True",))
    half = work_of("aten::_cudnn_attention_forward", causal)
    assert half is not None
    assert half.flops == plain.flops // 2
    packed = called(HALF, *heads, [], [5])
    assert work_of("aten::_cudnn_attention_forward", packed) is None


@pytest.mark.parametrize(
    ("operator", "sizes", "elements"),
    [
        ("aten::mul", ([4, 4], [4]), 16 + 4 + 16),
        ("aten::add_", ([4, 4], [4, 4]), 16 + 16 + 16),
        ("aten::mul", ([4, 4], [], [4, 4]), 16 + 16),
        ("aten::clamp_min", ([4, 4], [], [4, 4]), 16 + 16),
        ("aten::copy_", ([4, 4], [4]), 16 + 4),
        ("aten::fill_", ([4, 4], []), 16),
        ("aten::sum", ([4, 4], []), 16),
        ("aten::gather", ([4, 4], [], [2, 4]), 0),
        ("aten::embedding", ([4, 4], [2]), 0),
        ("aten::max_pool2d_with_indices", ([4, 4], []), 16),
        ("triton_red_fused_add", ([4, 4], [4, 4]), 16 + 16),
        ("triton_poi_fused_embedding_add", ([4, 4], [4, 4]), 0),
        ("triton_tem_fused_mm", ([4, 4], [4, 4]), 0),
    ],
)
def test_other_operators_move_what_they_read_and_write(
    operator: str, sizes: tuple[list[int], ...], elements: int
) -> None:
    """What a call is given to write to is not read; lookups and unknown operators say nothing."""
    assert work_of(operator, called("float", *sizes)) == Work(0, 4 * elements)


def test_statistics_of_a_batch_need_it_read_twice() -> None:
    sizes = [[4, 8], [8]]
    assert work_of("aten::native_batch_norm", called("float", *sizes)) == Work(0, 4 * 3 * 32)
    old = called("float", *sizes, [], [], [], [], texts=("",) * 5 + ("False",))
    assert work_of("aten::native_batch_norm", old) == Work(0, 4 * 2 * 32)
    backward = called("float", [4, 8], [4, 8], [8])
    assert work_of("aten::native_batch_norm_backward", backward) == Work(0, 4 * 5 * 32)


def test_a_comparison_writes_a_byte_for_each_element() -> None:
    assert work_of("aten::gt", called("float", [4, 4], [])) == Work(0, 4 * 16 + 16)


def test_an_expanded_input_is_read_once() -> None:
    arguments = called("float", [4, 8], [4, 8])
    arguments["Input Strides"] = [[8, 1], [0, 1]]
    assert work_of("aten::add", arguments) == Work(0, 4 * (32 + 8 + 32))
    arguments = called(HALF, [3, 4, 8], [3, 8, 16])
    arguments["Input Strides"] = [[32, 8, 1], [0, 16, 1]]
    work = work_of("aten::bmm", arguments)
    assert work == Work(2 * 3 * 4 * 8 * 16, 2 * (3 * 4 * 8 + 8 * 16 + 3 * 4 * 16))


SIDES = st.lists(st.integers(0, 4), max_size=4)


@given(SIDES, st.data())
def test_no_element_in_memory_is_left_out_and_none_of_an_expanded_tensor_counts_twice(
    sides: list[int], data: st.DataObject
) -> None:
    steps = data.draw(st.lists(st.integers(0, 9), min_size=len(sides), max_size=len(sides)))
    places = product(*(range(side) for side in sides))
    found = {sum(at * step for at, step in zip(place, steps, strict=True)) for place in places}
    assert Tensor.of(sides, steps, "float").stored >= 4 * len(found)
    kept = [data.draw(st.booleans()) for _ in sides]
    whole = [prod(s for s, k in zip(sides[i + 1 :], kept[i + 1 :], strict=True) if k)
             for i in range(len(sides))]  # fmt: skip
    expanded = [step if keep else 0 for step, keep in zip(whole, kept, strict=True)]
    places = product(*(range(side) for side in sides))
    found = {sum(at * step for at, step in zip(place, expanded, strict=True)) for place in places}
    assert Tensor.of(sides, expanded, "float").stored == 4 * len(found)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"Input Dims": [], "Input type": []},
        {"Input Dims": "4, 8", "Input type": ["float"]},
        called("float", [4]),
        {"Input Dims": [[[4], [8]]], "Input type": ["TensorList"]},
    ],
)
def test_what_tells_no_sizes_has_no_work(arguments: dict[str, Any]) -> None:
    assert work_of("aten::mm", arguments) is None


@given(
    st.sampled_from(["aten::mm", "aten::convolution_backward", "aten::_flash_attention_forward"]),
    st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4),
    st.lists(st.sampled_from(["", "[1, 1]", "True", "x"]), max_size=12),
)
def test_sizes_of_any_form_are_read_or_refused(
    operator: str, sizes: list[list[int]], texts: list[str]
) -> None:
    work = work_of(operator, called("float", *sizes, texts=tuple(texts)))
    assert work is None or (work.flops >= 0 and work.bytes >= 0)
