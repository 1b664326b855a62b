"""Tracks of the timeline, and which counters a trace has, on whose clock."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import without_tables
from perftui.analysis.recorded_steps import recorded_steps
from perftui.analysis.timeline.track import WHOLE
from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from perftui.facts.counters import counters
from perftui.facts.fact import Facts
from perftui.run.journal import Column
from perftui.run.reader import RunReader
from perftui.run.table import Table
from perftui.trace.model import NONE, MemoryEvents, Trace
from tests.traces.events import cpu, frame, gpu, mark, named, trace_of
from tests.tui.recorded import START, write_run
from tests.tui.traces import traced


def test_devices_come_first_then_the_main_thread() -> None:
    trace = trace_of(
        cpu("early", 0, 5, tid=3),
        mark("ProfilerStep#1", 10, 90, tid=1),
        cpu("aten::linear", 20, 10, tid=1),
        cpu("aten::mm", 22, 5, tid=1),
        gpu("k", 30, 5, stream=20, device=1),
        gpu("k", 30, 5, stream=7),
        gpu("range", 30, 50, cat="gpu_user_annotation", stream=7),
        {"ph": "M", "name": "thread_name", "pid": 500, "tid": 1, "args": {"name": "main"}},
    )
    tracks = [(track.label, track.kind, track.depth) for track in timeline_tracks(trace)]
    assert tracks == [
        ("GPU 0 stream 7", "device", 0),
        ("GPU 0 stream 7", "marks", 0),
        ("GPU 1 stream 20", "device", 0),
        ("main", "thread", 0),
        ("main", "thread", 1),
        ("main", "thread", 2),
        ("thread 3", "thread", 0),
    ]


def test_what_names_no_stream_is_not_called_like_its_device() -> None:
    unknown = gpu("k", 60, 5)
    del unknown["args"]["stream"], unknown["tid"]
    several = trace_of(gpu("k", 10, 5, stream=7), gpu("k", 30, 5, stream=8), unknown)
    assert [track.label for track in timeline_tracks(several)] == [
        "GPU 0", "GPU 0 no stream", "GPU 0 stream 7", "GPU 0 stream 8"
    ]  # fmt: skip
    assert [track.label for track in timeline_tracks(trace_of(unknown))] == ["GPU 0"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=20))
def test_overlaps_on_a_stream_are_spread_over_as_few_tracks_as_they_need(
    spans: list[tuple[int, int]],
) -> None:
    trace = trace_of(*(gpu("k", start, length) for start, length in spans))
    tracks = timeline_tracks(trace)
    rows = np.concatenate([track.index.rows for track in tracks])
    assert sorted(rows.tolist()) == list(range(len(spans)))
    for track in tracks:
        assert np.all(track.index.start[1:] >= track.index.end[:-1])
    deepest = max(
        sum(start <= moment < start + length for start, length in spans) for moment in range(80)
    )
    assert len(tracks) >= max(1, deepest)
    if all(length for _, length in spans):
        assert len(tracks) == deepest


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 20)),
        min_size=1,
        max_size=20,
    )
)
def test_a_device_of_several_streams_is_busy_while_any_of_them_is(
    spans: list[tuple[int, int, int]],
) -> None:
    trace = trace_of(*(gpu("k", start, length, stream=s) for s, start, length in spans))
    tracks = timeline_tracks(trace)
    whole = [track for track in tracks if track.kind == WHOLE]
    assert len(whole) == (len({stream for stream, _, length in spans if length}) > 1)
    first = min(start for _, start, _ in spans)
    for track in whole:
        index = track.index
        assert track is tracks[0]
        assert track.label == "GPU 0"
        assert np.all(index.start[1:] >= index.end[:-1])
        assert np.all(index.start >= trace.start[index.rows])
        assert np.all(index.end == trace.ends_of(index.rows))
        busy = {at - first for _, start, length in spans for at in range(start, start + length)}
        assert index.busy(0, 80_000, 80).tolist() == [1000 * (at in busy) for at in range(80)]


def labels(trace: Trace) -> list[str]:
    return list(dict.fromkeys(one.label for one in timeline_tracks(trace) if one.kind == "thread"))


def test_threads_are_called_by_what_they_run() -> None:
    trace = trace_of(
        mark("ProfilerStep#1", 0, 100),
        cpu("aten::mm", 10, 20),
        cpu("autograd::engine::evaluate_function: MmBackward0", 40, 20, tid=2),
        cpu("aten::pin_memory", 50, 5, tid=3),
        cpu("torch/utils/data/_utils/worker.py(213): _worker_loop", 51, 9, "python_function", 4),
        cpu("aten::mul", 60, 5, tid=5),
        gpu("k", 20, 5),
        named(1, "thread 1 (python3)"),
        named(2, "thread 2 (python3)"),
    )
    assert labels(trace) == [
        *("main thread", "autograd", "pin memory thread", "data loader worker", "thread 5")
    ]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("thread 9 (pt_autograd_0)", "autograd"),
        ("thread 9 (pt_data_pin)", "pin memory thread"),
        ("thread 9 (pt_data_worker)", "data loader worker"),
        ("pt_nccl_watchdg", "NCCL watchdog"),
        ("thread 9 (pt_gloo_runloop)", "thread 9 (pt_gloo_runloop)"),
        ("my prefetcher", "my prefetcher"),
        ("thread 9 (python)", "thread 9 (python)"),
    ],
)
def test_threads_are_called_by_the_names_that_torch_gives_them(name: str, label: str) -> None:
    trace = trace_of(mark("ProfilerStep#1", 0, 100), cpu("aten::mul", 60, 5, tid=9), named(9, name))
    assert labels(trace) == ["main thread", label]


def test_threads_of_one_role_are_numbered_and_a_name_of_their_own_stays() -> None:
    backward = "autograd::engine::evaluate_function: MmBackward0"
    trace = trace_of(
        mark("ProfilerStep#1", 0, 100), cpu(backward, 40, 20, tid=7), cpu(backward, 30, 20, tid=8)
    )
    assert labels(trace) == ["main thread", "autograd 1", "autograd 2"]
    trace = trace_of(mark("ProfilerStep#1", 0, 100), frame("train.py(1): f", 5, 5), named(1, "go"))
    assert labels(trace) == ["go"]


SPAN = 2_000
"""ns of the main thread, of which a hundredth is 20."""


def threads(*spans):
    """A trace whose main thread works all the time, and one more thread for each list of spans."""
    events = [cpu("aten::mm", 0, SPAN / 1000, tid=1)]
    for thread, own in enumerate(spans, 2):
        events += [cpu("aten::add", at / 1000, length / 1000, tid=thread) for at, length in own]
    return trace_of(*(named(1, "main"),), *events)


def found_in(trace):
    return helper_threads(trace, timeline_tracks(trace))


EVENT = st.tuples(st.integers(0, SPAN - 30), st.integers(1, 29))


@pytest.mark.slow
@given(st.lists(st.lists(EVENT, min_size=1, max_size=4), min_size=1, max_size=5))
def test_those_whose_events_cover_less_than_a_hundredth(spans):
    trace = threads(*spans)
    covered = [{t for at, length in own for t in range(at, at + length)} for own in spans]
    few = [number for number, each in enumerate(covered, 2) if len(each) < SPAN / 100]
    found = found_in(trace)
    if len(few) < 2:
        assert len(found) == len(few)
        return
    (helpers,) = found
    assert {int(trace.tracks[thread].thread) for thread in helpers.threads} == set(few)
    # What any of them does, each moment once.
    every = set().union(*(covered[number - 2] for number in few))
    shift = int(trace.start.min())
    index = helpers.track.index
    assert int(index.busy(shift, shift + SPAN, 1)[0]) == len(every)
    assert (index.start[1:] >= index.end[:-1]).all()
    assert helpers.track.label == f"{len(few)} threads under 1 %"


def test_the_thread_that_trains_is_never_one():
    quiet = [cpu("aten::mm", 0, 0.001, tid=1)]
    long = [cpu("aten::add", 0, 2.0, tid=2)]
    others = [cpu("aten::add", 1, 0.002, tid=thread) for thread in (3, 4)]
    trace = trace_of(named(1, "python"), *quiet, *long, *others)
    roles = {int(trace.tracks[t].thread) for one in found_in(trace) for t in one.threads}
    assert 2 not in roles


def test_a_single_one_keeps_its_name():
    (one,) = found_in(threads([(5, 3)], [(0, 500)]))
    assert one.track.label == "thread 2"


def test_a_thread_that_only_waits_is_one():
    wait = cpu("threading.py(629): wait", 2, 1.9, "python_function", 9)
    run = cpu("tqdm/_monitor.py(60): run", 1, 2.0, "python_function", 9)
    (one,) = found_in(trace_of(named(1, "main"), cpu("aten::mm", 0, 200.0, tid=1), run, wait))
    assert one.track.label == "tqdm monitor"


MS, SECOND = 1_000_000, 1_000_000_000


@pytest.fixture
def run(tmp_path: Path):
    return RunReader(write_run(tmp_path, steps=40, workers=4)).poll()


def sampled(run, times, **columns):
    """The run with these samples alone, taken at ``times`` since its start."""
    values = {"time": np.array([START + time for time in times], dtype=np.float64)}
    units = {"utilization": "%", "read": "B/s"}
    described = [Column("time", "ns", "when")]
    for name, value in columns.items():
        name = name.replace("__", ".")
        described.append(Column(name, units.get(name.rpartition(".")[2], "B"), name))
        values[name] = np.array(value, dtype=np.float64)
    return replace(run, ranks=(), telemetry={run.manifest.host: Table(tuple(described), values)})


def window(wall=START + 10 * SECOND):
    """A trace of two seconds that begins ten seconds after the run."""
    trace = traced(("aten::mm", 0, 0, 2 * SECOND), ("gemm", 1, 0, SECOND))
    return without_tables(replace(trace, wall_origin=wall))


def by_name(found):
    return {each.name: each for each in found}


def test_samples_of_the_run_are_on_the_clock_of_the_trace(run):
    times = [SECOND * at // 2 for at in range(60)]
    use = [float(at) for at in range(60)]
    known = sampled(run, times, gpu0__utilization=use, gpu0__memory_used=use)
    found = by_name(counters(Facts(known, window())))
    memory = found["GPU memory"]
    # Those taken 9.5 s to 12 s after the start reach into it, the first with its end alone.
    assert memory.at.tolist() == [0, SECOND // 2, SECOND, 3 * SECOND // 2]
    assert memory.value.tolist() == [20, 21, 22, 23]
    assert memory.interval == SECOND // 2
    # A share of time is about the time before the sample.
    share = found["GPU use"]
    assert share.at.tolist() == [SECOND // 2, SECOND, 3 * SECOND // 2, 2 * SECOND]
    assert share.start.tolist() == [0, SECOND // 2, SECOND, 3 * SECOND // 2]
    assert (share.unit, share.top) == ("%", 100.0)


def test_a_missing_sample_is_a_gap(run):
    times = [SECOND * at // 2 for at in range(60)]
    value = [float("nan") if at in (22, 23) else 7.0 for at in range(60)]
    known = sampled(run, times, gpu0__memory_used=value)
    memory = by_name(counters(Facts(known, window())))["GPU memory"]
    assert memory.place_at(SECOND - 1) is not None
    assert memory.place_at(SECOND) is None
    assert memory.place_at(2 * SECOND - 1) is None


def test_a_counter_needs_a_clock_and_a_sample_in_the_time_of_the_trace(run):
    known = sampled(run, [0, SECOND], gpu0__utilization=[1, 2], disk__read=[3, 4])
    assert counters(Facts(known, window())) == ()
    known = sampled(run, [10 * SECOND, 11 * SECOND], gpu0__memory_used=[1, 1])
    assert counters(Facts(known, window(wall=None))) == ()
    assert counters(Facts(None, window())) == ()


def test_the_most_there_can_be_is_the_top(run):
    columns = {"gpu0__memory_used": [5e9, 6e9], "gpu0__memory_total": [8e9, 8e9]}
    times = [10 * SECOND, 11 * SECOND]
    known = by_name(counters(Facts(sampled(run, times, **columns), window())))
    assert known["GPU memory"].top == 8e9
    # 5.588 GiB, with two digits.
    alone = sampled(run, times, gpu0__memory_used=[5e9, 6e9])
    top = by_name(counters(Facts(alone, window())))["GPU memory"].top
    assert top == pytest.approx(5.6 * 2**30)
    read = sampled(run, times, disk__read=[5e6, 8.12e8])
    assert by_name(counters(Facts(read, window())))["disk read"].top == pytest.approx(8.2e8)
    still = sampled(run, times, disk__read=[0, 0])
    assert by_name(counters(Facts(still, window())))["disk read"].top == 0


def test_the_disk_of_the_data_set_goes_first_and_several_gpus_are_numbered(run):
    columns = {"disk__read": [9, 9], "data_disk__read": [1, 2]}
    known = sampled(run, [10 * SECOND, 11 * SECOND], **columns)
    assert by_name(counters(Facts(known, window())))["disk read"].value.tolist() == [2]
    columns = {"gpu0__memory_used": [1, 1], "gpu3__memory_used": [2, 2]}
    found = counters(Facts(sampled(run, [10 * SECOND, 11 * SECOND], **columns), window()))
    assert [each.name for each in found] == ["GPU 0 memory", "GPU 3 memory"]


def test_the_queue_of_the_loader_is_that_of_each_step(run):
    steps = run.ranks[0].steps
    ready = np.arange(len(steps), dtype=np.int64) % 3
    ready[5] = NONE
    table = Table(steps.columns, {**steps.values, "batches_ready": ready})
    known = replace(run, ranks=(replace(run.ranks[0], steps=table),), telemetry={})
    queue = by_name(counters(Facts(known, recorded_steps(known))))["loader queue"]
    others = np.arange(len(steps)) != 5
    assert queue.value.tolist() == ready[others].tolist()
    assert queue.at.tolist() == (steps["start"] - steps["start"][0])[others].tolist()
    # Four workers, two batches each.
    assert (queue.top, queue.unit) == (8.0, "batches")


def test_memory_events_hold_every_change():
    at = np.array([0, 100, 100, 300], dtype=np.int64)
    memory = MemoryEvents(
        start=at,
        change=np.array([10, 5, 5, -20], dtype=np.int64),
        device_type=np.ones(4, dtype=np.int64),
        device=np.zeros(4, dtype=np.int64),
        allocated=np.array([10, 15, 20, 0], dtype=np.int64),
        reserved=np.full(4, NONE, dtype=np.int64),
    )
    trace = replace(traced(("aten::mm", 0, 0, 1000)), memory=memory)
    (found,) = counters(Facts(None, without_tables(trace)))
    assert (found.name, found.unit, found.top, found.interval) == ("GPU allocated", "B", 20.0, 0)
    assert found.means(0, 1000, 10).tolist() == [10, 20, 20, 0, 0, 0, 0, 0, 0, 0]
    both = replace(memory, device_type=np.array([0, 1, 1, 1], dtype=np.int64))
    (found,) = counters(Facts(None, without_tables(replace(trace, memory=both))))
    assert (found.name, found.value.tolist()) == ("GPU allocated", [20, 0])
    cpu = replace(memory, device_type=np.zeros(4, dtype=np.int64))
    (found,) = counters(Facts(None, without_tables(replace(trace, memory=cpu))))
    assert found.name == "CPU allocated"
    unknown = replace(memory, allocated=np.full(4, NONE, dtype=np.int64))
    assert counters(Facts(None, without_tables(replace(trace, memory=unknown)))) == ()


def test_memory_at_the_end_of_a_step_stands_for_the_next(run):
    steps = run.ranks[0].steps
    held = np.full(len(steps), NONE, dtype=np.int64)
    held[[10, 11, 20]] = 7, 8, 9
    table = Table(steps.columns, {**steps.values, "allocated": held})
    known = replace(run, ranks=(replace(run.ranks[0], steps=table),), telemetry={})
    found = by_name(counters(Facts(known, recorded_steps(known))))["GPU allocated"]
    ends = (steps["start"] + steps["duration"] - steps["start"][0]).tolist()
    assert list(zip(found.start, found.end, found.value, strict=True)) == [
        (ends[10], ends[11], 7),
        (ends[11], ends[12], 8),
        (ends[20], ends[21], 9),
    ]
