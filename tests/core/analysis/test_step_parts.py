"""What a step is split into, why a device idles, and steps on its clock."""

from typing import Any

import pytest

from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.trace.model import NONE
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import analysis_of, call, cpu, frame, gpu, mark

Event = dict[str, Any]


def parts(analysis: TraceAnalysis, index: int = 0) -> dict[str, int]:
    """Parts that are not 0, in us."""
    budget = analysis.step_parts[index]
    return {name: length // 1000 for name, length in budget.parts if length}


def between_kernels(
    *meanwhile: Event, launch: float = 190, step: str = "ProfilerStep#1"
) -> list[Event]:
    """A step of 300 us: kernels at 10-20 and 200-210, the second launched at ``launch``."""
    return [
        mark(step, 0, 300),
        call("cudaLaunchKernel", 2, 5, correlation=1),
        call("cudaLaunchKernel", launch, 5, correlation=2),
        gpu("first", 10, 10, 1),
        gpu("second", 200, 10, 2),
        *meanwhile,
    ]


def only_gap(analysis: TraceAnalysis) -> Gap:
    """The gap between two activities."""
    inner = [gap for gap in analysis.gaps if NONE not in (gap.previous_row, gap.next_row)]
    assert len(inner) == 1
    return inner[0]


@pytest.mark.parametrize(
    ("name", "category", "cause"),
    [
        ("perftui::input_wait", "user_annotation", GapCause.INPUT_WAIT),
        ("enumerate(DataLoader)#_Iter.__next__", "user_annotation", GapCause.INPUT_WAIT),
        ("enumerate(DataLoader)#_Iter.__next__", "cpu_op", GapCause.INPUT_WAIT),
        ("cudaStreamSynchronize", "cuda_runtime", GapCause.SYNCHRONISATION),
        ("cudaDeviceSynchronize", "cuda_runtime", GapCause.SYNCHRONISATION),
        ("hipDeviceSynchronize", "cuda_runtime", GapCause.SYNCHRONISATION),
        ("cudaMemcpy", "cuda_runtime", GapCause.SYNCHRONISATION),
        ("aten::item", "cpu_op", GapCause.SYNCHRONISATION),
        ("aten::nonzero", "cpu_op", GapCause.SYNCHRONISATION),
        ("cudaMalloc", "cuda_runtime", GapCause.ALLOCATION),
        ("hipFree", "cuda_runtime", GapCause.ALLOCATION),
        ("cuMemCreate", "cuda_driver", GapCause.ALLOCATION),
        ("cuMemSetAccess", "cuda_driver", GapCause.ALLOCATION),
        ("cuMemcpyDtoH_v2", "cuda_driver", GapCause.SYNCHRONISATION),
        ("cuMemsetD32Async", "cuda_driver", GapCause.LAUNCH),
        ("cudaHostRegister", "cuda_runtime", GapCause.ALLOCATION),
        # Long without calling anything: it computes, but a view has only been interrupted.
        ("aten::add", "cpu_op", GapCause.CPU_OPERATORS),
        ("aten::t", "cpu_op", GapCause.LAUNCH),
        ("MyFunction", "cpu_op", GapCause.LAUNCH),
        ("autograd::engine::evaluate_function: AddBackward0", "cpu_op", GapCause.LAUNCH),
        ("cudaGetDevice", "cuda_runtime", GapCause.LAUNCH),
        ("cudaMemcpyAsync", "cuda_runtime", GapCause.SYNCHRONISATION),
        ("cuModuleLoadDataEx", "cuda_driver", GapCause.INITIALISATION),
        ("_compile.compile_inner (dynamo_timed)", "cpu_op", GapCause.COMPILATION),
        ("perftui::profiler", "user_annotation", GapCause.PROFILER),
        ("Activity Buffer Request", "overhead", GapCause.PROFILER),
        ("train.py(12): step", "python_function", GapCause.PYTHON),
        ("perftui::forward", "user_annotation", GapCause.PYTHON),
    ],
)
def test_the_launching_thread_says_why_the_device_idles(
    name: str, category: str, cause: GapCause
) -> None:
    analysis = analysis_of(*between_kernels(cpu(name, 30, 150, category)))
    gap = only_gap(analysis)
    assert (gap.cause, gap.start, gap.end) == (cause, 20_000, 200_000)
    trace = analysis.trace
    assert [trace.name_of(row) for row in (gap.previous_row, gap.next_row, gap.launch_row)] == [
        "first",
        "second",
        "cudaLaunchKernel",
    ]


def test_idle_time_is_split_to_the_microsecond() -> None:
    analysis = analysis_of(
        *between_kernels(
            mark("enumerate(DataLoader)#_Iter.__next__", 30, 60),
            cpu("aten::copy_", 40, 20),
            cpu("aten::item", 100, 40),
            call("cudaMalloc", 110, 10),
            cpu("aten::add", 150, 30),
        )
    )
    assert parts(analysis) == {
        "gpu compute": 20,
        "data loader wait": 60,
        "synchronisation": 30,
        "allocation": 10,
        # aten::add, both launch calls with the wait for their kernels, and short pauses of Python.
        "launch-bound": 30 + 8 + 10 + 2 + 10 + 10 + 10 + 10,
        "python": 90,
    }
    gap = only_gap(analysis)
    assert gap.cause == GapCause.LAUNCH
    assert gap.phase == "input_wait"


def test_a_kernel_that_was_queued_in_time_is_not_the_hosts_fault() -> None:
    analysis = analysis_of(*between_kernels(cpu("aten::item", 30, 150), launch=12))
    assert only_gap(analysis).cause == GapCause.QUEUED
    # The call ends at 17; 50 us later the kernel should have begun.
    assert parts(analysis)["queue wait"] == 200 - 67


AROUND = 2 + 8 + 30 + 10
"""us of launching in ``late``: before and in the first launch, until something happens at 50 us,
and from the last launch on."""


def late(*meanwhile: Event, launch: float) -> TraceAnalysis:
    """A step of 200 ms: kernels at 10 us and 190 ms, the second launched at ``launch`` us."""
    return analysis_of(
        mark("ProfilerStep#1", 0, 200_000),
        call("cudaLaunchKernel", 2, 5, correlation=1),
        gpu("first", 10, 10, 1),
        *meanwhile,
        call("cudaLaunchKernel", launch, 5, correlation=2),
        gpu("second", 190_000, 10, 2),
    )


@pytest.mark.parametrize(
    ("name", "lasting", "cause"),
    [
        ("cudaLaunchKernel", 999, GapCause.LAUNCH),
        ("cudaLaunchKernel", 1_000, GapCause.INITIALISATION),
        ("cudaStreamCreateWithFlags", 1_000, GapCause.INITIALISATION),
        ("cudaGraphLaunch", 1_000, GapCause.LAUNCH),
        ("cudaMemcpyAsync", 99, GapCause.LAUNCH),
        ("cudaMemcpyAsync", 1_000, GapCause.SYNCHRONISATION),
        ("cudaMalloc", 49_999, GapCause.ALLOCATION),
        ("cudaFree", 50_000, GapCause.INITIALISATION),
        ("cudaHostAlloc", 50_000, GapCause.ALLOCATION),
    ],
)
def test_calls_that_take_long_do_something_else(name: str, lasting: int, cause: GapCause) -> None:
    found = parts(late(call(name, 50, lasting), launch=189_990))
    launching = AROUND
    if cause is GapCause.LAUNCH:
        assert found[cause.value] == lasting + launching
    else:
        assert (found[cause.value], found["launch-bound"]) == (lasting, launching)


@pytest.mark.parametrize(
    ("name", "calls", "lasting", "cause"),
    [
        ("aten::normal_", False, 99, GapCause.LAUNCH),
        ("aten::normal_", False, 100, GapCause.CPU_OPERATORS),
        ("aten::cudnn_convolution", True, 4_999, GapCause.LAUNCH),
        ("aten::cudnn_convolution", True, 5_000, GapCause.INITIALISATION),
        ("MyFunction", True, 999, GapCause.LAUNCH),
        ("MyFunction", True, 1_000, GapCause.CPU_OPERATORS),
        ("MyFunctionBackward", True, 1_000, GapCause.CPU_OPERATORS),
        ("AddBackward0", True, 1_000, GapCause.LAUNCH),
    ],
)
def test_operators_that_are_silent_for_long_do_not_launch(
    name: str, calls: bool, lasting: int, cause: GapCause
) -> None:
    within = [call("cudaLaunchKernel", 50 + lasting, 5)] if calls else []
    silent = cpu(name, 50, lasting + (5 if calls else 0))
    found = parts(late(silent, *within, launch=189_990))
    launching = AROUND + (5 if calls else 0)
    if cause is GapCause.LAUNCH:
        assert found[cause.value] == lasting + launching
    else:
        assert (found[cause.value], found["launch-bound"]) == (lasting, launching)


@pytest.mark.parametrize(("pause", "cause"), [(49, "launch-bound"), (50, "python")])
def test_a_short_pause_of_python_is_on_the_way_to_the_next_operator(pause: int, cause: str) -> None:
    found = parts(late(cpu("aten::t", 50, 10), cpu("aten::t", 60 + pause, 10), launch=189_990))
    alone = parts(late(cpu("aten::t", 50, 20), launch=189_990))
    assert found[cause] == alone[cause] + (pause if cause == "launch-bound" else 0)


def test_an_operator_made_of_many_is_no_computing() -> None:
    views = [cpu("aten::reshape", 50 + 50 * index, 40) for index in range(20)]
    found = parts(late(cpu("aten::unflatten_dense_tensors", 50, 1_000), *views, launch=189_990))
    assert found["launch-bound"] == 1_000 + AROUND


def test_a_wait_takes_what_the_device_idles_after_it_as_far_as_it_lasted() -> None:
    """The host waits from 8 to 22, the device falls idle at 20: 12 us of what follows."""
    wait = call("cudaStreamSynchronize", 8, 14)
    analysis = analysis_of(*between_kernels(wait, mark("perftui::input_wait", 24, 3)))
    # From 20 to 32, but for the 3 us that are the fetch's.
    assert parts(analysis)["synchronisation"] == 9
    assert parts(analysis)["data loader wait"] == 3
    assert parts(analysis)["python"] == (190 - 32) + 90
    wait = call("cudaStreamSynchronize", 30, 14)
    assert parts(analysis_of(*between_kernels(wait)))["synchronisation"] == 14


def test_a_wait_before_a_long_pause_makes_it_synchronisation() -> None:
    events = [
        mark("ProfilerStep#1", 0, 300),
        call("cudaLaunchKernel", 2, 5, correlation=1),
        cpu("aten::item", 10, 102),
        call("cudaLaunchKernel", 190, 5, correlation=2),
        gpu("first", 10, 100, 1),
        gpu("second", 200, 10, 2),
    ]
    analysis = analysis_of(*events)
    gap = only_gap(analysis)
    assert (gap.cause, gap.duration) == (GapCause.SYNCHRONISATION, 90_000)
    assert analysis.trace.name_of(gap.wait_row) == "aten::item"


def test_a_wait_is_named_by_the_operator_around_the_waiting_call() -> None:
    events = [
        mark("ProfilerStep#1", 0, 300),
        call("cudaLaunchKernel", 2, 5, correlation=1),
        cpu("aten::to", 8, 104),
        cpu("aten::copy_", 9, 102),
        call("cudaStreamSynchronize", 10, 100),
        cpu("aten::add", 115, 80),
        call("cudaLaunchKernel", 190, 4, correlation=2),
        gpu("first", 10, 98, 1),
        gpu("second", 200, 10, 2),
    ]
    analysis = analysis_of(*events)
    gap = only_gap(analysis)
    assert gap.cause == GapCause.SYNCHRONISATION
    assert analysis.trace.name_of(gap.wait_row) == "aten::copy_"
    assert analysis.trace.name_of(gap.operator_row) == "aten::add"


def test_a_range_that_partly_overlaps_calls_is_found_around_a_gap() -> None:
    """A step that ends inside ``profiler.step``, as in every trace with stacks."""
    ending = frame("torch/profiler/profiler.py(811): step", 290, 50)
    analysis = analysis_of(*between_kernels(ending, frame("train.py(3): main", 1, 285)))
    assert analysis.trace.name_of(only_gap(analysis).operator_row) == "ProfilerStep#1"


def test_an_operator_is_found_behind_a_range_that_partly_overlaps_it() -> None:
    events = [
        cpu("aten::outer", 0, 100),
        cpu("aten::inner", 38, 4),
        mark("partly", 40, 5),
        call("cudaLaunchKernel", 2, 1, correlation=1),
        call("cudaLaunchKernel", 96, 1, correlation=2),
        gpu("first", 10, 5, 1),
        gpu("second", 99, 5, 2),
    ]
    analysis = analysis_of(*events)
    assert analysis.trace.name_of(only_gap(analysis).operator_row) == "aten::outer"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Activity Buffer Request", GapCause.PROFILER),
        ("Buffer Flush", GapCause.PROFILER),
        ("Lazy Function Loading", GapCause.INITIALISATION),
        ("Command Buffer Full", GapCause.PYTHON),
    ],
)
def test_the_profilers_own_work_is_found_though_its_thread_is_not_known(
    name: str, cause: GapCause
) -> None:
    overhead = {**cpu(name, 40, 130, "overhead"), "pid": -1, "tid": 0}
    gap = only_gap(analysis_of(*between_kernels(overhead)))
    assert gap.cause is cause


def test_kernels_without_a_launch_that_run_during_a_wait_were_queued() -> None:
    """The host waits from 30 to 250, so that it cannot have launched anything for 200."""
    wait = call("cudaDeviceSynchronize", 30, 220)
    events = [
        event
        for event in between_kernels(wait)
        if event["args"].get("correlation") != 2 or event["cat"] == "kernel"
    ]
    assert parts(analysis_of(*events)) == {
        "gpu compute": 20,
        "launch-bound": 8 + 2 + 10,
        "synchronisation": 40,
        "python": 50,
        "unexplained": 170,
    }


def test_one_instant_has_nothing_to_split_and_without_a_cpu_side_nothing_is_explained() -> None:
    analysis = analysis_of(gpu("first", 10, 0, 1), cpu("aten::add", 10, 0))
    assert (analysis.gaps, parts(analysis)) == ((), {})
    assert [each.kernel_count for each in analysis.activity] == [1]
    analysis = analysis_of(gpu("a", 0, 10), gpu("b", 60, 10))
    assert only_gap(analysis).cause == GapCause.UNEXPLAINED
    assert parts(analysis) == {"gpu compute": 20, "unexplained": 50}
    assert any("no CPU activity" in note for note in analysis.notes)
    assert any("not in the trace" in note for note in analysis.notes)


def test_while_the_engines_thread_is_silent_the_main_thread_counts() -> None:
    events = [
        mark("ProfilerStep#1", 0, 300),
        mark("enumerate(DataLoader)#_Iter.__next__", 30, 100),
        cpu("AddmmBackward0", 150, 45, tid=2),
        call("cudaLaunchKernel", 190, 5, tid=2, correlation=2),
        gpu("first", 10, 10, 1),
        gpu("second", 200, 10, 2),
    ]
    gap = only_gap(analysis_of(*events))
    assert gap.cause == GapCause.INPUT_WAIT


def test_while_the_main_thread_waits_for_the_engine_its_threads_count() -> None:
    """The main thread launches next; backward's last call holds it up."""
    events = between_kernels(
        cpu("autograd::engine::evaluate_function: MulBackward0", 22, 158, tid=2),
        {**call("hipFree", 25, 150), "tid": 2},
    )
    gap = only_gap(analysis_of(*events))
    assert gap.cause == GapCause.ALLOCATION


def test_work_from_before_the_recording_was_queued() -> None:
    early = [gpu("earlier", 0, 1, 77), gpu("earlier", 100, 1, 78)]
    assert parts(late(*early, launch=189_990)).get("queue wait") is None
    first = gpu("first linked", 150, 10, 3)
    events = [mark("ProfilerStep#1", 0, 300), call("cudaLaunchKernel", 140, 5, correlation=3)]
    assert parts(analysis_of(*events, first, *early))["queue wait"] == 99


def test_idle_time_at_the_edges_is_listed_and_pieces_below_a_microsecond_are_counted() -> None:
    analysis = analysis_of(
        mark("ProfilerStep#1", 0, 100),
        gpu("first", 20, 10),
        gpu("second", 30.9, 10),
        gpu("third", 50, 10),
    )
    assert [(gap.start, gap.end) for gap in analysis.gaps] == [
        (60_000, 100_000),
        (0, 20_000),
        (40_900, 50_000),
    ]
    assert [gap.previous_row == NONE for gap in analysis.gaps] == [False, True, False]
    assert [gap.next_row == NONE for gap in analysis.gaps] == [True, False, False]
    assert "1 gap below 1.0 µs, 900 ns in all, is not listed" in analysis.notes


def test_a_gap_names_the_operator_over_most_of_it_or_only_the_step() -> None:
    around = [mark("perftui::forward", 5, 180), cpu("aten::conv2d", 25, 160)]
    inner = [cpu("aten::small", 60, 30), call("cudaFuncSetAttribute", 100, 20)]
    analysis = analysis_of(*between_kernels(*around, *inner))
    gap = only_gap(analysis)
    assert analysis.trace.name_of(gap.operator_row) == "aten::conv2d"
    assert gap.phase == "forward"
    analysis = analysis_of(*between_kernels())
    assert analysis.trace.name_of(only_gap(analysis).operator_row) == "ProfilerStep#1"
    bare = analysis_of(*between_kernels(step="user code")[1:])
    assert only_gap(bare).operator_row == NONE
    assert only_gap(bare).phase == ""


def test_communication_and_copies_count_only_where_exposed() -> None:
    analysis = analysis_of(
        gpu("gemm", 0, 10),
        gpu("ncclDevKernel_AllReduce", 5, 15, stream=8),
        gpu("Memcpy DtoH", 8, 20, cat="gpu_memcpy", stream=9),
        gpu("Memset", 30, 5, cat="gpu_memset"),
    )
    assert parts(analysis) == {
        "gpu compute": 15,
        "exposed communication": 10,
        "exposed copies": 8,
        "unexplained": 2,
    }


@pytest.mark.parametrize(
    ("name", "communicates"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", True),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", True),
        ("void mscclKernel_Sum_half_LL", True),
        ("void dpsk::ep::intranode::dispatch<8, 768>", True),
        ("void deep_ep::internode_ll::combine<true>", True),
        ("nvshmemi_transfer_rma_nbi", True),
        ("multimem_all_reduce_kernel<c10::BFloat16, 16>", True),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>", True),
        ("flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport", True),
        ("void two_shot_all_reduce_kernel_inplace<float>", True),
        ("oneShotAllReduceKernel", True),
        ("void userbuffers_fp16_sum_inplace_gpu_rw<8>", True),
        ("void oneflow::BlockAllReduce<float>", False),
        ("void reduce_kernel<512, 1, ReduceOp<float>>", False),
        ("void softmax_warp_forward<float, WarpAllReduce>", False),
        ("void step::ep_kernel", False),
    ],
)
def test_every_librarys_collectives_are_communication(name: str, communicates: bool) -> None:
    found = parts(analysis_of(gpu(name, 0, 10)))
    assert found == {"exposed communication" if communicates else "gpu compute": 10}


def test_the_busiest_of_several_devices_is_taken_and_said() -> None:
    analysis = analysis_of(gpu("a", 0, 10), gpu("b", 0, 30, device=1))
    assert parts(analysis) == {"gpu compute": 30}
    assert any("device 1" in note for note in analysis.notes)


def test_cpu_only_by_the_agents_marks() -> None:
    phases = ["input_wait", "forward", "backward", "optimizer"]
    marks = [mark(f"perftui::{phase}", 10 + 20 * i, 15 + i) for i, phase in enumerate(phases)]
    analysis = analysis_of(mark("ProfilerStep#0", 0, 100), cpu("op", 11, 3), *marks)
    assert parts(analysis) == {
        "input_wait": 15,
        "optimizer": 18,
        "backward": 17,
        "forward": 16,
        "other": 34,
    }
    assert "no GPU activity recorded" in analysis.notes


def test_cpu_only_by_what_pytorch_marks() -> None:
    analysis = analysis_of(
        mark("ProfilerStep#0", 0, 100),
        mark("enumerate(DataLoader)#_Iter.__next__", 0, 20),
        cpu("aten::stack", 5, 5),
        cpu("aten::linear", 25, 15),
        cpu("autograd::engine::evaluate_function: AddmmBackward0", 45, 20, tid=2),
        mark("Optimizer.step#SGD.step", 70, 10),
        cpu("aten::add_", 72, 5),
    )
    assert parts(analysis) == {
        "input_wait": 20,
        "optimizer": 10,
        "backward": 20,
        "operators": 15,
        "other": 35,
    }


def test_modules_in_stacks_are_the_forward_pass() -> None:
    analysis = analysis_of(
        mark("ProfilerStep#0", 0, 100),
        frame("train.py(3): main", 0, 100),
        frame("nn.Module: Net_0", 10, 30),
        frame("nn.Module: Linear_0", 12, 20),
        cpu("aten::linear", 13, 15),
        cpu("aten::cross_entropy_loss", 45, 5),
    )
    assert parts(analysis) == {"forward": 30, "operators": 5, "other": 65}
    assert not any("forward" in note for note in analysis.notes)


def test_phases_are_in_drawing_order_and_without_steps_the_whole_trace_is_one_budget() -> None:
    names = ("optimizer", "backward", "forward", "input_wait")
    marks = [mark(f"perftui::{name}", i, 1) for i, name in enumerate(names)]
    analysis = analysis_of(*marks)
    drawn = [name for name, _ in analysis.step_parts[0].parts]
    assert drawn == ["input_wait", "forward", "backward", "optimizer", "other"]
    analysis = analysis_of(cpu("aten::mm", 5, 20), cpu("aten::mm", 45, 10))
    assert analysis.steps == ()
    assert [budget.step.index for budget in analysis.step_parts] == [-1]
    assert parts(analysis) == {"operators": 30, "other": 20}
    assert any("no steps marked" in note for note in analysis.notes)


def ahead(steps: int, *, lasting: int = ms(40), host: int = ms(4)) -> TraceBuilder:
    """Steps that the host gets through ten times as fast as the device, and a wait behind them."""
    story = TraceBuilder()
    for _ in range(steps):
        story.step().launch("gemm", lasting).pause(host - us(5)).end()
    return story.sync()


def spans(story: TraceBuilder) -> list[tuple[int, int]]:
    return [(one.step.start, one.step.end) for one in story.analysis().step_parts]


def test_a_step_lasts_until_the_device_has_done_its_work() -> None:
    story = ahead(3)
    began = us(5)
    assert spans(story) == [
        (0, began + ms(40)),
        (began + ms(40), began + ms(80)),
        (began + ms(80), began + ms(120)),
    ]
    assert [step.duration for step in story.analysis().steps] == [ms(4)] * 3
    assert [dict(one.parts)["gpu compute"] for one in story.analysis().step_parts] == [ms(40)] * 3


def test_work_from_before_the_window_is_no_part_of_its_only_step() -> None:
    story = TraceBuilder().kernel("earlier", ms(30), starts=0)
    story.step().launch("gemm", ms(40)).pause(ms(4)).end().sync()
    ((start, end),) = spans(story)
    assert (start, end) == (ms(30), ms(70))


def test_a_host_that_the_device_waits_for_keeps_the_time() -> None:
    story = TraceBuilder()
    for _ in range(2):
        story.step().data_wait(ms(20)).launch("gemm", ms(2)).pause(ms(3)).end()
    steps = [(step.start, step.end) for step in story.analysis().steps]
    assert spans(story) == steps
    assert [dict(one.parts)["data loader wait"] for one in story.analysis().step_parts] == [
        ms(20),
        ms(20),
    ]


def test_steps_move_neither_by_copies_on_a_stream_nor_by_kernels_without_launches() -> None:
    story = TraceBuilder()
    for _ in range(2):
        story.step().copy("HtoD", ms(1), 4096, stream=9).launch("gemm", ms(40))
        story.all_reduce(ms(90)).end()
    assert [end - start for start, end in spans(story.sync())] == [us(10) + ms(40), ms(40)]
    story = TraceBuilder().step().launch("gemm", ms(1)).end()
    for _ in range(3):
        story.kernel("lost", ms(10))
    assert spans(story) == [(step.start, step.end) for step in story.analysis().steps]
