"""Ranks that are late in turn, and ranks that hold more memory than others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Severity
from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import late_ranks
from perftui.run.reader import RankSnapshot, RunSnapshot
from tests.core.diagnosis.runs import (
    MS,
    event_table,
    joined,
    make_run,
    step_table,
    telemetry_table,
)
from tests.core.diagnosis.stories import found, reasons

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
    facts = Facts(run_of(in_turn, 20))
    late = late_ranks(facts)
    assert (late.part, late.part_lag, late.apart) == ("input_wait", 20 * MS, 0)
    finding = found(diagnosis(facts), "uneven-ranks")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.cost_ns == pytest.approx(15 * MS, rel=0.05)
    assert "a different one each time" in finding.sentence
    assert found(diagnosis(facts), "straggler") is None


def test_little_waiting_is_worth_a_word_and_less_is_not() -> None:
    hint = found(diagnosis(Facts(run_of(in_turn, 8))), "uneven-ranks")
    assert hint is not None
    assert hint.severity is Severity.INFO
    assert found(diagnosis(Facts(run_of(in_turn, 6))), "uneven-ranks") is None


def test_always_the_same_rank_is_a_straggler() -> None:
    judged = diagnosis(Facts(run_of(lambda _: 2, 20)))
    assert found(judged, "uneven-ranks") is None
    assert found(judged, "straggler") is not None
    mostly = run_of(lambda step: 2 if step % 10 < 6 else 0, 20)
    assert found(diagnosis(Facts(mostly)), "uneven-ranks") is None


def test_ranks_that_do_not_wait_for_each_other_lose_nothing() -> None:
    run = run_of(in_turn, 20)
    apart = []
    for rank in run.ranks:
        rows = [
            step_table(1, {"input_wait": 20 if step % 4 == rank.rank else 0, "forward": 100})
            for step in range(40)
        ]
        apart.append(replace(rank, steps=joined(*rows)))
    assert found(diagnosis(Facts(replace(run, ranks=tuple(apart)))), "uneven-ranks") is None


def test_few_steps_are_not_judged_and_one_process_is_not_asked_about() -> None:
    assert (
        "steps of all ranks"
        in reasons(diagnosis(Facts(run_of(in_turn, 20, count=12))))["uneven-ranks"]
    )
    judged = diagnosis(Facts(make_run(count=40)))
    assert "uneven-ranks" not in reasons(judged)
    assert "uneven-memory" not in reasons(judged)


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
    finding = found(diagnosis(Facts(holding(50, 70, 52))), "uneven-memory")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert finding.sentence.startswith("Rank 1 holds up to 70.0 GiB")
    assert finding.cost_ns == 0


@pytest.mark.parametrize("peaks", [(57, 70), (40, 62)])
def test_alike_ranks_or_room_are_none(peaks: tuple[float, ...]) -> None:
    assert found(diagnosis(Facts(holding(*peaks))), "uneven-memory") is None


def test_without_samples_of_the_card_it_is_not_judged() -> None:
    judged = diagnosis(Facts(holding(50, 70, sampled=False)))
    assert "sampled" in reasons(judged)["uneven-memory"]
    assert "uneven-memory" not in reasons(diagnosis(Facts(holding(69, 70, sampled=False))))
