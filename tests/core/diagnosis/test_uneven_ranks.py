"""Ranks that wait for a different one each time, hold uneven memory, or are spread badly."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.model import Severity
from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import RankRow, compared, rank_table
from perftui.facts.ranks.straggler import table_of_traces
from perftui.facts.ranks.traced_ranks import TracedRank, read_one
from perftui.run.reader import RankSnapshot, RunSnapshot
from tests.core.diagnosis.runs import MS, event_table, joined, make_run, step_table, telemetry_table
from tests.core.diagnosis.stories import found
from tests.tui.traces import write_trace


def run_of_phases(
    *phases: dict[str, float], count: int = 40, hosts: tuple[str, ...] = ()
) -> RunSnapshot:
    """A run with a rank for each of ``phases`` (ms)."""
    run = make_run()
    ranks = tuple(
        RankSnapshot(
            number, step_table(count, parts), event_table(), (), host=hosts[number] if hosts else ""
        )
        for number, parts in enumerate(phases)
    )
    return replace(run, ranks=ranks)


EVEN = {"input_wait": 10, "forward": 30, "backward": 50, "optimizer": 10}


def test_the_rank_that_the_others_wait_for() -> None:
    """All take 140 ms: rank 2 waits 40 ms longer for data, the others wait for it in backward."""
    waiting = {**EVEN, "backward": 90}
    late = {**EVEN, "input_wait": 50}
    table = rank_table(Facts(run_of_phases(waiting, waiting, late, waiting)))
    assert [row.mean for row in table.rows] == [140 * MS] * 4
    slow = table.straggler
    assert (slow.rank, slow.lag, slow.part, slow.part_lag) == (2, 40 * MS, "input_wait", 40 * MS)
    assert table.holds_up
    assert table.spread == pytest.approx(0.8)


def test_ranks_that_nobody_waits_for_even_ones_and_one_alone_hold_up_nobody() -> None:
    table = rank_table(Facts(run_of_phases(EVEN, EVEN, {**EVEN, "forward": 60})))
    assert (table.straggler.rank, table.straggler.part) == (2, "forward")
    assert not table.holds_up
    table = rank_table(Facts(run_of_phases(EVEN, {**EVEN, "forward": 31}, EVEN)))
    assert table.straggler is None
    assert table.spread == pytest.approx(1 / 50)
    assert rank_table(Facts(run_of_phases(EVEN))).straggler is None
    run = run_of_phases(EVEN, {**EVEN, "forward": 90})
    short = replace(run.ranks[1], steps=step_table(1, EVEN))
    table = rank_table(Facts(replace(run, ranks=(run.ranks[0], short))))
    assert table.straggler is None
    assert [row.steps for row in table.rows][1] == 0
    assert any("rank 1" in note for note in table.notes)


def test_clocks_of_several_hosts_are_said_not_to_be_compared() -> None:
    table = rank_table(Facts(run_of_phases(EVEN, EVEN, hosts=("a", "b"))))
    assert [row.host for row in table.rows] == ["a", "b"]
    assert any("clock" in note for note in table.notes)
    assert rank_table(Facts(run_of_phases(EVEN, EVEN))).notes == ()


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
        assert (table.straggler.rank, table.straggler.lag) == (worst, lag)


def test_no_verdict_before_all_traces_are_read() -> None:
    fast, slow = (
        TracedRank(RankRow(rank, "", 9, 9, ns, parts=(("gpu compute", ns),)), Path(), None, None)
        for rank, ns in ((0, 100), (1, 200))
    )
    assert table_of_traces([slow, fast], 1, []).straggler is None
    table = table_of_traces([slow, fast], 0, ["rank 2 cannot be read: gone"])
    assert [row.rank for row in table.rows] == [0, 1]
    assert table.straggler.part == "gpu compute"
    assert "rank 2 cannot be read: gone" in table.notes


def test_a_trace_gives_the_parts_of_its_steps(tmp_path: Path) -> None:
    row = read_one(write_trace(tmp_path, steps=6), 3)[1].row
    assert (row.rank, row.train_steps) == (3, 6)
    assert sum(ns for _, ns in row.parts) == row.mean
    assert row.part("gpu compute") == 4 * MS
    assert row.waits == 0


GIB = 1 << 30


def run_of(
    late: Callable[[int], int], extra: float, ranks: int = 4, count: int = 40
) -> RunSnapshot:
    """Steps of 100 ms and what the rank that is late in each waits longer for its data; the others
    wait for it in backward."""
    tables = [
        joined(
            *(
                step_table(
                    1,
                    {"input_wait": extra if late(step) == rank else 0, "forward": 40}
                    | {"backward": 60 if late(step) == rank else 60 + extra},
                )
                for step in range(count)
            )
        )
        for rank in range(ranks)
    ]
    run = make_run(count=count)
    found = (RankSnapshot(rank, table, event_table(), ()) for rank, table in enumerate(tables))
    return replace(run, ranks=tuple(found))


def in_turn(step: int) -> int:
    return step % 4


def test_ranks_that_are_late_in_turn() -> None:
    """Each takes 40 ms and every fourth time 60 ms: 45 in the mean, and the latest always 60."""
    finding = found(Facts(run_of(in_turn, 20)), "uneven-ranks")
    figures = {figure.label: figure.value for figure in finding.facts}
    assert figures["data loader wait, longer on the last"] == 20 * MS
    assert finding.cost_ns == pytest.approx(15 * MS, rel=0.05)
    assert "a different one each time" in finding.sentence


def test_ranks_that_do_not_wait_for_each_other_lose_nothing() -> None:
    run = run_of(in_turn, 20)
    apart = []
    for rank in run.ranks:
        rows = [
            step_table(1, {"input_wait": 20 if step % 4 == rank.rank else 0, "forward": 100})
            for step in range(40)
        ]
        apart.append(replace(rank, steps=joined(*rows)))
    assert found(replace(run, ranks=tuple(apart)), "uneven-ranks") is None


def holding(*peaks: float, total: float = 80, sampled: bool = True) -> RunSnapshot:
    """A run whose ranks hold so many GiB at most."""
    run = make_run(count=40)
    ranks = tuple(
        RankSnapshot(
            rank,
            step_table(
                40,
                {"forward": 40, "backward": 60},
                allocated=round(peak * GIB),
                reserved=round(peak * GIB),
                peak_allocated=round(peak * GIB),
            ),
            event_table(),
            (),
        )
        for rank, peak in enumerate(peaks)
    )
    used = {"memory_used": max(peaks) * GIB, "memory_total": total * GIB}
    card = telemetry_table(**{f"gpu0.{name}": value for name, value in used.items()})
    return replace(run, ranks=ranks, telemetry={"box": card} if sampled else {})


def test_a_rank_with_much_more_memory_is_a_hint() -> None:
    finding = found(holding(50, 70, 52), "uneven-memory")
    assert finding.severity is Severity.INFO
    assert finding.sentence.startswith("Rank 1 holds up to 70.0 GiB")
    assert finding.cost_ns == 0
