from dataclasses import replace

from perftui.facts.notes import MOST_MESSAGES, problems
from perftui.run.columns import EVENT_COLUMNS
from tests.core.diagnosis.runs import make_run
from tests.step_rows import table_of


def events(*rows):
    return table_of(EVENT_COLUMNS, [[0, kind, 0, 0, data] for kind, data in rows])


def with_events(*ranks, **run):
    snapshot = make_run(**run)
    (first,) = snapshot.ranks
    return replace(
        snapshot,
        ranks=tuple(replace(first, rank=n, events=events(*rows)) for n, rows in enumerate(ranks)),
    )


def test_messages_are_said_once_and_other_events_are_not():
    full = ("warning", {"message": "the disk is full"})
    run = with_events([full, ("gc", {"generation": 2}), full, ("error", {"message": "stopped"})])
    assert problems(run) == ("the disk is full", "stopped")


def test_each_rank_is_named_where_there_are_several():
    run = with_events([("error", {"message": "a"})], [("error", {"message": "b"}), ("error", {})])
    assert problems(run) == ("rank 0: a", "rank 1: b")


def test_a_flood_is_counted_and_lines_left_out_are_last():
    run = with_events(
        [("warning", {"message": f"fault {n}"}) for n in range(MOST_MESSAGES + 3)], skipped_lines=2
    )
    *said, more, lines = problems(run)
    assert len(said) == MOST_MESSAGES
    assert more == "3 more messages are in events.jsonl"
    assert lines == "2 damaged journal lines were left out"


def test_a_run_without_trouble_says_nothing():
    assert problems(make_run()) == ()
