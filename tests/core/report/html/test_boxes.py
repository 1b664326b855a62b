"""Boxes of a timeline: few, and none of the events is lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.html.timeline import Events, boxes_of

LENGTHS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=60)


def events(lengths: list[tuple[int, int]]) -> Events:
    """Events of which each begins so long behind the one before, and lasts so long."""
    edges = np.cumsum(np.array(lengths, dtype=np.int64).ravel())
    return Events("row", edges[::2], edges[1::2], lambda at: (f"event {at}", "kernels"), "kernels")


@given(LENGTHS, st.integers(1, 40))
def test_every_event_lies_in_one_box(lengths: list[tuple[int, int]], least: int) -> None:
    row = events(lengths)
    (boxes,) = boxes_of([row], least)
    assert all(one.end <= two.start for one, two in pairwise(boxes))
    for begin, end in zip(row.start.tolist(), row.end.tolist(), strict=True):
        (around,) = (box for box in boxes if box.start <= begin and end <= box.end)
        if end - begin >= least:
            assert (around.start, around.end, around.name != "") == (begin, end, True)
    assert boxes[0].start == row.start[0]
    assert boxes[-1].end == row.end[-1]


@given(LENGTHS, st.integers(1, 40))
def test_what_is_united_is_too_narrow_to_be_seen(
    lengths: list[tuple[int, int]], least: int
) -> None:
    row = events(lengths)
    (boxes,) = boxes_of([row], least)
    for box in boxes:
        inside = (row.start >= box.start) & (row.end <= box.end)
        if inside.sum() > 1:
            start, end = row.start[inside], row.end[inside]
            assert (end - start).max() < least
            assert (start[1:] - end[:-1]).max() < least


@given(st.lists(LENGTHS, min_size=1, max_size=4), st.integers(4, 30))
def test_there_are_never_more_boxes_than_asked_for(
    rows: list[list[tuple[int, int]]], most: int
) -> None:
    found = boxes_of([events(one) for one in rows], 1, most)
    assert sum(map(len, found)) <= most


def test_a_box_says_what_is_in_it() -> None:
    row = events([(0, 1_000), (10, 2_000), (10_000, 50_000)])
    (boxes,) = boxes_of([row], 5_000)
    assert boxes[0].text == "2 kernels, 3.0 µs in all; the longest is event 1, 2.0 µs"
    assert boxes[1].text == "event 2, 50 µs"
    assert [box.name for box in boxes] == ["", "event 2"]
