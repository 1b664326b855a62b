"""Threads with next to no work, against looking at every nanosecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from tests.traces.events import cpu, named, trace_of

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
        assert found == ()
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


def test_a_single_one_keeps_its_own_track():
    assert found_in(threads([(5, 3)], [(0, 500)])) == ()
