"""What a trace of Kineto becomes: columns, tracks, arguments and previews."""

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.trace.columns import native
from perftui.trace.formats import find_traces, is_trace, load_trace
from perftui.trace.kineto import source
from perftui.trace.kineto.read_events import Batch, Batches, arguments_in
from perftui.trace.kineto.source import State, inflate
from perftui.trace.model import NONE, LoadCancelled, Trace, TraceError
from tests.traces.events import cpu, event, load, memory, write


def rows(trace: Trace) -> list[tuple[str, int, int]]:
    return [
        (trace.name_of(row), int(trace.start[row]), int(trace.duration[row]))
        for row in range(len(trace))
    ]


def named(trace: Trace, name: str) -> int:
    return [trace.name_of(row) for row in range(len(trace))].index(name)


def test_columns_hold_what_the_file_says() -> None:
    trace = load(
        {
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "traceEvents": [
                event("aten::mm", 10.001, 5.5, **{"External id": 3}),
                event("cudaLaunchKernel", 11, 1.25, "cuda_runtime", correlation=42),
                event("gemm", 20.5, 4, "kernel", tid=9, device=0, stream=9, correlation=42),
                event("Memcpy HtoD", 30, 1, "gpu_memcpy", tid=9, device=0, stream=9, bytes=64),
            ],
        }
    )
    assert rows(trace) == [
        ("aten::mm", 0, 5500),
        ("cudaLaunchKernel", 999, 1250),
        ("gemm", 10499, 4000),
        ("Memcpy HtoD", 19999, 1000),
    ]
    assert trace.origin == 10001
    assert trace.wall_origin == 1_700_000_000_000_010_001
    assert trace.correlation.tolist() == [NONE, 42, 42, NONE]
    assert trace.external_id.tolist() == [3, NONE, NONE, NONE]
    assert trace.bytes.tolist() == [NONE, NONE, NONE, 64]
    assert trace.parent.tolist() == [NONE, 0, NONE, NONE]
    assert [trace.categories[index] for index in trace.category] == [
        "cpu_op",
        "cuda_runtime",
        "kernel",
        "gpu_memcpy",
    ]
    assert trace.metadata == {"baseTimeNanoseconds": 1_700_000_000_000_000_000}
    assert trace.warnings == ()


def test_legacy_spellings_become_todays() -> None:
    spelled = ["Operator", "Runtime", "Kernel", "Memcpy", "Memset"]
    trace = load({"traceEvents": [event(cat, i, 1, cat) for i, cat in enumerate(spelled)]})
    assert set(trace.categories) == {"cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset"}


def test_without_categories_the_process_says_what_an_event_is() -> None:
    bare = {"ph": "X", "ts": 1, "dur": 1, "tid": 0, "args": {}}
    trace = load(
        [
            {**bare, "name": "mm", "pid": "CPU functions"},
            {**bare, "name": "gemm", "pid": "CUDA functions"},
        ]
    )
    assert [trace.categories[index] for index in trace.category] == ["cpu_op", "kernel"]


def test_more_events_than_can_be_numbered_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perftui.trace.kineto.load.MOST_ROWS", 2)
    assert len(load([event("op", 5, 2)] * 2)) == 2
    with pytest.raises(TraceError, match="more than 2 events"):
        load([event("op", 5, 2)] * 3)


def test_before_kineto_the_threads_of_the_process_of_kernels_are_devices() -> None:
    bare = {"ph": "X", "ts": 1, "dur": 1, "pid": "CUDA functions", "name": "gemm", "args": {}}
    trace = load([{**bare, "tid": 0}, {**bare, "tid": 1}])
    assert [(track.device, track.stream) for track in trace.tracks] == [(0, NONE), (1, NONE)]


def test_absolute_times_to_the_nanosecond_survive() -> None:
    text = json.dumps({"traceEvents": [event("op", "@", 2.5), event("later", "#", 1)]})
    text = text.replace('"@"', "1712195495502094.565").replace('"#"', "1712195495502094.566")
    trace = load(text.encode())
    assert trace.origin == 1712195495502094565
    assert trace.wall_origin == trace.origin
    assert trace.start.tolist() == [0, 1]
    assert trace.duration.tolist() == [2500, 1000]


@pytest.mark.parametrize("ts", ["12.345", 12.345])
def test_times_spelled_as_text_are_numbers(ts: Any) -> None:
    assert load([event("op", ts, "1.5")]).duration.tolist() == [1500]


def test_tracks_are_named_and_placed_by_the_file() -> None:
    metadata = [
        {"ph": "M", "name": "process_name", "pid": 500, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 500, "tid": 7, "args": {"name": "main"}},
    ]
    trace = load(
        [
            *metadata,
            event("op", 1, 1),
            event("range", 1, 9, "gpu_user_annotation", tid=4294967295),
            event("gemm", 2, 1, "kernel", tid=20, device=3, stream=20),
            event("sync", 2, 1, "cuda_sync", tid=-1, device=3, stream=4294967295),
        ]
    )
    by_thread = {track.thread: track for track in trace.tracks}
    main = by_thread["7"]
    assert (main.process_name, main.thread_name, main.is_device) == ("python", "main", False)
    assert (by_thread["20"].device, by_thread["20"].stream) == (3, 20)
    assert (by_thread["-1"].device, by_thread["-1"].stream) == (3, NONE)
    assert by_thread["4294967295"].stream == NONE


def test_ids_in_any_spelling() -> None:
    trace = load(
        [
            event("a", 1, 1, "kernel", stream="0x10", device="1", correlation="7"),
            event("b", 2, 1, **{"external id": "12"}),
            event("c", 3, 1, correlation=2**70, **{"External id": "none"}),
            event("d", 4, 1, correlation=True),
        ]
    )
    assert trace.tracks[int(trace.track[named(trace, "a")])].stream == 16
    assert trace.correlation[named(trace, "a")] == 7
    assert trace.external_id[named(trace, "b")] == 12
    assert trace.correlation[named(trace, "c")] == NONE
    assert trace.correlation[named(trace, "d")] == NONE


def test_what_only_frames_the_recording_is_no_row() -> None:
    span = {**event("PyTorch Profiler (0)", 0, 10**9, "Trace", tid="PyTorch Profiler"), "pid": "S"}
    window = {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 10**9, "s": "g"}
    trace = load({"traceEvents": [event("op", 5, 2), span, window]})
    assert rows(trace) == [("op", 0, 2000)]
    assert trace.complete_events == 2


def test_negative_durations_count_as_zero_and_are_said() -> None:
    trace = load([event("op", 5, -2)])
    assert trace.duration.tolist() == [0]
    assert "negative" in trace.warnings[0].message


@pytest.mark.parametrize("dur", ["N/A", None, float("nan"), [1], True])
def test_durations_that_are_no_number_count_as_zero_and_are_said(dur: Any) -> None:
    raw = json.dumps([event("op", 5, 2), event("odd", 9, dur), event("odd", 12, dur)]).encode()
    trace = load(raw)
    assert trace.duration.tolist() == [2000, 0, 0]
    where = raw.index(b'{"ph"', 2)
    message = "2 events have a duration that is not a number, taken as 0"
    assert (f"{message}; the first is at byte {where}", where) in [
        (warning.message, warning.offset) for warning in trace.warnings
    ]
    # A bare NaN is no JSON.
    assert len(trace.warnings) == 1 + (dur != dur)


def test_a_duration_that_is_missing_is_said() -> None:
    trace = load([{"ph": "X", "cat": "cpu_op", "name": "op", "ts": 5}])
    assert trace.duration.tolist() == [0]
    assert "1 event has a duration that is not a number" in trace.warnings[0].message


@pytest.mark.parametrize("kind", ["", "Z", None])
def test_events_that_do_not_say_what_they_are_are_left_out(kind: str | None) -> None:
    trace = load([event("op", 5, 2), {**event("odd", 7, 2), "ph": kind}])
    assert rows(trace) == [("op", 0, 2000)]
    assert "left out 1 event that does not say what it is" in trace.warnings[0].message


@pytest.mark.parametrize("pid", [[1], {"a": 1}, None, 1.5, "", 2**70, "\ud800"])
def test_any_process_id_makes_one_track(pid: Any) -> None:
    odd = {**event("op", 5, 2), "pid": pid}
    plain = load([odd, {**odd, "ts": 9}])
    damaged = load(
        json.dumps([odd, {**odd, "ts": 9, "args": {"x": "@"}}]).replace("@", "\\q").encode()
    )
    assert len(plain.tracks) == len(damaged.tracks) == 1
    assert plain.tracks == damaged.tracks


def test_ids_spelled_as_numbers_and_as_text_are_one_track() -> None:
    trace = load([{**event("op", 5, 2), "pid": pid} for pid in (100, "100", 100.0)])
    assert [(track.process, track.thread) for track in trace.tracks] == [("100", "7")]


def test_a_device_number_may_have_any_size() -> None:
    analysis = analyse(load([event("gemm", 5, 2, "kernel", device=2**40, stream=1)]))
    assert [each.device for each in analysis.activity] == [2**40]


@pytest.mark.parametrize("field", ["correlation", "External id", "bytes"])
def test_lists_in_place_of_ids_are_none(field: str) -> None:
    trace = load([event(f"op{i}", i, 2, **{field: [i]}) for i in range(3)])
    for column in (trace.correlation, trace.external_id, trace.bytes):
        assert column.tolist() == [NONE] * 3


def test_a_thread_and_a_stream_of_the_same_ids_are_two_tracks() -> None:
    def named_thread(name: str) -> dict[str, Any]:
        ids = {"pid": 1, "tid": 1}
        return {"ph": "M", "name": "thread_name", **ids, "args": {"name": name}}

    activity = event("gemm", 12, 5, "kernel", tid=1, device=1, stream=1, correlation=4)
    trace = load(
        [
            named_thread("stream 1 "),
            named_thread("thread 1 (python)"),
            {**activity, "pid": 1},
            {**event("step", 1, 30, "user_annotation", tid=1), "pid": 1},
            {**event("aten::mm", 10, 6, "cpu_op", tid=1), "pid": 1},
            {**event("cudaLaunchKernel", 11, 2, "cuda_runtime", tid=1, correlation=4), "pid": 1},
        ]
    )
    by_name = {name: trace.tracks[int(trace.track[named(trace, name)])] for name in trace.names}
    assert by_name["gemm"].thread_name == "stream 1 "
    assert (by_name["gemm"].device, by_name["gemm"].stream) == (1, 1)
    for name in ("step", "aten::mm", "cudaLaunchKernel"):
        assert by_name[name].thread_name == "thread 1 (python)"
        assert not by_name[name].is_device
    assert len(trace.tracks) == 2


def test_ranges_alone_beside_kernels_are_on_their_track() -> None:
    ranged = {**event("note", 4, 3, "user_annotation", tid=1), "pid": 0}
    trace = load([ranged, event("gemm", 5, 1, "kernel", tid=1, device=0, stream=1)])
    assert [(track.device, track.stream) for track in trace.tracks] == [(0, 1)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda raw: raw[:0] + raw])
def test_content_decides_not_the_name(pack: Any) -> None:
    raw = json.dumps([event("op", 1, 2)]).encode()
    for name in ("trace.json", "trace.json.gz", "trace"):
        assert rows(load(pack(raw), name)) == [("op", 0, 2000)]


def test_a_byte_order_mark_is_skipped() -> None:
    assert len(load(b"\xef\xbb\xbf" + json.dumps({"traceEvents": [event("op", 1, 2)]}).encode()))


def test_the_name_of_the_array_inside_a_string_does_not_count() -> None:
    head = {"note": '"traceEvents": [', "nested": {"traceEvents": [{"ph": "X"}]}}
    assert rows(load({**head, "traceEvents": [event("op", 1, 2)]})) == [("op", 0, 2000)]


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_fields_on_both_sides_of_the_events_are_metadata(size: int) -> None:
    around = {"deviceProperties": [{"id": 0, "name": "x" * size}]}
    before = load({**around, "traceEvents": [event("op", 1, 2)], "traceName": "t"}).metadata
    behind = load({"traceEvents": [event("op", 1, 2)], "traceName": "t", **around}).metadata
    assert before == behind == {**around, "traceName": "t"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_arguments_are_read_when_asked_for(pack: Any) -> None:
    events = [event(f"op{i}", 10 * i, 5, sizes=[[i, {"deep": i}], "x" * 400]) for i in range(3000)]
    trace = load(pack(json.dumps({"traceEvents": events[::-1]}).encode()))
    for row in (0, 1, 777, 2999):
        assert trace.read_arguments(row)["sizes"][0] == [row, {"deep": row}]


@pytest.mark.slow
def test_arguments_far_inside_a_large_gzip_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inflating is taken up on the way, not begun anew: 16 MiB and a piece at most."""
    events = [event("op", i, 1, index=i, filler="y" * 2000) for i in range(20_000)]
    trace = load(gzip.compress(json.dumps(events).encode(), 1))
    inflated = 0

    def counting(*arguments: Any) -> Iterator[tuple[bytes, State]]:
        nonlocal inflated
        for piece, state in inflate(*arguments):
            inflated += len(piece)
            yield piece, state

    monkeypatch.setattr(source, "inflate", counting)
    for row in (0, 9_000, 19_999):
        inflated = 0
        assert trace.read_arguments(row)["index"] == row
        assert 0 < inflated <= 17 * 1024 * 1024


def test_arguments_of_a_file_that_changed_are_refused() -> None:
    trace = load([event("op", 1, 2)])
    trace.path.write_text("[]")
    with pytest.raises(TraceError, match="has changed"):
        trace.read_arguments(0)
    trace.path.unlink()
    with pytest.raises(TraceError, match="cannot read"):
        trace.read_arguments(0)


def test_progress_ends_at_the_size_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    raw = json.dumps([event("op", i, 1, x=str(i)) for i in range(20_000)]).encode()
    path.write_bytes(gzip.compress(raw))
    seen: list[tuple[int, int]] = []
    load_trace(path, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_loading_stops_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([event("op", i, 1) for i in range(10_000)]))
    answers = iter([False, True])
    with pytest.raises(LoadCancelled):
        load_trace(path, cancelled=lambda: next(answers))


@pytest.mark.parametrize("compiled", [True, False])
def test_memory_events_know_their_block_and_thread(
    monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr(native, "compiled", lambda: None)
    known, elsewhere = memory(20, 64, 64, Addr=1 << 40), memory(30, -64, 0, tid=77)
    trace = load({"traceEvents": [elsewhere, cpu("aten::empty", 10, 20), known]})
    assert trace.memory.address.tolist() == [1 << 40, NONE]
    on_its_track, nowhere = trace.memory.track.tolist()
    assert trace.tracks[on_its_track].thread == "1"
    assert nowhere == NONE


def test_traces_are_found_by_content(tmp_path: Path) -> None:
    log = tmp_path / "log" / "plugins"
    log.mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    trace = json.dumps({"schemaVersion": 1, "traceEvents": [event("op", 1, 2)]}).encode()
    late = b'{"deviceProperties": [' + b'{"id": 1},' * 100_000 + b'{}], "traceEvents": []}'
    wanted = {
        log / "host_12.1700.pt.trace.json": trace,
        log / "host_12.1701.pt.trace.json.gz": gzip.compress(trace),
        tmp_path / "list.json": b"\xef\xbb\xbf" + json.dumps([event("op", 1, 2)]).encode(),
        tmp_path / "named.json.gz": trace,
        tmp_path / "late.json": late,
    }
    others = {
        tmp_path / "package.json": b'{"name": "x"}',
        tmp_path / "list_of_numbers.json": b"[1, 2]",
        tmp_path / "empty.json": b"",
        tmp_path / "broken.json.gz": b"\x1f\x8b\x00",
        tmp_path / "trace.txt": trace,
        tmp_path / ".hidden" / "trace.json": trace,
    }
    for path, content in {**wanted, **others}.items():
        path.write_bytes(content)
    assert find_traces(tmp_path) == sorted(wanted)
    assert not is_trace(tmp_path / "absent.json")


def test_a_directory_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a directory"):
        find_traces(tmp_path / "absent")


ROWS = 12_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Some pieces long; begins with what ends last."""
    events = [cpu(f"op {n % 7}", n * 10, 25, tid=n % 3, n=n) for n in range(ROWS)]
    return write(tmp_path / "trace.json", [cpu("whole", 0, ROWS * 10, tid=0, n=-1), *events])


def test_previews_are_the_first_rows_and_change_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.trace.kineto.load.FIRST_PREVIEW", 1000)
    monkeypatch.setattr("perftui.trace.kineto.load.PREVIEW_GROWTH", 2)
    previews: list[Trace] = []
    trace = load_trace(path, preview=previews.append)
    assert [len(each) for each in previews] == sorted({len(each) for each in previews})
    assert len(previews) >= 2
    for preview in previews:
        numbers = sorted(int(preview.read_arguments(row)["n"]) for row in range(0, 900, 30))
        assert numbers[-1] < len(preview)
        assert preview.names == trace.names
        assert (preview.depth.max(), preview.warnings) == (trace.depth.max(), ())
    plain = load_trace(path)
    for column in ("start", "duration", "name", "track", "parent", "depth"):
        assert np.array_equal(getattr(trace, column), getattr(plain, column))
    assert trace.warnings == plain.warnings


def test_a_short_trace_has_none(path: Path) -> None:
    previews: list[Trace] = []
    load_trace(path, preview=previews.append)
    assert previews == []


# Text that looks like the punctuation between events.
NASTY = st.sampled_from(
    ["}, {", '"}, {"ph": "X"', "]", "},{", "\\", '"', "\n", "ü", "🙂", "a", "[{"]
)
TEXT = st.lists(NASTY, max_size=5).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from("XMi"), "name": TEXT},
    optional={"args": st.dictionaries(TEXT, VALUES, max_size=3), "pid": st.integers(0, 3)},
)


def decoded(text: bytes, sizes: list[int]) -> tuple[list[Batch], Batches]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    batches = Batches(offset=0)
    return list(batches.decode([*pieces, text[at:]])), batches


@pytest.mark.slow
@given(
    st.lists(EVENT, max_size=8),
    st.lists(st.integers(0, 90), max_size=8),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_any_cut_gives_the_same_events(
    events: list[dict[str, Any]], sizes: list[int], indent: int | None, ascii_only: bool
) -> None:
    array = json.dumps(events, indent=indent, ensure_ascii=ascii_only)
    tail = ', "traceName": "}, {"}'
    text = (array[1:] + tail).encode()
    batches, outcome = decoded(text, sizes)
    found = [(event.ph, event.name) for batch in batches for event in batch.events]
    assert found == [(event["ph"], event["name"]) for event in events]
    assert (outcome.closed, outcome.skipped, outcome.tail.decode()) == (True, [], tail)


@pytest.mark.parametrize("strict", [True, False])
def test_arguments_that_are_no_plain_json_are_read_all_the_same(strict: bool) -> None:
    text = b'{"ph": "X", "args": {"a": 1}}, {"ph": "i"}, {"ph": "X", "args": {"b": NaN}}'
    count, found = arguments_in(text, strict, [1, 0])
    assert count == 2
    assert math.isnan(found[0]["b"])
    assert found[1] == {"a": 1}


@pytest.mark.slow
def test_text_without_an_event_is_dropped_rather_than_kept() -> None:
    junk = [b'"' + b"x" * 1_000_000] * 20
    batches = Batches(offset=5)
    assert [event for batch in batches.decode(junk) for event in batch.events] == []
    assert batches.skipped[0] == 5
