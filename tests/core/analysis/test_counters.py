"""Which counters a trace has, and on whose clock."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.analyse import without_tables
from perftui.analysis.recorded_steps import recorded_steps
from perftui.facts.counters import counters
from perftui.facts.fact import Facts
from perftui.run.journal import Column
from perftui.run.reader import RunReader
from perftui.run.table import Table
from perftui.trace.model import NONE, MemoryEvents
from tests.tui.recorded import START, write_run
from tests.tui.traces import traced

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


def named(found):
    return {each.name: each for each in found}


def test_samples_of_the_run_are_on_the_clock_of_the_trace(run):
    times = [SECOND * at // 2 for at in range(60)]
    use = [float(at) for at in range(60)]
    known = sampled(run, times, gpu0__utilization=use, gpu0__memory_used=use)
    found = named(counters(Facts(known, window())))
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
    memory = named(counters(Facts(known, window())))["GPU memory"]
    assert memory.place_at(SECOND - 1) is not None
    assert memory.place_at(SECOND) is None
    assert memory.place_at(2 * SECOND - 1) is None


def test_only_what_has_a_sample_in_the_time_of_the_trace_is_a_counter(run):
    known = sampled(run, [0, SECOND], gpu0__utilization=[1, 2], disk__read=[3, 4])
    assert counters(Facts(known, window())) == ()


def test_the_most_there_can_be_is_the_top(run):
    columns = {"gpu0__memory_used": [5e9, 6e9], "gpu0__memory_total": [8e9, 8e9]}
    times = [10 * SECOND, 11 * SECOND]
    known = named(counters(Facts(sampled(run, times, **columns), window())))
    assert known["GPU memory"].top == 8e9
    # 5.588 GiB, with two digits.
    alone = sampled(run, times, gpu0__memory_used=[5e9, 6e9])
    top = named(counters(Facts(alone, window())))["GPU memory"].top
    assert top == pytest.approx(5.6 * 2**30)
    read = sampled(run, times, disk__read=[5e6, 8.12e8])
    assert named(counters(Facts(read, window())))["disk read"].top == pytest.approx(8.2e8)
    still = sampled(run, times, disk__read=[0, 0])
    assert named(counters(Facts(still, window())))["disk read"].top == 0


def test_the_disk_of_the_data_set_goes_before_all_disks(run):
    columns = {"disk__read": [9, 9], "data_disk__read": [1, 2]}
    known = sampled(run, [10 * SECOND, 11 * SECOND], **columns)
    assert named(counters(Facts(known, window())))["disk read"].value.tolist() == [2]


def test_several_gpus_are_numbered(run):
    columns = {"gpu0__memory_used": [1, 1], "gpu3__memory_used": [2, 2]}
    found = counters(Facts(sampled(run, [10 * SECOND, 11 * SECOND], **columns), window()))
    assert [each.name for each in found] == ["GPU 0 memory", "GPU 3 memory"]


def test_without_a_clock_nothing_of_the_run_can_be_placed(run):
    known = sampled(run, [10 * SECOND, 11 * SECOND], gpu0__memory_used=[1, 1])
    assert counters(Facts(known, window(wall=None))) == ()
    assert counters(Facts(None, window())) == ()


def test_the_queue_of_the_loader_is_that_of_each_step(run):
    steps = run.ranks[0].steps
    ready = np.arange(len(steps), dtype=np.int64) % 3
    ready[5] = NONE
    table = Table(steps.columns, {**steps.values, "batches_ready": ready})
    known = replace(run, ranks=(replace(run.ranks[0], steps=table),), telemetry={})
    queue = named(counters(Facts(known, recorded_steps(known))))["loader queue"]
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
    found = named(counters(Facts(known, recorded_steps(known))))["GPU allocated"]
    ends = (steps["start"] + steps["duration"] - steps["start"][0]).tolist()
    assert list(zip(found.start, found.end, found.value, strict=True)) == [
        (ends[10], ends[11], 7),
        (ends[11], ends[12], 8),
        (ends[20], ends[21], 9),
    ]
