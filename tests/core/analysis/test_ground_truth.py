"""All tables of a trace against what the trace was built to hold."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.gpu_idle.causes import Host, explain_idle
from perftui.analysis.kinds import devices
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.analysis.timeline.measure import Launches
from perftui.trace.model import NONE, Trace
from tests.traces.builder import AUTOGRAD, MAIN, TraceBuilder, meet, ms, us
from tests.traces.truth import Gap

Action = tuple[str, dict[str, object]]

PHASES = ("input_wait", "forward", "backward", "optimizer", "profiler")
LASTING = (
    st.integers(1, 40).map(us)
    | st.integers(1, us(40))
    | st.integers(1, 8).map(lambda n: us(n * 50))
)
LONG = LASTING | st.sampled_from([us(999), ms(1), us(1100), us(4999), ms(5)])
TIME = st.integers(0, 200).map(us) | st.integers(0, us(200))
PLACE = {
    "stream": st.sampled_from([7, 7, 20]),
    "device": st.sampled_from([0, 0, 0, 1]),
    "starts": st.none() | st.none() | TIME,
    "call": st.integers(0, us(9)) | LONG,
}


def action(name: str, /, **values: st.SearchStrategy[object]) -> st.SearchStrategy[Action]:
    return st.tuples(st.just(name), st.fixed_dictionaries(values))


HOST = [
    action("at", time=TIME),
    action("pause", lasting=LASTING),
    action("on", thread=st.sampled_from([MAIN, AUTOGRAD, 3])),
    action(
        "op",
        name=st.sampled_from(
            ["aten::mm", "aten::t", "aten::nonzero", "MulBackward0", "Mine", "entire_frame_compile"]
        ),
        lasting=st.none() | LONG,
    ),
    action("close"),
    action("data_wait", lasting=LASTING),
    action("phase", name=st.sampled_from(PHASES), lasting=LASTING),
    action("optimizer_step", lasting=LASTING),
    action("frame", name=st.sampled_from(["t.py(3): main", "nn.Module: Net_0"]), lasting=LASTING),
    action("malloc", lasting=LASTING),
    action("sync", lasting=st.none() | LASTING),
    action("step", lasting=LASTING),
]
DEVICE = [
    action("launch", name=st.just("gemm"), lasting=LASTING, **PLACE),
    action("kernel", name=st.just("lost"), lasting=LASTING, starts=TIME),
    action("copy", way=st.just("HtoD"), lasting=LASTING, size=st.just(64), **PLACE),
    action("memset", lasting=LASTING, size=st.just(64), **PLACE),
    action("all_reduce", lasting=LASTING, **PLACE),
    action("item"),
]


def built(actions: list[Action]) -> TraceBuilder:
    """One long step, and in it and around it whatever the actions do."""
    story = TraceBuilder().step()
    for name, values in actions:
        if name != "close" or story.has_open:
            getattr(story, name)(**values)
    for thread in (3, AUTOGRAD, MAIN):
        story.on(thread).at(max(story.now, us(250))).end()
    return story


def idle_of(trace: Trace, device: int) -> Counter[str]:
    links = link(trace)
    mine = devices(trace)[links.activity] == device
    found = explain_idle(trace, links, mine, Host(trace), 0, int(trace.end.max()))
    return +Counter({cause.value: part.total for cause, part in found.causes.items()})


def parts(analysis: TraceAnalysis) -> list[Counter[str]]:
    return [+Counter(dict(budget.parts)) for budget in analysis.step_parts]


def launches(trace: Trace) -> list[tuple[str, int, int]]:
    links, found = Launches(trace), []
    for row in range(len(trace)):
        call = links.launching(row)
        if call != NONE:
            start = int(trace.start[row])
            found.append((trace.name_of(row), start, start - int(trace.start[call])))
    return sorted(found)


def assert_true(story: TraceBuilder) -> None:
    trace, truth = story.trace(), story.truth()
    analysis, origin = analyse(trace), trace.origin
    assert {each.device: each.busy for each in analysis.activity} == {
        device: truth.busy(device) for device in truth.devices
    }
    for device in truth.devices:
        assert idle_of(trace, device) == truth.idle(device)
    assert parts(analysis) == truth.parts()
    assert sorted(
        Gap(gap.device, gap.start + origin, gap.end + origin, gap.cause.value)
        for gap in analysis.gaps
    ) == sorted(truth.gaps())
    found = [(name, start + origin, delay) for name, start, delay in launches(trace)]
    assert found == truth.launches()
    for budget, told in zip(analysis.step_parts, truth.parts(), strict=True):
        assert sum(told.values()) == budget.step.duration
    for gap in analysis.gaps:
        assert gap.previous_row == NONE or trace.end[gap.previous_row] == gap.start
        assert gap.next_row == NONE or trace.start[gap.next_row] == gap.end
    lengths = [gap.duration for gap in analysis.gaps]
    assert lengths == sorted(lengths, reverse=True)
    assert sum(lengths) <= sum(int(trace.end.max()) - each.busy for each in analysis.activity)


QUEUED_AT_THE_LAST_MOMENT: list[Action] = [
    ("launch", {"name": "gemm", "lasting": us(5)}),
    ("launch", {"name": "gemm", "lasting": us(5), "starts": us(30)}),
]
BEGUN_AS_A_WAIT_ENDS: list[Action] = [
    ("kernel", {"name": "lost", "lasting": us(5), "starts": 0}),
    ("at", {"time": us(10)}),
    ("sync", {"lasting": us(40)}),
    ("kernel", {"name": "lost", "lasting": us(5), "starts": us(50)}),
]


@pytest.mark.slow
@settings(max_examples=300)
@example(QUEUED_AT_THE_LAST_MOMENT)
@example(BEGUN_AS_A_WAIT_ENDS)
@given(st.lists(st.one_of(*HOST, *DEVICE), max_size=40))
def test_any_trace_with_a_device(actions: list[Action]) -> None:
    assert_true(built(actions))


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(st.one_of(*HOST), max_size=20))
def test_any_trace_of_the_host_alone(actions: list[Action]) -> None:
    assert_true(built(actions))


def told() -> TraceBuilder:
    """A step of 10 ms in which everything happens once."""
    story = TraceBuilder(fields={"deviceProperties": [{"id": 0, "name": "H200"}]}).numbered(7)
    story.step().data_wait(ms(2)).copy("HtoD", ms(1), 4096, pinned=False).memory(512, 512)
    story.forward().op("aten::mm").launch("gemm", ms(2)).close().memset(us(10), 64)
    story.backward().on(AUTOGRAD).op("MmBackward0").launch("gemm", ms(1)).close()
    story.all_reduce(ms(3)).on(MAIN).optimizer().item()
    return story.malloc(us(100)).launch("adam", us(500)).sync().at(ms(10)).end()


def test_a_story_is_what_it_tells() -> None:
    story = told()
    (parts,) = story.truth().parts()
    assert parts == {
        "data loader wait": ms(2), "launch-bound": us(5),
        # The gradients go around while the batch is still being copied.
        "exposed copies": us(20 + 2), "exposed communication": us(980),
        "gpu compute": us(2000 + 10 + 1000 + 500),
        # What the host launches after it waited comes late for having waited.
        "allocation": us(100), "synchronisation": us(5), "python": us(3378),
    }  # fmt: skip
    assert_true(story)
    assert story.trace().memory.allocated.tolist() == [512]


AT_LEAST_A_CALL = st.integers(us(1), us(40))


@pytest.mark.slow
@given(st.lists(st.tuples(AT_LEAST_A_CALL, AT_LEAST_A_CALL), min_size=1, max_size=4))
def test_ranks_leave_a_collective_together(computes: list[tuple[int, int]]) -> None:
    """The sooner a rank is done with its own work, the longer it waits in the collective."""
    ranks = [TraceBuilder().step(), TraceBuilder().step()]
    for lasting in computes:
        for rank, compute in zip(ranks, lasting, strict=True):
            rank.launch("gemm", compute).sync()
        meet(ranks, us(3))
        for rank in ranks:
            rank.sync()
    for mine, rank in enumerate(ranks):
        assert_true(rank.end())
        waits = sum(max(computed) - computed[mine] + us(3) for computed in computes)
        assert rank.truth().parts()[0]["exposed communication"] == waits
