"""Idle time of the GPU: its causes, copies, and calls that wait."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.intervals import EMPTY, Intervals, union
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Severity
from perftui.diagnosis.symptoms.gpu_idle.copies import FASTEST_WRITE
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.host_waits import SyncCalls, syncs
from perftui.facts.gpu.idle import idle_by_cause
from perftui.facts.ranks.matched_collectives import NOISE, RankCollectives
from perftui.facts.ranks.traced_ranks import CausedWaits, caused_waits
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from tests.core.diagnosis.runs import MS, ON_GPU, event_table, facts_of, make_run, with_tables
from tests.core.diagnosis.stories import (
    CALL,
    diagnosed,
    finding_of,
    found,
    severity_of,
    synchronising,
    training,
)
from tests.described import described
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import call, cpu, gpu, mark, trace_of

LINE = "train.py(12): main"


def copied(way: str, copying: int, size: int, *, pinned: bool = False) -> TraceBuilder:
    """A copy of so many us, which the host waits for; the GPU computes the rest of each step."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().frame(LINE).op("aten::to").op("aten::copy_")
        t.copy(way, us(copying), size, pinned=pinned, call=us(copying), starts=begin)
        t.close().close().close()
        t.launch("gemm", us(1000 - copying), call=CALL, starts=begin + us(copying))
        t.at(begin + us(1000)).end()

    return training().repeat(4, step)


def made(
    *makers: str, lasting: int = 100, fetched: bool = False, size: int = 1 << 20
) -> TraceBuilder:
    """Operators of so many us each, then the copy of what they made; then the GPU computes."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        if fetched:
            t.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        t.frame(LINE)
        for maker in makers:
            t.op(maker, us(lasting))
        if fetched:
            t.close().close().frame(LINE)
        t.op("aten::to")
        t.copy("HtoD", us(10), size, pinned=False, call=us(10), starts=t.now).close().close()
        t.launch("gemm", begin + us(1000) - t.now, call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    return training().repeat(4, step)


@pytest.mark.parametrize(("waiting", "severity"), [(80, Severity.WARNING), (9, None)])
def test_memory_got_within_the_operator_that_copies_is_no_wait_for_the_copy(
    waiting, severity
) -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::to").op("aten::empty_strided").malloc(us(500)).close()
        t.copy("HtoD", us(1), 64, pinned=False, call=us(waiting), starts=t.now).close()
        t.launch("gemm", us(400), call=CALL, starts=begin + us(600)).at(begin + us(1000)).end()

    finding = found(training().repeat(4, step), "pageable-copies")
    assert severity_of(finding) is severity
    assert finding is None or finding.cost_ns == us(waiting)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (100, ["pageable-copies", "launch-bound"]),
        (99, ["launch-bound", "pageable-copies"]),
        (0, ["launch-bound"]),
    ],
)
def test_a_cause_that_delays_launches_stands_first_from_a_third_of_launching_on(
    waiting, expected
) -> None:
    """Launching costs 300 us of each step, the copy less."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        if waiting:
            t.op("aten::to").copy("HtoD", us(1), 64, pinned=False, call=us(waiting), starts=begin)
            t.close()
        t.at(begin + us(waiting)).op("aten::add", us(300)).at(t.now - CALL)
        t.launch("gemm", us(700 - waiting), call=CALL, starts=t.now).at(begin + us(1000)).end()

    judged = diagnosed(training().repeat(4, step))
    assert [each.rule for each in judged.findings if each.rule in expected] == expected


def test_pinned_batches_that_nothing_hides_are_exposed_copies() -> None:
    finding = finding_of(copied("HtoD", 200, 1 << 20, pinned=True), "copies-exposed")
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, 200_000)
    assert "mostly 1.0 MiB to the GPU" in finding.sentence


def test_copies_both_ways_at_the_same_time_are_counted_once() -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        for stream, way in enumerate(("HtoD", "DtoH"), start=20):
            t.copy(way, us(400), 1 << 20, call=CALL, starts=begin + us(50), stream=stream)
        t.launch("gemm", us(550), call=CALL, starts=begin + us(450)).at(begin + us(1000)).end()

    finding = finding_of(training().repeat(4, step), "copies-exposed")
    assert finding.cost_ns == us(400)
    assert "400 µs of each 1.0 ms step (40 %)" in finding.sentence


def test_what_no_operator_had_the_time_to_write_is_not_made() -> None:
    most = us(100) * FASTEST_WRITE
    assert finding_of(made("aten::zeros", size=most), "created-on-cpu").cost_ns == us(100)
    data = diagnosed(made("aten::zeros", size=most + 1))
    assert found(data, "created-on-cpu") is None
    assert found(data, "pageable-copies") is not None
    # What is made may be repeated before it is copied.
    repeated = made("aten::arange", "aten::repeat", size=most + 1)
    assert finding_of(repeated, "created-on-cpu").cost_ns == us(200)


def test_the_time_in_which_tensors_are_made_is_reported_once() -> None:
    rules = {each.rule for each in diagnosed(made("aten::normal_", lasting=600)).findings}
    assert "created-on-cpu" in rules
    assert "largest-part" not in rules

    def computing(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::normal_", us(600)).launch("gemm", us(300), call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    largest = finding_of(training().repeat(4, computing), "largest-part")
    assert largest.parts == ("cpu operators",)


def small_copies(copies: int) -> TraceBuilder:
    """Steps of 1 ms with so many copies of 5 us, each waited for."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        for _ in range(copies):
            t.op("aten::to").copy("HtoD", us(5), 512, call=us(5), starts=t.now).close().pause(us(5))
        t.launch("gemm", us(1000) - (t.now - begin), call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    return training().repeat(4, step)


def on_the_cpu_alone() -> TraceBuilder:
    return training().repeat(4, lambda t: t.step().op("aten::to", us(900)).end())


def sync_call(name: str, line: int, count: int, time: int, **more: Any) -> dict[str, Any]:
    site = {"file": "/home/a/train.py", "line": line, "function": "main", "longest": time}
    return {"call": name, "count": count, "time": time, **site, **more}


def window(*calls: dict[str, Any], steps: int = 2, gpu: bool = True) -> dict[str, Any]:
    return {"file": "w.json", "steps": steps, "syncs": {"gpu": gpu, "calls": list(calls)}}


def windows(*data: Any) -> Table:
    return event_table(events=tuple(("window", each) for each in data))


def sync_calls(events: Table) -> SyncCalls | None:
    return syncs(facts_of(events=events))


def with_windows(run: RunSnapshot, *data: Any) -> RunSnapshot:
    return with_tables(run, events=windows(*data))


def test_windows_are_summed_by_call_and_line() -> None:
    calls = sync_calls(
        windows(
            window(sync_call("item", 31, 2, 4 * MS), sync_call("x[mask]", 40, 1, MS)),
            window(sync_call("item", 31, 3, 5 * MS), sync_call("item", 50, 3, 7 * MS), steps=3),
        )
    )
    assert (calls.steps, calls.on_gpu) == (5, True)
    assert [(one.call, one.line, one.count, one.time, one.longest) for one in calls.calls] == [
        ("item", 31, 5, 9 * MS, 5 * MS),
        ("item", 50, 3, 7 * MS, 7 * MS),
        ("x[mask]", 40, 1, MS, MS),
    ]


def test_windows_before_the_gpu_was_used_do_not_count() -> None:
    calls = sync_calls(
        windows(window(sync_call("item", 31, 2, MS), gpu=False), window(sync_call("cpu", 9, 1, MS)))
    )
    assert [one.call for one in calls.calls] == ["cpu"]
    assert calls.steps == 2


@pytest.mark.parametrize(
    "data",
    [
        {"file": "w.json", "steps": 2},
        {"file": "w.json", "steps": 0, "syncs": {"gpu": True, "calls": []}},
        {"file": "w.json", "steps": 2, "syncs": {"gpu": True, "calls": [{"call": 3}]}},
        {"file": "w.json", "steps": 2, "syncs": "none"},
        "text",
    ],
)
def test_what_tells_of_no_calls_is_no_empty_list(data: Any) -> None:
    assert sync_calls(windows(data)) is None


def test_the_report_says_what_each_line_takes() -> None:
    run = with_windows(make_run(**ON_GPU), window(sync_call("item", 31, 4, 6 * MS)))
    report = make_report(Subject(run.root, run))
    text = render(report)
    assert "Calls that wait for the GPU, over 2 profiled steps" in text
    assert "2.0       3.0 ms    6.0 ms  item at /home/a/train.py:31" in text
    assert described("report", as_json.as_object(report))["syncs"]["calls"][0]["count"] == 4


def test_a_time_that_is_not_known_stays_unknown() -> None:
    unknown = sync_call("an operation", 9, 3, -1)
    run = with_windows(make_run(**ON_GPU), window(unknown), window(unknown))
    calls = sync_calls(run.ranks[0].events)
    assert [(one.count, one.time, one.longest) for one in calls.calls] == [(6, -1, -1)]
    text = render(make_report(Subject(run.root, run)))
    assert "1.5      unknown            an operation at /home/a/train.py:9" in text


def test_a_training_without_a_gpu_is_told_that_nothing_waited() -> None:
    run = with_windows(make_run(), window(sync_call("item", 31, 4, 6 * MS), gpu=False))
    text = render(make_report(Subject(run.root, run)))
    assert "Calls that would wait for a GPU, over 2 profiled steps" in text
    assert "This training used no GPU: nothing waited" in text


def test_names_of_calls_cannot_drive_the_terminal() -> None:
    evil = sync_call("item\x1b[2J", 31, 4, MS, file="\x1b[2Jtrain.py")
    run = with_windows(make_run(**ON_GPU), window(evil))
    assert "\x1b" not in render(make_report(Subject(run.root, run)))


def test_the_finding_names_the_line_that_was_counted_if_a_gpu_waited_for_it() -> None:
    run = with_windows(
        make_run(phases={"forward": 1}, **ON_GPU), window(sync_call("item", 33, 2, 4 * MS))
    )
    finding = finding_of(synchronising(300), "sync-bound", run)
    assert finding.sentence.startswith("item at train.py:33 makes the CPU wait")
    (fact,) = (fact for fact in finding.facts if fact.label == "item, a step")
    assert (fact.value, fact.unit) == (2 * MS, "ns")
    assert fact.place.source == "/home/a/train.py:33"
    run = with_windows(
        make_run(phases={"forward": 1}, **ON_GPU),
        window(sync_call("item", 33, 2, 4 * MS), gpu=False),
    )
    finding = finding_of(synchronising(300), "sync-bound", run)
    assert ":33" not in finding.sentence


US = 1000


def test_causes_of_one_gap_share_it_and_sum_to_all_idle_time() -> None:
    # Between the kernels: 70 us of Python, 100 us of an allocation, then the launch.
    trace = trace_of(
        mark("ProfilerStep#1", 0, 300),
        call("cudaLaunchKernel", 2, 5, correlation=1),
        call("cudaMalloc", 90, 100),
        call("cudaLaunchKernel", 192, 5, correlation=2),
        call("cudaLaunchKernel", 198, 1, correlation=3),
        gpu("first", 10, 10, 1),
        gpu("second", 200, 10, 2),
        # The device takes half a microsecond between these: too short to be listed.
        gpu("third", 210.5, 89.5, 3),
        cpu("aten::add", 1, 8),
    )
    analysis = analyse(trace)
    found = {one.cause: one for one in idle_by_cause(Facts(None, analysis))}

    assert sum(one.total for one in found.values()) == 300 * US - analysis.activity[0].busy
    assert found[GapCause.ALLOCATION].total == 100 * US
    assert found[GapCause.PYTHON].total == 70 * US
    assert all(0 < gap.duration >= US for gap in analysis.gaps)
    assert sum(gap.duration for gap in analysis.gaps) == 190 * US

    (allocation, python) = (found[cause] for cause in (GapCause.ALLOCATION, GapCause.PYTHON))
    assert (allocation.count, allocation.longest.duration) == (1, 180 * US)
    assert (python.count, python.longest) == (0, None)


def test_without_a_trace_there_is_none() -> None:
    assert idle_by_cause(Facts(None, None)) == ()


def queued(steps: int = 4) -> TraceBuilder:
    """The host waits all the time for a kernel that starts late though it was launched at once."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(300), call=CALL, starts=begin + us(600))
        t.op("aten::item").sync(begin + us(900) - t.now).close().pause(us(10))
        t.launch("add", us(90), call=CALL).pause(us(88)).end()

    return training().repeat(steps, step)


def test_a_wait_costs_what_the_gpu_idles_after_it_and_nothing_while_work_is_queued() -> None:
    assert diagnosed(queued()).top.parts == ("queue wait",)
    assert finding_of(synchronising(300), "sync-bound").cost_ns > us(250)


def test_calls_for_memory_that_set_the_driver_up_are_no_churn() -> None:
    def story(first: int) -> TraceBuilder:
        begun = training().op("aten::empty").call("cudaFree", first, "initialisation")
        begun.malloc(us(200)).close()
        for _ in range(3):
            begun.launch("gemm", ms(20), call=CALL).sync()
            begun.call("cudaFree", ms(10), "allocation").malloc(ms(10))
        return begun.launch("gemm", ms(20), call=CALL).sync()

    churn = finding_of(story(ms(400)), "allocator-churn")
    assert churn.cost_ns == 3 * ms(20)
    assert churn.place is not None
    assert churn.sentence.endswith("3 calls to allocate, 3 to free.")


@pytest.mark.parametrize(
    ("lasting", "asks", "again", "initialises"),
    [
        (us(1000), False, False, True),
        (us(999), False, False, False),
        # The allocator gives back what it keeps, and asks again.
        (us(1000), True, False, False),
        (us(1000), False, True, False),
    ],
)
def test_giving_back_what_nobody_got_starts_a_library(
    lasting: int, asks: bool, again: bool, initialises: bool
) -> None:
    story = training()
    if again:
        story.op("aten::addmm").launch("gemm", us(10)).close()
    story.op("aten::addmm")
    if asks:
        story.malloc(us(1))
    story.call("cudaFree", lasting).malloc(us(200)).launch("gemm", ms(9)).close().sync()
    story.call("cudaFree", us(500)).malloc(us(500)).launch("gemm", us(10))
    freed = finding_of(story, "allocator-churn").facts
    back = next(figure.value for figure in freed if figure.label == "calls that free")
    assert back == (1 if initialises else 2)


Span = tuple[int, int]

LONG = 10 * NOISE
"""ns between collectives, so that none is taken for another that is not at the same time."""


def rank_of(
    spans: Sequence[Span],
    groups: Sequence[str] = (),
    kinds: Sequence[str] = (),
    computing: Intervals = EMPTY,
    clock: int = 0,
    steps: Sequence[int] = (),
) -> RankCollectives:
    """Collectives of one rank, in all of one step, on a clock that goes so many ns ahead."""
    start, end = (np.array([span[at] for span in spans], np.int64) + clock for at in (0, 1))
    count = len(spans)
    return RankCollectives(
        start,
        end,
        np.array(steps or [1] * count, np.int64),
        tuple(groups or ["all"] * count),
        tuple(kinds or ["allreduce"] * count),
        Intervals(computing.start + clock, computing.end + clock),
        frozenset(steps or [1]),
    )


@st.composite
def trainings(draw: st.DrawFn) -> tuple[list[list[Span]], list[Intervals], list[int]]:
    """Collectives of a few ranks that all leave together, what each computes, and its clock."""
    count, ranks = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    small = st.integers(0, 60)
    spans: list[list[Span]] = [[] for _ in range(ranks)]
    for at in range(count):
        starts = [LONG * at + draw(small) for _ in range(ranks)]
        end = max(starts) + draw(st.integers(1, 20))
        for rank, start in enumerate(starts):
            spans[rank].append((start, end))
    computing = []
    for _ in range(ranks):
        parts = draw(st.lists(st.tuples(st.integers(0, count - 1), small, small), max_size=6))
        begins = np.array([LONG * at + start for at, start, _ in parts], np.int64)
        computing.append(union(begins, begins + np.array([n for _, _, n in parts], np.int64)))
    clocks = draw(st.lists(st.integers(-LONG, LONG), min_size=ranks, max_size=ranks))
    return spans, computing, clocks


def reckoned(spans: list[list[Span]], computing: list[Intervals]) -> dict[tuple[int, int], int]:
    """By waiting and by late rank the nanoseconds, each looked at by itself."""
    waits: dict[tuple[int, int], int] = {}
    busy = [
        {ns for a, b in zip(each.start, each.end, strict=True) for ns in range(a, b)}
        for each in computing
    ]
    for at in range(len(spans[0])):
        starts = [each[at][0] for each in spans]
        late = starts.index(max(starts))
        for rank, start in enumerate(starts):
            lost = sum(ns not in busy[rank] for ns in range(start, max(starts)))
            if rank != late and lost:
                waits[rank, late] = waits.get((rank, late), 0) + lost
    return waits


def as_dict(found: CausedWaits, numbers: Sequence[int]) -> dict[tuple[int, int], int]:
    """The waits that are not 0, by the ranks' own numbers."""
    return {
        (numbers.index(one), numbers.index(other)): ns
        for one in found.ranks
        for other in found.ranks
        if one != other and (ns := found.between(one, other))
    }


@pytest.mark.slow
@settings(max_examples=200)
@given(trainings(), st.randoms(use_true_random=False))
def test_waits_are_those_of_a_plain_reckoning(
    training: tuple[list[list[Span]], list[Intervals], list[int]], random
) -> None:
    """Whatever the clocks of the ranks, and whatever they are numbered. The median of ends that
    agree is exact, so that no wait is off by a nanosecond."""
    spans, computing, clocks = training
    numbers = list(range(10, 10 + len(spans)))
    random.shuffle(numbers)
    ranks = {
        number: rank_of(spans[at], computing=computing[at], clock=clocks[at])
        for at, number in enumerate(numbers)
    }
    found = caused_waits(dict(sorted(ranks.items(), key=lambda _: random.random())))
    # Of ranks that come at one moment the waits for either are 0.
    expected = reckoned(spans, computing)
    got = as_dict(found, numbers)
    for at in range(len(spans)):
        assert sum(ns for (one, _), ns in got.items() if one == at) == sum(
            ns for (one, _), ns in expected.items() if one == at
        )
    ties = any(
        starts.count(max(starts)) > 1
        for starts in ([each[at][0] for each in spans] for at in range(len(spans[0])))
    )
    assert ties or got == expected
    assert sum(map(found.caused, found.ranks)) == sum(map(found.waited, found.ranks))


def test_waits_for_several_ranks_and_the_latest() -> None:
    """Rank 2 comes 50 and 30 late, rank 0 once 10."""
    found = caused_waits(
        {
            0: rank_of([(0, 60), (LONG, LONG + 40), (2 * LONG + 10, 2 * LONG + 20)]),
            1: rank_of([(5, 60), (LONG, LONG + 40), (2 * LONG, 2 * LONG + 20)]),
            2: rank_of([(50, 60), (LONG + 30, LONG + 40), (2 * LONG, 2 * LONG + 20)]),
        }
    )
    assert found.latest() == 2
    assert found.waits.tolist() == [[0, 0, 80], [10, 0, 75], [10, 0, 0]]
    assert found.between(2, 2) == (80 + 75) // 2
    assert (found.caused(2), found.waited(2)) == (155, 10)


def test_time_in_two_collectives_at_once_is_waited_once() -> None:
    """Two streams of rank 0 wait for rank 1 at the same time, 100 and 80 of it."""
    both = ["data", "tensor"]
    found = caused_waits(
        {0: rank_of([(0, 110), (20, 120)], both), 1: rank_of([(100, 110), (115, 120)], both)}
    )
    assert found.waits.tolist() == [[0, 115], [0, 0]]


def test_ranks_of_other_groups_are_not_compared() -> None:
    """Ranks 0 and 1 reduce together, and so do 2 and 3, later by far."""
    ranks = {
        0: rank_of([(0, 100)], ["a"]),
        1: rank_of([(70, 100)], ["a"]),
        2: rank_of([(LONG, LONG + 100)], ["b"]),
        3: rank_of([(LONG + 20, LONG + 100)], ["b"]),
    }
    found = caused_waits(ranks)
    assert as_dict(found, [0, 1, 2, 3]) == {(0, 1): 70, (2, 3): 20}
    assert [found.latest(rank) for rank in range(4)] == [1, 1, 3, 3]
    assert (found.latest(), found.between(1, 1), found.between(3, 3)) == (1, 70, 20)


def test_a_rank_that_came_late_for_it_waited_itself_is_not_to_blame() -> None:
    """Rank 0 makes rank 1 wait 50 in the tensor-parallel group. Rank 1 is then 50 late to the
    data-parallel group, where rank 3 waits: for rank 0. What rank 1 is late beyond is its own."""
    ranks = {
        0: rank_of([(50, 60), (100, 110)], ["t01", "d02"]),
        1: rank_of([(0, 60), (120, 130)], ["t01", "d13"]),
        2: rank_of([(0, 10), (50, 110)], ["t23", "d02"]),
        3: rank_of([(0, 10), (50, 130)], ["t23", "d13"]),
    }
    found = caused_waits(ranks)
    assert as_dict(found, [0, 1, 2, 3]) == {(1, 0): 50, (2, 0): 50, (3, 0): 50, (3, 1): 20}


def test_who_waited_as_long_himself_has_nothing_passed_on() -> None:
    """Ranks 1 and 3 both waited 50 in their own groups; then rank 1 works 30 longer."""
    ranks = {
        0: rank_of([(50, 60)], ["t01"]),
        1: rank_of([(0, 60), (90, 100)], ["t01", "d13"]),
        2: rank_of([(50, 60)], ["t23"]),
        3: rank_of([(0, 60), (60, 100)], ["t23", "d13"]),
    }
    assert as_dict(caused_waits(ranks), [0, 1, 2, 3])[3, 1] == 30


def test_the_root_of_a_broadcast_waits_for_nobody() -> None:
    """Rank 0 sends at 40: rank 1 has waited for it. Rank 2 comes at 90, when both have left."""
    kinds = ["broadcast", "allreduce"]
    later = (LONG, LONG + 10)
    ranks = {
        0: rank_of([(40, 50), later], kinds=kinds),
        1: rank_of([(0, 50), later], kinds=kinds),
        2: rank_of([(90, 95), later], kinds=kinds),
    }
    assert as_dict(caused_waits(ranks), [0, 1, 2]) == {(1, 0): 40}


def test_a_rank_with_other_collectives_is_left_apart() -> None:
    same = [(0, 100), (LONG, LONG + 10)]
    kinds = ["allreduce", "allgather"]
    found = caused_waits(
        {
            0: rank_of(same, kinds=kinds),
            1: rank_of([(60, 100), same[1]], kinds=kinds),
            2: rank_of([(90, 100)]),
        }
    )
    assert (found.apart, found.compared) == ((2,), (0, 1))
    assert found.between(0, 1) == 60


def test_only_steps_that_all_have_are_compared() -> None:
    """Rank 1 was recorded from step 2 on: of its steps two are those of rank 0."""
    spans = [(LONG * at, LONG * at + 100) for at in range(4)]
    late = [(start + 40, end) for start, end in spans]
    found = caused_waits(
        {0: rank_of(spans[:3], steps=[1, 2, 3]), 1: rank_of(late[1:], steps=[2, 3, 4])}
    )
    assert found.steps == 2
    assert found.between(0, 1) == 40


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (rank_of([(0, 10)], steps=[7]), "no steady step in common"),
        (rank_of([(0, 10)], ["b"]), "the same collectives in the same order"),
        (rank_of([(0, 10), (9 * LONG, 9 * LONG + 10)]), "is not at the same time"),
    ],
)
def test_what_does_not_match_is_said(other: RankCollectives, reason: str) -> None:
    spans = [(0, 10), (LONG, LONG + 10)][: len(other)]
    with pytest.raises(UnknownError, match=reason):
        caused_waits({0: rank_of(spans), 1: other})
