"""The chain that a trace's length rests on: unbroken, exact, and of what it has to be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.critical_path import Link, Segment, critical_path
from perftui.analysis.gpu_idle.causes import Host
from tests.traces.builder import TraceBuilder, ms, us


def chain_of(story: TraceBuilder) -> tuple[Segment, ...]:
    trace = story.trace()
    return critical_path(trace, Host(trace))


def sums(story: TraceBuilder) -> dict[Link, int]:
    chain = chain_of(story)
    return {kind: sum(one.duration for one in chain if one.kind is kind) for kind in Link}


def test_a_device_that_never_waits_is_the_path() -> None:
    story = TraceBuilder().step()
    for _ in range(10):
        story.launch("gemm", ms(1))
    found = sums(story.end())
    assert found[Link.COMPUTE] == ms(10)
    assert found[Link.HOST] == 0


def test_a_host_that_launches_late_is_the_path() -> None:
    story = TraceBuilder().step()
    for _ in range(10):
        story.op("aten::add", us(90)).launch("add", us(5), call=us(10))
    found = sums(story.end())
    # Of the kernels only the last one is on it: the others are over before the next is launched.
    assert found[Link.COMPUTE] == us(5)
    assert found[Link.HOST] == us(90) + 9 * us(100)
    assert found[Link.LAUNCH] == us(10)


def test_a_wait_for_the_device_leads_from_the_host_to_the_device() -> None:
    story = TraceBuilder().step()
    for _ in range(3):
        story.launch("gemm", ms(2)).sync().pause(ms(1))
    found = sums(story.end())
    assert found[Link.COMPUTE] == ms(6)
    assert found[Link.HOST] == ms(3)


def test_collectives_and_copies_are_distinguished() -> None:
    story = TraceBuilder().step().launch("gemm", ms(2))
    at = story.now
    story.all_reduce(ms(3), starts=ms(2) + us(5)).copy("DtoH", ms(1), 4, starts=ms(5) + us(5))
    found = sums(story.at(at).end())
    assert (found[Link.COMPUTE], found[Link.COMMUNICATION]) == (ms(2), ms(3))
    assert found[Link.COPY] == ms(1)


def test_a_trace_of_the_host_alone_has_none() -> None:
    assert chain_of(TraceBuilder().step().op("aten::mm", ms(1)).end()) == ()


works = st.lists(
    st.tuples(
        st.sampled_from(["launch", "other stream", "pause", "sync", "op", "collective"]),
        st.integers(1, 500),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@given(works)
def test_it_is_unbroken_from_the_first_event_to_the_last(works: list[tuple[str, int]]) -> None:
    story = TraceBuilder().step().launch("first", us(3))
    for kind, length in works:
        if kind == "launch":
            story.launch("gemm", us(length))
        elif kind == "other stream":
            story.launch("side", us(length), stream=9)
        elif kind == "pause":
            story.pause(us(length))
        elif kind == "sync":
            story.sync()
        elif kind == "op":
            story.op("aten::add", us(length))
        else:
            story.all_reduce(us(length))
    story.end()
    trace, chain = story.trace(), chain_of(story)
    assert chain[0].start == int(trace.start.min())
    assert chain[-1].end == int(trace.end.max())
    assert all(one.end == after.start for one, after in itertools.pairwise(chain))
    assert all(one.duration > 0 for one in chain)
