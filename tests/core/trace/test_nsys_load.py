"""What an export of Nsight Systems becomes; the columns' sums are those that plain SQL gives."""

import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse, device_name
from perftui.trace.formats import find_traces, load_trace
from perftui.trace.model import NONE, NOT_READ, LoadCancelled, Trace, TraceError
from perftui.trace.nsys.database import BATCH
from perftui.trace.nsys.names import call_label, kernel_name
from tests.core.trace import nsys_exports as nsys
from tests.core.trace.specimens import wounded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.sqlite"


def load(path: Path, tables: dict[str, nsys.Table], **keywords: Any) -> Trace:
    return load_trace(nsys.write(path, tables, **keywords))


def row_of(trace: Trace, name: str) -> int:
    (row,) = (row for row in range(len(trace)) if trace.name_of(row) == name)
    return row


def category_of(trace: Trace, name: str) -> str:
    return trace.categories[int(trace.category[row_of(trace, name)])]


def test_a_launch_its_kernel_and_the_range_around_it(path: Path) -> None:
    trace = load(path, nsys.small())
    around, launch, kernel = (
        row_of(trace, name)
        for name in ("step 1", "cudaLaunchKernel", "add_kernel<4, ns::Sum<float>>")
    )
    assert trace.origin == 900
    assert (int(trace.start[launch]), int(trace.duration[launch])) == (100, 200)
    assert (int(trace.start[kernel]), int(trace.duration[kernel])) == (600, 400)
    assert int(trace.parent[launch]) == around
    assert trace.correlation[launch] == trace.correlation[kernel] == 11
    assert [trace.categories[int(trace.category[row])] for row in (around, launch, kernel)] == [
        "user_annotation",
        "cuda_runtime",
        "kernel",
    ]
    on_cpu, on_device = (trace.tracks[int(trace.track[row])] for row in (launch, kernel))
    assert (on_cpu.process, on_cpu.thread, on_cpu.is_device) == ("4000", "4001", False)
    assert (on_device.process, on_device.device, on_device.stream) == ("4000", 0, 7)
    assert trace.warnings == ()
    (activity,) = analyse(trace).activity
    assert (activity.busy, activity.unlinked) == (400, 0)


def test_copies_sets_and_waits_are_called_as_kineto_calls_them(path: Path) -> None:
    copies = [
        (10, 20, 0, 7, 21, nsys.process(), 4096, 1, 0, 2),
        (30, 40, 0, 7, 22, nsys.process(), 64, 2, 2, 1),
        (50, 60, 0, 7, 23, nsys.process(), 8, 11, -1, -1),
        (70, 80, 0, 7, 24, nsys.process(), 9, 99, 0, 2),
    ]
    waits = [
        (10, 20, 0, 7, 26, nsys.process(), 2, 2**32 - 1),
        (10, 20, 0, 2**32 - 1, 27, nsys.process(), 1, 2**32 - 1),
        (10, 20, 0, 8, 28, nsys.process(), 2, 7197),
    ]
    sets = [(90, 95, 0, 7, 25, nsys.process(), 256, 2)]
    trace = load(path, nsys.tables(memcpy=copies, memset=sets, synchronization=waits))
    copied = {
        trace.name_of(row): int(trace.bytes[row])
        for row in np.flatnonzero(trace.in_category("gpu_memcpy", "gpu_memset")).tolist()
    }
    assert copied == {
        "Memcpy HtoD (Pageable -> Device)": 4096,
        "Memcpy DtoH (Device -> Pinned)": 64,
        "Memcpy unified HtoD": 8,
        "Memcpy (Pageable -> Device)": 9,
        "Memset (Device)": 256,
    }
    assert category_of(trace, "Stream sync") == "cuda_sync"
    assert category_of(trace, "Stream wait sync") == "cuda_sync"
    whole = trace.tracks[int(trace.track[row_of(trace, "Context sync")])]
    assert (whole.device, whole.stream) == (0, NONE)


def test_enumerations_of_the_file_go_before_known_ones(path: Path) -> None:
    labels = {
        "CUDA_MEMCPY_OPER": [(1, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device")],
        "CUDA_MEM_KIND": [(0, "X", "Managed"), (2, "Y", "Far")],
        "NSYS_EVENT_TYPE": [(5, "NvtxPushPopRange", "Range")],
    }
    copies = [(10, 20, 0, 7, 21, nsys.process(), 4096, 1, 0, 2)]
    ranges = [nsys.pushed(1, 2, "mine", kind=5), nsys.pushed(3, 4, "other", kind=59)]
    enums = {f"ENUM_{name}": ("id, name, label", rows) for name, rows in labels.items()}
    trace = load(path, {**enums, **nsys.tables(memcpy=copies, nvtx=ranges)})
    assert set(trace.names) == {"Memcpy DtoD (Managed -> Far)", "mine"}


def test_calls_are_known_to_analysis_by_their_name(path: Path) -> None:
    calls = [nsys.call(10, 20, 2, 31), nsys.call(30, 40, 3, 32), nsys.call(50, 60, 77, 33)]
    trace = load(path, nsys.tables(runtime=calls))
    assert category_of(trace, "cudaMemcpyAsync") == "cuda_runtime"
    assert category_of(trace, "cuMemcpyDtoH_v2") == "cuda_driver"
    assert category_of(trace, "unknown call") == "cuda_runtime"


def test_ranges_that_pytorch_marked_are_operators(path: Path) -> None:
    texts = {
        "aten::add_, seq = 12, op_id = 345, sizes = [[2, 3], []]": ("aten::add_", "cpu_op"),
        "AddmmBackward0, op_id = 7": ("AddmmBackward0", "cpu_op"),
        "aten::mul": ("aten::mul", "cpu_op"),
        "Optimizer.step#SGD.step, op_id = 8": ("Optimizer.step#SGD.step", "user_annotation"),
        "FSDP::pre_forward, op_id = 9": ("FSDP::pre_forward", "user_annotation"),
        "loss, weight = 3": ("loss, weight = 3", "user_annotation"),
        "Fusion::lower": ("Fusion::lower", "user_annotation"),
    }
    rows = [nsys.pushed(10 * i, 10 * i + 5, text) for i, text in enumerate(texts)]
    trace = load(path, nsys.tables(nvtx=rows))
    found = {name: category_of(trace, name) for name in trace.names}
    assert found == dict(texts.values())


def test_only_ranges_of_nvtx_are_events_and_endless_ones_are_reported(path: Path) -> None:
    rows = [
        nsys.pushed(10, 20, None, text_id=8, domain=3),
        nsys.pushed(5, None, "NCCL", kind=75, domain=3),
        nsys.pushed(12, None, "a mark", kind=34),
        nsys.pushed(13, None, "never popped"),
        nsys.pushed(14, 0, "never popped in an old export"),
        nsys.pushed(30, 90, "crosses", kind=60),
        nsys.pushed(40, 120, "two threads", kind=60),
    ]
    trace = load(path, nsys.tables(nvtx=rows))
    found = {trace.name_of(row) for row in range(len(trace))}
    assert found == {"registered range", "crosses", "two threads"}
    assert int(trace.depth.max()) == 0
    assert [warning.message for warning in trace.warnings] == ["left out 2 events that never end"]
    assert trace.read_arguments(row_of(trace, "registered range"))["domain"] == "NCCL"


def test_processes_count_correlations_and_devices_on_their_own(path: Path) -> None:
    other = 5000
    calls = [nsys.call(10, 20), (12, 22, 0, nsys.thread(5001, other), 11, 1, 0)]
    kernels = [nsys.kernel(30, 40), nsys.kernel(35, 45, owner=nsys.process(other))]
    tables: dict[str, nsys.Table] = {
        **nsys.tables(runtime=calls, kernel=kernels),
        "TARGET_INFO_GPU": ("id, name, totalMemory", [(2, "A", 80), (3, "B", 40)]),
        "TARGET_INFO_CUDA_DEVICE": ("gpuId, cudaId, pid", [(2, 0, nsys.PID), (3, 0, other)]),
    }
    trace = load(path, tables)
    analysis = analyse(trace)
    assert [(each.device, each.name, each.busy) for each in analysis.activity] == [
        (2, "A", 10),
        (3, "B", 10),
    ]
    launches = np.flatnonzero(trace.in_category("cuda_runtime"))
    assert len(set(trace.correlation[launches].tolist())) == 2
    assert all(each.unlinked == 0 for each in analysis.activity)
    assert trace.metadata["deviceProperties"][0]["totalGlobalMem"] == 80


def test_waits_are_on_the_device_of_their_context(path: Path) -> None:
    columns = nsys.SYNC + ", contextId"
    waits = [
        (10, 20, 0, 7, 21, nsys.process(), 3, 2**32 - 1, 1),
        (10, 20, 0, 30, 22, nsys.process(5000), 2, 7197, 1),
        (10, 20, 0, 31, 23, nsys.process(5000), 2, 7197, 9),
    ]
    kernels = [nsys.kernel(30, 40), nsys.kernel(35, 45, device=1, owner=nsys.process(5000))]
    synchronization = {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (columns, waits)}
    trace = load(path, {**nsys.tables(kernel=kernels), **synchronization})
    rows = np.flatnonzero(trace.in_category("cuda_sync")).tolist()
    tracks = [trace.tracks[int(trace.track[row])] for row in rows]
    assert {(track.stream, track.device) for track in tracks} == {(7, 0), (30, 1), (31, 0)}


def test_graphs_launched_as_a_whole_are_activity_and_told(path: Path) -> None:
    graphs = [(100, 900, 1, 9, 11, nsys.process(), 4)]
    trace = load(path, nsys.tables(runtime=[nsys.call(10, 20)], graph_trace=graphs))
    (activity,) = analyse(trace).activity
    assert (activity.device, activity.busy, activity.unlinked) == (1, 800, 0)
    (warning,) = trace.warnings
    assert "1 launches of CUDA graphs" in warning.message
    assert "--cuda-graph-trace=node" in warning.message


def test_overhead_of_the_profiler_counts_while_the_program_works(path: Path) -> None:
    flushes = [(1, 5, nsys.thread(), 9), (1_300, 1_400, nsys.thread(), 9)]
    loading = nsys.tables(overhead=[(1_010, 1_050, nsys.thread(), 7)])
    tables = {**nsys.small(), **loading, "PROFILER_OVERHEAD": (nsys.OVERHEAD, flushes)}
    trace = load(path, tables)
    assert trace.origin == 900
    overhead = np.flatnonzero(trace.in_category("overhead")).tolist()
    assert {trace.name_of(row): int(trace.start[row]) for row in overhead} == {
        "Lazy Function Loading": 110,
        "CUPTI Buffer flush": 400,
    }


def test_names_of_threads_the_clock_and_versions(path: Path) -> None:
    threads = [(6, 20, nsys.thread()), (4, 10, nsys.thread())]
    exported = [("EXPORT_SCHEMA_VERSION", "3.13.2"), ("EXPORT_USER", "x")]
    process = (nsys.process(), nsys.PID, "python train.py")
    tables = {
        **nsys.small(),
        "ThreadNames": ("nameId, priority, globalTid", threads),
        "PROCESSES": ("globalPid, pid, name", [process]),
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(1_700_000_000_000_000_000,)]),
        "META_DATA_EXPORT": ("name, value", exported),
        "TARGET_INFO_GPU": ("id, name, cuDevice", [(0, "near", 1), (1, "far", 0)]),
    }
    trace = load(path, tables)
    cpu, gpu = (
        trace.tracks[int(trace.track[row_of(trace, name)])]
        for name in ("step 1", "add_kernel<4, ns::Sum<float>>")
    )
    assert (cpu.thread_name, cpu.process_name) == ("main", "python train.py")
    assert gpu.process_name == "python train.py"
    assert trace.wall_origin == 1_700_000_000_000_000_900
    assert trace.metadata["EXPORT_SCHEMA_VERSION"] == "3.13.2"
    assert "EXPORT_USER" not in trace.metadata
    assert device_name(trace.metadata, 0) == "far"


def test_columns_that_an_old_schema_lacks_are_done_without(path: Path) -> None:
    ranges = [(1, 9, "r", nsys.thread()), (2, None, "m", 0)]
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": ("start, end, shortName", [(10, 30, 4)]),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start, end, globalTid", [(5, 8, nsys.thread())]),
        "CUPTI_ACTIVITY_KIND_MEMCPY": ("start, end", [(40, 50)]),
        "CUPTI_ACTIVITY_KIND_MEMSET": ("start", [(40,)]),
        "NVTX_EVENTS": ("start, end, text, globalTid", ranges),
    }
    trace = load(path, tables)
    assert set(trace.names) == {"add_kernel", "unknown call", "Memcpy", "r"}
    kernel = row_of(trace, "add_kernel")
    assert trace.tracks[int(trace.track[kernel])].device == 0
    assert trace.correlation[kernel] == trace.bytes[kernel] == NONE
    assert trace.wall_origin is None
    assert "deviceProperties" not in trace.metadata


def test_times_that_make_no_sense_are_reported(path: Path) -> None:
    rows = [nsys.kernel(100, 40), nsys.kernel(200, 300), (None, *nsys.kernel(1, 2)[1:])]
    trace = load(path, nsys.tables(kernel=rows))
    assert trace.duration.tolist() == [0, 100]
    assert [w.message for w in trace.warnings] == ["1 events have a negative duration, taken as 0"]


def test_times_that_would_overflow_are_left_out_and_told(path: Path) -> None:
    odd = [(-(2**63), 100), (2**63 - 2, 2**63 - 1), (5, 2**62), (2**62, None), (1, None)]
    rows = [nsys.kernel(100, 140), *((*each, *nsys.kernel(1, 2)[2:]) for each in odd)]
    trace = load(path, nsys.tables(kernel=rows))
    assert (trace.start.tolist(), trace.duration.tolist()) == ([0], [40])
    assert [w.message for w in trace.warnings] == [
        "left out 4 events whose time is beyond 73 years",
        "left out 1 events that never end",
    ]


def test_an_event_days_away_from_all_others_is_reported(path: Path) -> None:
    week = 7 * 24 * 3_600_000_000_000
    rows = [nsys.kernel(100, 140), nsys.kernel(200, 300), nsys.kernel(week, week + 5)]
    trace = load(path, nsys.tables(kernel=rows))
    assert [w.message for w in trace.warnings] == [
        "1 event lies 168 hours from all others, by the times in the file"
    ]


def test_what_is_known_of_the_gpu_survives_damage_to_tables_that_are_not_read(path: Path) -> None:
    calls = [(start, start + 1, nsys.thread(), 1) for start in range(20_000)]
    gpu = ("id, name, smCount", [(0, "A100", 108)])
    tables = {"TARGET_INFO_GPU": gpu, **nsys.small()}
    nsys.write(path, {**tables, "OSRT_API": ("start, end, globalTid, nameId", calls)})
    assert load_trace(path).metadata[NOT_READ] == {"OSRT_API": 20_000}
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    trace = load_trace(path)
    assert trace.metadata["deviceProperties"] == [{"id": 0, "name": "A100", "numSms": 108}]
    assert "not read: the rows of OSRT_API (damaged)" in analyse(trace).notes
    assert not any("names of GPUs" in warning.message for warning in trace.warnings)


def test_arguments_are_the_row_of_the_file_in_words(path: Path) -> None:
    trace = load(path, nsys.small())
    found = trace.read_arguments(row_of(trace, "add_kernel<4, ns::Sum<float>>"))
    assert found["demangledName"] == nsys.STRINGS[5]
    assert found["shortName"] == "add_kernel"
    assert (found["start"], found["streamId"], found["correlationId"]) == (1_500, 7, 11)
    assert trace.read_arguments(row_of(trace, "cudaLaunchKernel"))["nameId"] == nsys.STRINGS[1]


def test_arguments_of_a_file_that_changed_or_went_are_refused(path: Path) -> None:
    trace = load(path, nsys.small())
    with path.open("ab") as file:
        file.write(b"\0" * 4096)
    with pytest.raises(TraceError, match="has changed"):
        trace.read_arguments(0)
    path.unlink()
    with pytest.raises(TraceError, match="cannot read"):
        trace.read_arguments(0)


def test_a_locked_export_with_a_journal_opens_and_is_not_touched(path: Path) -> None:
    nsys.write(path, nsys.small())
    journal = path.with_name(path.name + "-journal")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("begin exclusive")
        journal.write_bytes(b"not finished")
        before = path.read_bytes()
        trace = load_trace(path)
        assert journal.read_bytes() == b"not finished"
        journal.unlink()
    assert len(trace) == 3
    assert path.read_bytes() == before
    assert [w.message for w in trace.warnings] == [
        "report.sqlite-journal is next to the file: its changes are not read"
    ]


def test_names_with_odd_characters_open(tmp_path: Path) -> None:
    assert len(load(tmp_path / "what? 100% #1 ü.sqlite", nsys.small())) == 3


def test_other_databases_and_empty_exports_are_refused_in_one_sentence(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table experiments (id, name)")
        connection.commit()
    with pytest.raises(TraceError, match="not an Nsight Systems export"):
        load_trace(path)
    path.unlink()
    nsys.write(path, {"TARGET_INFO_SYSTEM_ENV": ("name, value", [])})
    with pytest.raises(TraceError, match="nsys profile --trace=cuda,nvtx"):
        load_trace(path)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(TraceError, match="export it again"):
        load_trace(path)


def many(rows: int) -> dict[str, nsys.Table]:
    kernels = [nsys.kernel(1_000 * i, 1_000 * i + 400, i + 1) for i in range(rows)]
    calls = [nsys.call(1_000 * i - 500, 1_000 * i - 100, 1, i + 1) for i in range(1, rows)]
    return nsys.tables(kernel=kernels, runtime=calls)


@pytest.mark.slow
def test_progress_reaches_the_size_of_the_file_and_never_falls(path: Path) -> None:
    nsys.write(path, many(2 * BATCH))
    told: list[tuple[int, int]] = []
    load_trace(path, lambda done, total: told.append((done, total)))
    size = path.stat().st_size
    assert len(told) >= 4
    assert {total for _, total in told} == {size}
    done = [each for each, _ in told]
    assert done == sorted(done)
    assert done[-1] == size
    assert 0 < done[2] < size


def test_loading_stops_between_batches_when_asked_to(path: Path) -> None:
    nsys.write(path, many(2 * BATCH))
    told: list[int] = []
    with pytest.raises(LoadCancelled):
        load_trace(path, lambda done, _: told.append(done), lambda: len(told) >= 2)
    assert max(told) < path.stat().st_size / 2


def test_previews_are_the_rows_read_so_far_and_change_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.trace.nsys.load.FIRST_PREVIEW", BATCH)
    monkeypatch.setattr("perftui.trace.nsys.load.PREVIEW_GROWTH", 2)
    tables = many(3 * BATCH)
    tables["ThreadNames"] = ("nameId, priority, globalTid", [(6, 20, nsys.thread())])
    nsys.write(path, tables)
    previews: list[Trace] = []
    trace = load_trace(path, preview=previews.append)
    assert [len(each) for each in previews] == [BATCH, 2 * BATCH, 5 * BATCH - 1]
    for each in previews:
        assert each.origin == trace.origin + (0 if each.in_category("kernel").any() else 500)
        assert each.tracks[0].thread_name == "main"
        assert each.read_arguments(0)["start"] == each.start[0] + each.origin
    plain = load_trace(path)
    for column in ("start", "duration", "name", "track", "parent", "depth", "correlation"):
        assert np.array_equal(getattr(trace, column), getattr(plain, column))


def test_a_short_export_has_no_preview(path: Path) -> None:
    previews: list[Trace] = []
    load_trace(nsys.write(path, nsys.small()), preview=previews.append)
    assert previews == []


@pytest.mark.slow
def test_rows_around_a_damaged_page_are_read(path: Path) -> None:
    rows = 3 * BATCH
    nsys.write(path, many(rows))
    whole = load_trace(path)
    raw = bytearray(path.read_bytes())
    page = int.from_bytes(raw[16:18], "big")
    middle = len(raw) // 4 // page * page
    raw[middle : middle + page] = b"\xa5" * page
    path.write_bytes(raw)
    trace = load_trace(path)
    (warning,) = trace.warnings
    assert "CUPTI_ACTIVITY_KIND_KERNEL is damaged" in warning.message
    lost = len(whole) - len(trace)
    assert 0 < lost < 400
    kernels = trace.start[trace.in_category("kernel")] + trace.origin
    assert kernels.min() == 0
    assert kernels.max() == 1_000 * (rows - 1)
    trace.read_arguments(0)


@pytest.mark.slow
def test_an_export_that_was_cut_off_is_read_as_far_as_it_goes(path: Path) -> None:
    nsys.write(path, many(3 * BATCH))
    whole = load_trace(path)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 3 // 4])
    trace = load_trace(path)
    assert len(whole) / 2 < len(trace) < len(whole)
    assert "CUPTI_ACTIVITY_KIND_RUNTIME is damaged" in trace.warnings[0].message


def test_a_file_that_ends_within_a_row_may_have_that_one_wrong(path: Path) -> None:
    """SQLite reads zeros for what it lacks."""
    raw = nsys.write(path, many(300)).read_bytes()
    page = int.from_bytes(raw[16:18], "big")
    known = set((load_trace(path).start + load_trace(path).origin).tolist())
    for missing in range(1, page, 61):
        path.write_bytes(raw[:-missing])
        trace = load_trace(path)
        assert len({*(trace.start + trace.origin).tolist()} - known) <= 1
        assert "the file was cut off" in trace.warnings[0].message


def test_damage_anywhere_gives_a_trace_or_says_why_not(path: Path) -> None:
    whole = nsys.write(path, {**nsys.small(), **many(300)}).read_bytes()
    outcomes = set()
    for seed in range(150):
        chance = random.Random(seed)  # noqa: S311 - damages
        path.write_bytes(whole[:100] + wounded(whole[100:], chance))
        try:
            trace = load_trace(path)
        except TraceError:
            outcomes.add("refused")
            continue
        outcomes.add("warned" if trace.warnings else "whole")
        analyse(trace)
        try:
            trace.read_arguments(len(trace) // 2)
        except TraceError:
            outcomes.add("no arguments")
    assert {"refused", "warned", "whole"} <= outcomes


def test_text_that_is_no_utf_8_is_shown_as_far_as_it_is(path: Path) -> None:
    nsys.write(path, nsys.small())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update StringIds set value = cast(x'63756461ff' as text) where id = 1")
        connection.commit()
    assert "cuda\ufffd" in load_trace(path).names


def test_a_directory_is_searched_for_exports_by_content(tmp_path: Path) -> None:
    export = nsys.write(tmp_path / "a.sqlite", nsys.small())
    same = nsys.write(tmp_path / "b.db", nsys.small())
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        connection.execute("create table runs (id)")
        connection.commit()
    (tmp_path / "empty.sqlite").write_bytes(b"")
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0garbage")
    assert find_traces(tmp_path) == [export, same]


@pytest.mark.parametrize(
    ("short", "demangled", "wanted"),
    [
        ("k", "void k<(int)4, ns::Sum<float>>(int, T2)", "k<4, ns::Sum<float>>"),
        ("k", "void ns::k<&ns::f, (a)-1, (bool)1>(T1)", "k<&ns::f, (a)-1, 1>"),
        ("k", "void k<A(int, B<int>)::[lambda(int) (instance 1)]>(T1)", None),
        ("k", "void k<(Enum)(3 > 2), X>(T1)", "k<(Enum)(3 > 2), X>"),
        ("k", "void k<decltype(a->b)>(T1)", "k<decltype(a->b)>"),
        ("k", "ns::k(ns::Tensor<float>)", "k"),
        ("sm80_gemm", "sm80_gemm", "sm80_gemm"),
        ("k", "void other(int)", "k"),
        ("k", "void k_k<k<int>>(int)", "k<int>"),
        ("k", "void k<broken", "k<broken"),
        ("k", None, "k"),
        (None, "void k()", "void k()"),
        (None, None, "unknown kernel"),
    ],
)
def test_a_kernel_is_called_by_its_function_and_template_arguments(
    short: str | None, demangled: str | None, wanted: str | None
) -> None:
    lambda_inside = "k<A(int, B<int>)::[lambda(int) (instance 1)]>"
    assert kernel_name(short, demangled) == (wanted or lambda_inside)


@pytest.mark.parametrize(
    ("recorded", "name", "category"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "cuda_runtime"),
        ("cudaStreamSynchronize_ptsz_v7000", "cudaStreamSynchronize", "cuda_runtime"),
        ("cudaGetDeviceProperties_v2_v12000", "cudaGetDeviceProperties_v2", "cuda_runtime"),
        ("cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2", "cuda_driver"),
        ("cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH_v2", "cuda_driver"),
        ("cublasSgemm", "cublasSgemm", "cuda_runtime"),
    ],
)
def test_a_call_is_called_without_the_version_that_introduced_it(
    recorded: str, name: str, category: str
) -> None:
    label = call_label(recorded)
    assert (label.name, label.category) == (name, category)


times = st.integers(0, 2**60)
lengths = st.integers(0, 10**12)
owners = st.sampled_from([nsys.process(pid) for pid in (1, 4000, 0xFFFFFF)])
threads = st.builds(nsys.thread, st.integers(0, 0xFFFFFF), st.sampled_from([1, 4000, 0xFFFFFF]))
devices = st.integers(0, 7)
streams = st.sampled_from([0, 7, 22, 2**32 - 1])
correlations = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 2**50)


def timed(*others: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    row = st.tuples(times, lengths, *others)
    return st.lists(row.map(lambda each: (each[0], each[0] + each[1], *each[2:])), max_size=12)


placed = devices, streams, correlations, owners
names = st.just(5), st.just(4)
kinds = st.sampled_from([34, 59, 60, 75])
exports = st.fixed_dictionaries(
    {},
    optional={
        "kernel": timed(devices, st.just(1), streams, correlations, owners, *names),
        "memcpy": timed(*placed, sizes, st.integers(0, 14), *[devices] * 2),
        "memset": timed(*placed, sizes, devices),
        "runtime": timed(st.just(0), threads, correlations, st.integers(1, 3), st.just(0)),
        "nvtx": timed(kinds, st.text(min_size=1), threads, st.none(), devices),
    },
).map(lambda rows: nsys.tables(**rows))

CATEGORIES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("kernel",),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("gpu_memcpy",),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("gpu_memset",),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("cuda_runtime", "cuda_driver"),
    "NVTX_EVENTS": ("user_annotation", "cpu_op"),
}


@pytest.mark.slow
@given(exports)
@settings(max_examples=100, deadline=None)
def test_counts_times_and_bytes_equal_sql(tables: dict[str, nsys.Table]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = nsys.write(Path(directory) / "report.sqlite", tables)
        ranges = [row for row in tables.get("NVTX_EVENTS", ("", []))[1] if row[2] in {59, 60}]
        others = [row for name in tables if name != "NVTX_EVENTS" for row in tables[name][1]]
        try:
            trace = load_trace(path)
        except TraceError as error:
            assert not tables or "no kernel" in str(error)  # noqa: PT017 - both outcomes are checked
            assert not others
            assert not ranges
            return
        assert len(trace) == len(others) + len(ranges)
        with closing(sqlite3.connect(path)) as connection:
            for table in tables:
                check(trace, table, connection)


def check(trace: Trace, table: str, connection: sqlite3.Connection) -> None:
    where = "eventType in (59, 60)" if table == "NVTX_EVENTS" else "1"
    rows = np.flatnonzero(trace.in_category(*CATEGORIES[table]))
    sums = 'count(*), sum("end" - "start"), min("start"), max("end")'
    count, length, first, last = connection.execute(
        f"select {sums} from {table} where {where}"  # noqa: S608 - our own
    ).fetchone()
    assert len(rows) == count
    if not count:
        return
    assert sum(trace.duration[rows].tolist()) == length
    assert int(trace.start[rows].min()) + trace.origin == first
    assert int(trace.end[rows].max()) + trace.origin == last
    if table.endswith(("MEMCPY", "MEMSET")):
        (size,) = connection.execute(f"select sum(bytes) from {table}").fetchone()  # noqa: S608 - our own
        assert sum(trace.bytes[rows].tolist()) == size
    if "_KIND_M" in table or table.endswith("KERNEL"):
        placed = connection.execute(
            f"select deviceId, streamId, globalPid, count(*) from {table} group by 1, 2, 3"  # noqa: S608 - our own
        ).fetchall()
        tracks = [trace.tracks[number] for number in trace.track[rows].tolist()]
        for device, stream, owner, wanted in placed:
            known = -1 if stream == 2**32 - 1 else stream
            process = str((owner >> 24) & 0xFFFFFF)
            found = [
                t for t in tracks if (t.device, t.stream, t.process) == (device, known, process)
            ]
            assert len(found) == wanted
