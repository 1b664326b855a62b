"""Traces of devices that are not NVIDIA's: launches lead to kernels, waits and allocations show."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from perftui.analysis import kinds
from perftui.analysis.analyse import analyse
from perftui.analysis.model import GapCause
from perftui.analysis.ops.calls import link
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import NONE
from tests.traces.events import cpu, gpu, mark, trace_of


@dataclass(frozen=True)
class Flavour:
    """How one backend of the profiler names its calls."""

    category: str
    launch: str
    wait: str
    allocation: str
    wait_category: str = ""


FLAVOURS = {
    "cuda": Flavour("cuda_runtime", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaMalloc"),
    "cuda per thread": Flavour(
        "cuda_runtime", "cudaLaunchKernel_ptsz", "cudaStreamSynchronize_ptsz", "cudaFreeAsync"
    ),
    "rocm": Flavour("cuda_runtime", "hipLaunchKernel", "hipMemcpyWithStream", "hipHostMalloc"),
    "rocm segments": Flavour("hip_runtime", "hipGraphLaunch", "hipEventSynchronize", "hipMemMap"),
    "xpu": Flavour("xpu_runtime", "urEnqueueKernelLaunch", "urQueueFinish", "urUSMDeviceAlloc"),
    "xpu driver": Flavour(
        "xpu_driver",
        "zeCommandListAppendLaunchKernel",
        "zeCommandQueueSynchronize",
        "zeMemAllocDevice",
    ),
    "xpu waits": Flavour(
        "xpu_runtime",
        "urEnqueueKernelLaunchWithArgsExp",
        "zeEventHostSynchronize",
        "urUSMFree",
        "xpu_sync",
    ),
    "mtia": Flavour(
        "mtia_runtime", "runFunction - job_prep_and_submit_for_execution", "synchronizeStream", ""
    ),
    "privateuse1": Flavour("privateuse1_runtime", "musaLaunchKernel", "musaStreamSynchronize", ""),
    "privateuse1 driver": Flavour("privateuse1_driver", "launch", "muStreamSynchronize", ""),
    "hpu": Flavour("hpu_op", "synLaunch", "synStreamSynchronize", ""),
}


@pytest.fixture(params=FLAVOURS.values(), ids=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    found: Flavour = request.param
    return found


def test_a_launch_leads_to_its_kernel_and_operator(flavour: Flavour) -> None:
    trace = trace_of(
        cpu("aten::mm", 0, 20),
        cpu(flavour.launch, 5, 5, flavour.category, correlation=3),
        gpu("gemm", 30, 10, 3),
    )
    links = link(trace)
    assert [trace.name_of(row) for row in links.launch.tolist()] == [flavour.launch]
    assert [trace.name_of(row) for row in links.operator.tolist()] == ["aten::mm"]
    assert analyse(trace).activity[0].unlinked == 0


def test_a_wait_explains_the_pause_behind_it(flavour: Flavour) -> None:
    trace = trace_of(
        mark("ProfilerStep#1", 0, 300),
        cpu(flavour.launch, 2, 5, flavour.category, correlation=1),
        cpu(flavour.wait, 10, 102, flavour.wait_category or flavour.category),
        cpu(flavour.launch, 190, 5, flavour.category, correlation=2),
        gpu("first", 10, 100, 1),
        gpu("second", 200, 10, 2),
    )
    gap = next(gap for gap in analyse(trace).gaps if gap.previous_row != NONE)
    assert (gap.cause, gap.duration) == (GapCause.SYNCHRONISATION, 90_000)
    assert trace.name_of(gap.wait_row) == flavour.wait


@pytest.mark.parametrize("name", [name for name, each in FLAVOURS.items() if each.allocation])
def test_memory_from_the_driver_is_allocation(name: str) -> None:
    flavour = FLAVOURS[name]
    trace = trace_of(
        cpu(flavour.launch, 0, 5, flavour.category, correlation=1),
        cpu(flavour.allocation, 10, 50, flavour.category),
    )
    rows = np.flatnonzero(kinds.allocating(trace))
    assert [trace.name_of(row) for row in rows.tolist()] == [flavour.allocation]


@pytest.mark.parametrize(
    "name",
    [
        "cudaMemcpyAsync",
        "hipMemcpyAsync",
        "cudaStreamWaitEvent",
        "cudaEventRecord",
        "urEnqueueEventsWait",
        "zeCommandListAppendBarrier",
        "zeEventQueryStatus",
        "recordEvent",
    ],
)
def test_calls_that_return_at_once_are_no_waits(name: str) -> None:
    trace = trace_of(*(cpu(name, 0, 5, flavour.category) for flavour in FLAVOURS.values()))
    assert not kinds.synchronising(trace).any()


def test_of_a_driver_call_within_a_runtime_call_the_outer_one_is_the_launch() -> None:
    trace = trace_of(
        cpu("zeCommandListAppendLaunchKernel", 6, 2, "xpu_driver", correlation=3),
        cpu("urEnqueueKernelLaunch", 5, 5, "xpu_runtime", correlation=3),
        gpu("gemm", 30, 10, 3),
    )
    assert [trace.name_of(row) for row in link(trace).launch] == ["urEnqueueKernelLaunch"]


def test_waits_that_the_file_gives_no_thread_are_those_of_any() -> None:
    """As Kineto writes them for Intel's GPUs: on process -1."""
    wait = {**cpu("zeEventHostSynchronize", 10, 102, "xpu_sync", tid=77), "pid": -1}
    trace = trace_of(
        mark("ProfilerStep#1", 0, 300),
        cpu("urEnqueueKernelLaunch", 2, 5, "xpu_runtime", correlation=1),
        wait,
        cpu("urEnqueueKernelLaunch", 190, 5, "xpu_runtime", correlation=2),
        gpu("first", 10, 100, 1),
        gpu("second", 200, 10, 2),
    )
    gap = next(gap for gap in analyse(trace).gaps if gap.previous_row != NONE)
    assert gap.cause is GapCause.SYNCHRONISATION


@pytest.mark.parametrize("name", ["ncclDevKernel_AllReduce", "oneccl_allreduce", "xccl::reduce"])
def test_kernels_of_communication_libraries_are_known(name: str) -> None:
    trace = trace_of(gpu(name, 0, 5, 1), gpu("gemm", 10, 5, 2))
    assert kinds.communication(trace).sum() == 1


def of_mtia(name: str, ts: float, dur: float, stream: int, **args: Any) -> dict[str, Any]:
    """What a device of MTIA does: process and thread are device and stream."""
    return {**gpu(name, ts, dur, cat="mtia_ccp_events"), "pid": 9, "tid": stream, "args": args}


def test_operators_that_an_mtia_device_runs_are_kernels_and_its_transfers_copies() -> None:
    found = analyse(
        trace_of(
            cpu("aten::addmm", 0, 8),
            cpu("runFunction - job_prep", 2, 5, "mtia_runtime", correlation=1),
            of_mtia("fc-dtype_Float", 10, 50, 102, correlation=1),
            of_mtia("dma_request", 55, 15, 801),
            of_mtia("event_wait", 70, 9, 102),
        )
    )
    (device,) = found.activity
    assert (device.device, device.kernel_count, device.memcpy_count) == (9, 1, 1)
    assert device.busy == 60_000
    assert dict(zip(found.ops.names, found.ops.device_total.tolist(), strict=True)) == {
        "aten::addmm": 50_000
    }


def test_commands_of_mtia_firmware_are_drawn_on_the_device_and_are_no_kernels() -> None:
    trace = trace_of(
        cpu("runFunction - job_prep_and_submit_for_execution", 0, 5, "mtia_runtime"),
        {**gpu("pe_exe", 10, 5, cat="mtia_ccp_events", stream=108), "pid": 17, "args": {}},
        {**gpu("dma_request", 16, 5, cat="mtia_ccp_events", stream=108), "pid": 17, "args": {}},
    )
    assert kinds.on_cpu(trace).tolist().count(True) == 1
    assert [track.kind for track in timeline_tracks(trace)] == ["marks", "thread"]
    assert link(trace).activity.tolist() == []
    assert kinds.devices(trace).max() == 17 != NONE
