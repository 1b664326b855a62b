"""Ranks side by side: who holds the others up, and when nobody does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import RankRow, compared, rank_table
from perftui.facts.ranks.slow_rank import table_of_traces
from perftui.facts.ranks.traced_ranks import TracedRank, read_rank
from perftui.run.reader import RankSnapshot, RunSnapshot
from tests.core.diagnosis.runs import event_table, make_run, step_table
from tests.tui.traces import write_trace

MS = 1_000_000


def run_of(*phases: dict[str, float], count: int = 40, hosts: tuple[str, ...] = ()) -> RunSnapshot:
    """A run with a rank for each of ``phases`` (ms)."""
    run = make_run()
    ranks = tuple(
        RankSnapshot(
            number,
            step_table(count, parts),
            event_table(),
            (),
            host=hosts[number] if hosts else "",
        )
        for number, parts in enumerate(phases)
    )
    return replace(run, ranks=ranks)


EVEN = {"input_wait": 10, "forward": 30, "backward": 50, "optimizer": 10}


def test_the_rank_that_the_others_wait_for() -> None:
    """All take 140 ms: rank 2 waits 40 ms longer for data, the others wait for it in backward."""
    waiting = {**EVEN, "backward": 90}
    late = {**EVEN, "input_wait": 50}
    table = rank_table(Facts(run_of(waiting, waiting, late, waiting)))
    assert [row.mean for row in table.rows] == [140 * MS] * 4
    slow = table.straggler
    assert slow is not None
    assert (slow.rank, slow.lag, slow.part, slow.part_lag) == (2, 40 * MS, "input_wait", 40 * MS)
    assert slow.holds_up
    assert table.spread == pytest.approx(0.8)


def test_a_slower_rank_that_nobody_waits_for() -> None:
    table = rank_table(Facts(run_of(EVEN, EVEN, {**EVEN, "forward": 60})))
    assert table.straggler is not None
    assert (table.straggler.rank, table.straggler.part) == (2, "forward")
    assert not table.straggler.holds_up


def test_even_ranks_have_no_straggler() -> None:
    table = rank_table(Facts(run_of(EVEN, {**EVEN, "forward": 31}, EVEN)))
    assert table.straggler is None
    assert table.spread == pytest.approx(1 / 50)


def test_one_rank_or_one_without_steady_steps_is_not_compared() -> None:
    assert rank_table(Facts(run_of(EVEN))).straggler is None
    run = run_of(EVEN, {**EVEN, "forward": 90})
    short = replace(run.ranks[1], steps=step_table(1, EVEN))
    table = rank_table(Facts(replace(run, ranks=(run.ranks[0], short))))
    assert table.straggler is None
    assert [row.steps for row in table.rows][1] == 0
    assert any("rank 1" in note for note in table.notes)


def test_clocks_of_several_hosts_are_said_not_to_be_compared() -> None:
    table = rank_table(Facts(run_of(EVEN, EVEN, hosts=("a", "b"))))
    assert [row.host for row in table.rows] == ["a", "b"]
    assert any("clock" in note for note in table.notes)
    assert rank_table(Facts(run_of(EVEN, EVEN))).notes == ()


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**9)), min_size=2, max_size=9))
def test_against_a_plain_reckoning(times: list[tuple[int, int]]) -> None:
    rows = [
        RankRow(number, "", 9, 9, own + waits, 0, 0, (("forward", own), ("backward", waits)), waits)
        for number, (own, waits) in enumerate(times)
    ]
    table = compared(rows)
    owns = [own for own, _ in times]
    worst = owns.index(max(owns))
    others = sorted(owns[:worst] + owns[worst + 1 :])
    lag = owns[worst] - others[(len(others) - 1) // 2]
    if lag < 0.05 * (owns[worst] + times[worst][1]):
        assert table.straggler is None
    else:
        assert table.straggler is not None
        assert (table.straggler.rank, table.straggler.lag) == (worst, lag)


def test_no_verdict_before_all_traces_are_read() -> None:
    fast, slow = (
        TracedRank(RankRow(rank, "", 9, 9, ns, parts=(("gpu compute", ns),)), Path(), None, None)
        for rank, ns in ((0, 100), (1, 200))
    )
    assert table_of_traces([slow, fast], 1, []).straggler is None
    table = table_of_traces([slow, fast], 0, ["rank 2 cannot be read: gone"])
    assert [row.rank for row in table.rows] == [0, 1]
    assert table.straggler is not None
    assert table.straggler.part == "gpu compute"
    assert "rank 2 cannot be read: gone" in table.notes


def test_a_trace_gives_the_parts_of_its_steps(tmp_path: Path) -> None:
    path = write_trace(tmp_path, steps=6)
    row = read_rank(path, 3, lambda: False).row
    assert (row.rank, row.train_steps) == (3, 6)
    assert sum(ns for _, ns in row.parts) == row.mean
    assert row.part("gpu compute") == 4 * MS
    assert row.waits == 0
