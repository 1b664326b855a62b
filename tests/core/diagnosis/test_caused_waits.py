"""Who waits for whom in collectives, against a reckoning nanosecond by nanosecond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.intervals import EMPTY, Intervals, union
from perftui.facts.fact import UnknownError
from perftui.facts.ranks.matched_collectives import NOISE, RankCollectives
from perftui.facts.ranks.traced_ranks import CausedWaits, caused_waits

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
    assert found.collectives == 3
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
    assert (found.steps, found.collectives) == (2, 2)
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
