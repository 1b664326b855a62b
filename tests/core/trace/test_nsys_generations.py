"""One recording, as each generation of Nsight Systems exported it.

What differs is taken from: the reports shipped with 2021.1, the documentation of 2021.5, an export
of 2022.2 (schema 2.9.1), one of 2024.5 (schema 3.13.2), and the documented schema of 2026."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.analyse import analyse, device_name
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace
from tests.core.trace import nsys_exports as nsys

Tables = dict[str, nsys.Table]
STRINGS = {**nsys.STRINGS, 20: "MPI_Send", 21: "python"}
EPOCH = 1_700_000_000_000_000_000
NONE_32 = 2**32 - 1
KERNEL = (
    "start, end, deviceId, contextId, {green}streamId, correlationId, globalPid, demangledName, "
    "shortName, {mangled}launchType, cacheConfig, registersPerThread, gridX, gridY, gridZ, blockX, "
    "blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, "
    "localMemoryTotal, gridId, sharedMemoryExecuted, graphNodeId, sharedMemoryLimitConfig"
)
COPY = (
    "start, end, deviceId, contextId, {green}streamId, correlationId, globalPid, bytes, copyKind, "
    "deprecatedSrcId, srcKind, dstKind, srcDeviceId, srcContextId, dstDeviceId, dstContextId, "
    "migrationCause, graphNodeId, virtualAddress"
)
SET = (
    "start, end, deviceId, contextId, {green}streamId, correlationId, globalPid, value, bytes, "
    "graphNodeId, memKind"
)
NVTX = (
    "start, end, eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId, "
    "domainId, uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue, "
    "jsonTextId, jsonText"
)


def device_rows(*, green: bool, mangled: bool) -> Tables:
    """A kernel, a copy and a set, with the columns that a generation has."""
    context = (0, 1, *([None] if green else []))
    names = (5, 4, *([5] if mangled else []))
    columns = {"green": "greenContextId, " * green, "mangled": "mangledName, " * mangled}
    sizes = [*[0] * 6, None, 0]
    kernel = (1_500, 1_900, *context, 7, 11, nsys.process(), *names, 1, 0, 32, *[1] * 6, *sizes)
    copy = (2_000, 2_300, *context, 7, 12, nsys.process(), 4096, 1, None, 0, 2, *[None] * 7)
    made = (2_400, 2_450, *context, 7, 13, nsys.process(), 0, 256, None, 2)
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL.format(**columns), [kernel]),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (COPY.format(**columns), [copy]),
        "CUPTI_ACTIVITY_KIND_MEMSET": (SET.format(**columns), [made]),
    }


def ranges(*, mpi: bool, none: int | None = None) -> nsys.Table:
    """A named range, one with a registered text, a mark, one that never ends; MPI's if asked."""

    def row(start: int, end: int | None, kind: int, text: str | None, name: int | None) -> tuple:
        domain = 1 if name == 20 or text == "MPI" else 0
        said = "" if text is None and none == 0 else text
        names = said, nsys.thread(), none, none if name is None else name
        return (start, end, kind, *[none] * 3, *names, domain, *[none] * 8)

    rows = [
        row(900, 2_500, 59, "step 1", None),
        row(950, 1_300, 59, None, 8),
        row(960, none, 34, "a mark", None),
        row(970, none, 59, "never popped", None),
    ]
    if mpi:
        rows += [row(100, none, 75, "MPI", None), row(2_600, 2_700, 59, None, 20)]
    return NVTX, rows


def runtime(*, classes: bool) -> nsys.Table:
    """The launch, the copy's and the set's calls."""
    rows = [nsys.call(1_000, 1_200, 1, 11), nsys.call(1_250, 1_290, 2, 12)]
    if classes:
        return nsys.RUNTIME + ", callchainId", [(*row, None) for row in rows]
    return nsys.RUNTIME.replace("eventClass, ", ""), [(*row[:2], *row[3:]) for row in rows]


def of_2021_1() -> Tables:
    """No enumerations, no NULL, no versions, GPUs in a table of their own."""
    return {
        **device_rows(green=False, mangled=False),
        "CUPTI_ACTIVITY_KIND_RUNTIME": runtime(classes=False),
        "NVTX_EVENTS": ranges(mpi=True, none=0),
        "ThreadNames": ("nameId, priority, globalTid", [(21, 1, nsys.thread())]),
        "TARGET_INFO_CUDA_GPU": (
            "deviceId, name, computeCapabilityMajor, computeCapabilityMinor, numMultiprocessors, "
            "numThreadsPerWarp, maxWarpsPerMultiprocessor, coreClockRate, maxIPC",
            [(0, "NVIDIA A100", 8, 0, 108, 32, 64, 1_410_000, 4)],
        ),
    }


def of_2021_5() -> Tables:
    """GPUs are in the table of today, which lacks most of today's columns."""
    tables = of_2021_1()
    del tables["TARGET_INFO_CUDA_GPU"]
    return {
        **tables,
        "CUPTI_ACTIVITY_KIND_RUNTIME": runtime(classes=True),
        "TARGET_INFO_GPU": ("id, name, busLocation", [(0, "NVIDIA A100", "0000:00:04.0")]),
        "PROCESSES": ("globalPid, pid, name", [(nsys.process(), nsys.PID, "python train.py")]),
    }


def of_2022_2() -> Tables:
    """Schema 2.9: every table is there, most of them empty; still no enumerations."""
    empty = "start, end, deviceId, contextId, streamId, correlationId, globalPid, syncType, eventId"
    return {
        **of_2021_5(),
        **device_rows(green=False, mangled=True),
        "NVTX_EVENTS": ranges(mpi=True),
        "TARGET_INFO_GPU": (
            "vmId, id, name, totalMemory, smCount, cuDevice, computeMajor, computeMinor",
            [(1 << 48, 3, "NVIDIA A100", 40 << 30, 108, 0, 8, 0)],
        ),
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs, utcTime, localTime", [(EPOCH, "", "")]),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (empty, []),
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("start, end", []),
        "CUDNN_EVENTS": ("start, end, eventClass, globalTid, nameId", []),
        "CUDA_GRAPH_EVENTS": ("start, end, eventClass, globalTid, nameId", []),
        "UnwindMethodType": ("number, name", [(0, "Unknown")]),
        "PROFILER_OVERHEAD": (
            "start, end, globalTid, nameId, returnValue",
            [(50, 90, nsys.thread(), 9, 0), (1_310, 1_320, nsys.thread(), 9, 0)],
        ),
        "EXPORT_META_DATA": (
            "name, value",
            [("EXPORT_PRODUCT_VERSION", "2022.2.1.31"), ("EXPORT_SCHEMA_VERSION", "2.9.1")],
        ),
    }


def of_2024_5() -> Tables:
    """Schema 3.13: enumerations are in the file, tables without rows are not; MPI has its own."""
    tables = of_2022_2()
    for gone in ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUDNN_EVENTS", "CUDA_GRAPH_EVENTS"):
        del tables[gone]
    versions = tables.pop("EXPORT_META_DATA")[0]
    del tables["UnwindMethodType"]
    kinds = ["Pageable", "Pinned", "Device"]
    return {
        **tables,
        **device_rows(green=True, mangled=True),
        "NVTX_EVENTS": ranges(mpi=False),
        "MPI_P2P_EVENTS": (
            "start, end, globalTid, textId, commHandle, tag, remoteRank, size, requestHandle",
            [(2_600, 2_700, nsys.thread(), 20, 0, 0, 1, 64, None)],
        ),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
            "start, end, deviceId, contextId, greenContextId, streamId, correlationId, globalPid, "
            "syncType, eventId",
            [(1_900, 1_950, 0, 1, None, 7, 14, nsys.process(), 2, NONE_32)],
        ),
        "ENUM_NSYS_EVENT_TYPE": (
            "id, name, label",
            [(34, "NvtxMark", ""), (59, "NvtxPushPopRange", ""), (75, "NvtxDomainCreate", "")],
        ),
        "ENUM_CUDA_MEMCPY_OPER": (
            "id, name, label",
            [(1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device")],
        ),
        "ENUM_CUDA_MEM_KIND": ("id, name, label", [(i, "", kind) for i, kind in enumerate(kinds)]),
        "ENUM_CUPTI_SYNC_TYPE": ("id, name, label", [(2, "", "Stream wait sync")]),
        "TARGET_INFO_CUDA_DEVICE": ("gpuId, cudaId, pid", [(0, 0, nsys.PID)]),
        "TARGET_INFO_GPU": (
            "vmId, id, name, totalMemory, smCount, cuDevice, computeMajor, computeMinor",
            [(1 << 48, 0, "NVIDIA A100", 40 << 30, 108, None, 8, 0)],
        ),
        "META_DATA_EXPORT": (
            versions,
            [("EXPORT_PRODUCT_VERSION", "2024.5.1.113"), ("EXPORT_SCHEMA_VERSION", "3.13.2")],
        ),
    }


def of_2026() -> Tables:
    """The kind of a wait follows its enumeration; what CUPTI gave is kept under another name."""
    tables = of_2024_5()
    columns, rows = tables["NVTX_EVENTS"]
    return {
        **tables,
        "NVTX_EVENTS": (columns + ", binaryData", [(*row, None) for row in rows]),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
            "start, end, deviceId, contextId, greenContextId, streamId, correlationId, globalPid, "
            "deprecatedSyncType, syncType, eventId, eventSyncId",
            [(1_900, 1_950, 0, 1, None, 7, 14, nsys.process(), 2, 3, NONE_32, None)],
        ),
        "META_DATA_EXPORT": (
            "name, value",
            [("EXPORT_PRODUCT_VERSION", "2026.1.3.425"), ("EXPORT_SCHEMA_VERSION", "3.24.18")],
        ),
    }


GENERATIONS: dict[str, Callable[[], Tables]] = {
    "2021.1": of_2021_1,
    "2021.5": of_2021_5,
    "2022.2": of_2022_2,
    "2024.5": of_2024_5,
    "2026.1": of_2026,
}


@pytest.fixture(params=GENERATIONS)
def version(request: pytest.FixtureRequest) -> str:
    chosen = request.param
    assert isinstance(chosen, str)
    return chosen


@pytest.fixture
def path(tmp_path: Path, version: str) -> Path:
    return nsys.write(tmp_path / f"{version}.sqlite", GENERATIONS[version](), STRINGS)


@pytest.fixture
def trace(path: Path) -> Trace:
    return load_trace(path)


def test_all_generations_give_the_same_events(trace: Trace) -> None:
    found = {
        trace.name_of(row): (
            trace.categories[int(trace.category[row])],
            int(trace.start[row]) + trace.origin,
            int(trace.duration[row]),
        )
        for row in range(len(trace))
        if trace.categories[int(trace.category[row])] not in ("cuda_sync", "overhead")
    }
    assert found == {
        "step 1": ("user_annotation", 900, 1_600),
        "registered range": ("user_annotation", 950, 350),
        "cudaLaunchKernel": ("cuda_runtime", 1_000, 200),
        "cudaMemcpyAsync": ("cuda_runtime", 1_250, 40),
        "add_kernel<4, ns::Sum<float>>": ("kernel", 1_500, 400),
        "Memcpy HtoD (Pageable -> Device)": ("gpu_memcpy", 2_000, 300),
        "Memset (Device)": ("gpu_memset", 2_400, 50),
        "MPI_Send": ("user_annotation", 2_600, 100),
    }
    assert [each.message for each in trace.warnings] == ["left out 1 events that never end"]
    sizes = trace.bytes[trace.in_category("gpu_memcpy", "gpu_memset")]
    assert sorted(sizes.tolist()) == [256, 4096]


def test_launches_lead_to_their_kernels_on_the_named_gpu(trace: Trace) -> None:
    (activity,) = analyse(trace).activity
    assert (activity.device, activity.unlinked) == (0, 1)
    assert device_name(trace.metadata, 0) == "NVIDIA A100"
    (kernel,) = np.flatnonzero(trace.in_category("kernel"))
    track = trace.tracks[int(trace.track[kernel])]
    assert (track.process, track.device, track.stream) == (str(nsys.PID), 0, 7)
    assert {each.thread_name for each in trace.tracks if not each.is_device} == {"python"}


def test_arguments_are_in_words(trace: Trace) -> None:
    found = [trace.read_arguments(row) for row in range(len(trace))]
    (copy,) = (each for each in found if "copyKind" in each)
    assert copy["copyKind"] in ("HTOD", "Host-to-Device")
    assert (copy["srcKind"], copy["dstKind"]) == ("Pageable", "Device")
    assert any(each.get("demangledName") == STRINGS[5] for each in found)


def test_what_only_some_generations_say(trace: Trace, version: str) -> None:
    says_when = version >= "2022"
    assert trace.wall_origin == (EPOCH + trace.origin if says_when else None)
    expected = {"2022.2": "2.9.1", "2024.5": "3.13.2", "2026.1": "3.24.18"}.get(version)
    assert trace.metadata.get("EXPORT_SCHEMA_VERSION") == expected
    assert ("Stream sync" in trace.names) == (version >= "2024")
    assert ("CUPTI Buffer flush" in trace.names) == says_when
    processors = trace.metadata["deviceProperties"][0].get("numSms")
    assert processors == (None if version == "2021.5" else 108)
    domain = {
        trace.name_of(row): trace.read_arguments(row).get("domain") for row in range(len(trace))
    }
    assert domain["MPI_Send"] == ("MPI" if version < "2024" else None)
    assert domain["step 1"] is None


@pytest.mark.parametrize(
    ("made", "kind"), [(of_2021_1, "Unknown"), (of_2021_5, "Managed"), (of_2022_2, "Managed")]
)
def test_managed_memory_was_unknown_once(
    tmp_path: Path, made: Callable[[], Tables], kind: str
) -> None:
    tables = made()
    columns, (row,) = tables["CUPTI_ACTIVITY_KIND_MEMSET"]
    tables["CUPTI_ACTIVITY_KIND_MEMSET"] = columns, [(*row[:-1], 4)]
    trace = load_trace(nsys.write(tmp_path / "old.sqlite", tables, STRINGS))
    assert f"Memset ({kind})" in trace.names
