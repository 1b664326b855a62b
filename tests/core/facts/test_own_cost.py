"""What recording has taken of a training, by how much windows made its steps longer, and what went
wrong with it."""

import random
import statistics
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.notes import MOST_MESSAGES, problems
from perftui.facts.step.own_cost import BESIDE, SETTLED, OwnCost, Slowed, recording_cost, slowed
from perftui.run.columns import EVENT_COLUMNS, STEP_COLUMNS
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table, after_disturbance, aggregates_of
from tests.core.diagnosis.runs import facts_of, make_run
from tests.step_rows import table_of

MS = 1_000_000


def row(duration: int, kind: str = "train", **values: int) -> list[Any]:
    """One step; what is not named is 0."""
    given = {"kind": kind, "duration": duration, "other": duration, **values}
    return [given.get(column.name, 0) for column in STEP_COLUMNS]


def steps(*rows: list[Any]) -> Table:
    return table_of(STEP_COLUMNS, rows)


def own_cost(rows: Table) -> OwnCost | None:
    return recording_cost(facts_of(steps=rows))


def test_hooks_stalls_and_slower_steps_are_counted() -> None:
    plain = [row(30 * MS, overhead=MS // 10)] * 8
    window = [
        row(50 * MS, profiled=1, profiler=4 * MS, overhead=MS // 10),
        row(36 * MS, profiled=1, profiler=6 * MS),
    ]

    assert own_cost(steps(*plain, *window, row(MS, "eval", profiler=2 * MS))) == OwnCost(
        hooks=9 * (MS // 10),
        stalls=12 * MS,
        slowed=16 * MS,
        slowed_at_most=16 * MS,
        whole=(8 * 30 + 50 + 36 + 1) * MS,
    )


def test_what_the_scatter_of_steps_hides_is_not_charged_but_told() -> None:
    plain = [row(duration * MS) for duration in (20, 40) * 8]
    window = [row(34 * MS, profiled=1)]

    cost = own_cost(steps(*plain[:8], *window, *plain[8:]))

    assert (cost.slowed, cost.total) == (0, 0)
    # 2 ms longer than the mean of ten steps beside it; they scatter by 10.3 ms.
    most = 2 * MS + 2 * 10.33 * MS * 1.1**0.5
    assert cost.slowed_at_most == cost.at_most == pytest.approx(most, rel=0.01)


def test_nothing_is_known_before_the_first_step_or_where_an_agent_did_not_count() -> None:
    assert own_cost(steps()) is own_cost(Table()) is None


@pytest.mark.parametrize("profiled", [0, 1])
def test_without_a_step_to_compare_with_nothing_was_slowed(profiled: int) -> None:
    cost = own_cost(steps(row(30 * MS, profiled=profiled)))

    assert (cost.total, cost.at_most) == (0, 0)


@pytest.mark.slow
@given(
    st.lists(
        st.builds(
            lambda duration, profiler, profiled, overhead, kind: row(
                duration + profiler, kind, profiler=profiler, profiled=profiled, overhead=overhead
            ),
            st.integers(1, 10**10),
            st.integers(0, 10**8),
            st.integers(0, 1),
            st.integers(0, 10**6),
            st.sampled_from(["train", "eval"]),
        ),
        max_size=20,
    )
)
def test_steps_that_are_no_longer_kept_count_all_the_same(rows: list[list[Any]]) -> None:
    recent = [row(30 * MS)] * 41
    together = own_cost(steps(*rows, *recent))
    apart = own_cost(replace(steps(*recent), sums=aggregates_of(steps(*rows))))

    assert (apart.hooks, apart.stalls, apart.whole) == (
        together.hooks,
        together.stalls,
        together.whole,
    )


def profiled_steps(durations: list[int], profiled: list[bool]) -> Table:
    pairs = zip(durations, profiled, strict=True)
    return steps(*(row(duration, profiled=int(is_profiled)) for duration, is_profiled in pairs))


def one_by_one(table: Table) -> tuple[float, float]:
    """The estimate and its variance, a window at a time."""
    usual = (~after_disturbance(table["profiled"])).tolist()
    first = next(iter(table["profiled"].nonzero()[0].tolist()), 0)
    usual[: max(first - SETTLED, 0)] = [False] * max(first - SETTLED, 0)
    durations = [int(each) for each in table["duration"]]
    estimate = variance = 0.0
    for is_profiled, group in groupby(
        range(len(durations)), key=lambda row: bool(table["profiled"][row])
    ):
        rows = list(group)
        before = [row for row in range(rows[0]) if usual[row]][-BESIDE:]
        after = [row for row in range(rows[-1] + 1, len(durations)) if usual[row]][:BESIDE]
        beside = [durations[row] for row in (*before, *after)]
        if not is_profiled or len(beside) < 2:
            continue
        count = len(rows)
        estimate += sum(durations[row] for row in rows) - count * statistics.fmean(beside)
        variance += statistics.variance(beside) * (count + count**2 / len(beside))
    return estimate, variance


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 4).map(lambda n: n == 0))))
def test_windows_are_compared_with_the_steps_beside_them(rows: list[tuple[int, bool]]) -> None:
    table = profiled_steps([duration for duration, _ in rows], [profiled for _, profiled in rows])
    found = slowed(table, "train")
    estimate, variance = one_by_one(table)

    assert found.estimate == pytest.approx(estimate, rel=1e-6, abs=1000)
    assert found.error**2 == pytest.approx(variance, rel=1e-6, abs=1e6)


def test_a_pace_that_changes_is_no_cost_of_windows() -> None:
    slow, fast = [200 * MS] * 20, [90 * MS] * 400
    profiled = [*[False] * 20, True, *[False] * 420]
    table = profiled_steps([900 * MS, *slow[1:], 201 * MS, *slow, *fast], profiled)

    assert slowed(table, "train") == Slowed(MS, 0.0)


@pytest.mark.slow
def test_a_known_cost_lies_within_what_is_reported() -> None:
    """With errors of the normal distribution it should in 97.5 % of all cases."""
    chance = random.Random(5)  # noqa: S311 - nothing secret
    profiled = [number % 50 == 25 for number in range(200)]
    within = 0
    for _ in range(200):
        usual = [chance.gauss(100 * MS, 10 * MS) for _ in profiled]
        durations = [round(ns) + 5 * MS * extra for ns, extra in zip(usual, profiled, strict=True)]
        found = slowed(profiled_steps(durations, profiled), "train")
        within += found.at_most >= 4 * 5 * MS
    assert within >= 190


def test_steps_that_are_no_longer_kept_count() -> None:
    gone = aggregates_of(profiled_steps([30 * MS] * 99 + [37 * MS], [False] * 99 + [True]))
    usual, unseen = [30 * MS] * 60, [False] * 60
    kept = profiled_steps([*usual, 32 * MS, *usual], [*unseen, True, *unseen])

    found = slowed(replace(kept, sums=gone), "train")

    assert found.certain == found.at_most == 9 * MS


def run_with(*ranks: list[tuple[str, dict[str, Any]]], **run: Any) -> RunSnapshot:
    """One whose ranks have these events, by kind."""
    snapshot = make_run(**run)
    parts = []
    for number, events in enumerate(ranks):
        rows = [[0, kind, 0, 0, data] for kind, data in events]
        table = table_of(EVENT_COLUMNS, rows)
        parts.append(replace(snapshot.ranks[0], rank=number, events=table))
    return replace(snapshot, ranks=tuple(parts) or snapshot.ranks)


def test_messages_are_said_once_with_their_rank_where_there_are_several() -> None:
    full = ("warning", {"message": "the disk is full"})
    alone = run_with([full, ("gc", {"generation": 2}), full, ("error", {"message": "stopped"})])
    assert problems(alone) == ("the disk is full", "stopped")
    two = run_with([("error", {"message": "a"})], [("error", {"message": "b"}), ("error", {})])
    assert problems(two) == ("rank 0: a", "rank 1: b")
    assert problems(make_run()) == ()


def test_a_flood_is_counted_and_lines_left_out_are_last() -> None:
    flood = [("warning", {"message": f"fault {n}"}) for n in range(MOST_MESSAGES + 3)]
    *said, more, lines = problems(run_with(flood, skipped_lines=2))
    assert len(said) == MOST_MESSAGES
    assert more == "3 more messages are in events.jsonl"
    assert lines == "2 damaged journal lines were left out"
