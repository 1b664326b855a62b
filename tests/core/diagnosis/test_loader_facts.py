from __future__ import annotations

import pytest

from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import event_table, facts_of

TRAIN = {"id": 1, "num_workers": 0, "file": "/p/train.py", "line": 3, "shuffle": None}
EVAL = {"id": 2, "num_workers": 4, "file": "/p/train.py", "line": 9, "shuffle": False}


def loader_of(*events) -> LoaderFacts | None:
    return training_loader(facts_of(events=event_table(*events)))


def chosen(*events) -> tuple[int | None, bool]:
    facts = loader_of(*events)
    assert facts is not None
    return facts.line, facts.certain


def test_no_loader_is_no_facts() -> None:
    assert loader_of() is None
    assert training_loader(Facts(None)) is None


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([TRAIN], (3, True)),
        ([EVAL, TRAIN, {"id": 1, "role": "train"}], (3, True)),
        ([EVAL, TRAIN, {"id": 1, "role": "train"}, {"id": 2, "role": "eval"}], (3, True)),
        ([EVAL, {**TRAIN, "shuffle": True}], (3, False)),
        ([TRAIN, EVAL], (3, False)),
        ([EVAL, TRAIN], (9, False)),
        ([TRAIN, EVAL, {"id": 1, "role": "train"}, {"id": 2, "role": "train"}], (3, True)),
    ],
    ids=["alone", "role", "roles", "shuffles", "first", "first-eval", "two that train"],
)
def test_the_training_loader_is_told_by_role_then_shuffling_then_order(events, expected) -> None:
    assert chosen(*events) == expected


def test_other_calls_whose_loaders_train_are_known() -> None:
    roles = [{"id": 1, "role": "train"}, {"id": 2, "role": "train"}]
    facts = loader_of(TRAIN, EVAL, *roles)
    assert facts is not None
    assert facts.others == ("/p/train.py:9",)
    alone = loader_of(TRAIN, EVAL, roles[0])
    assert alone is not None
    assert alone.others == ()


def test_of_loaders_made_by_one_call_the_newest_counts() -> None:
    again = {**TRAIN, "id": 3, "num_workers": 2}
    facts = loader_of(TRAIN, again, EVAL, {"id": 3, "role": "train"})
    assert facts is not None
    assert (facts.num_workers, facts.certain) == (2, True)


def test_what_an_event_does_not_say_or_says_otherwise_is_unknown() -> None:
    facts = loader_of({"num_workers": True, "pin_memory": 1, "dataset": 5})
    assert facts == LoaderFacts()


def test_events_that_are_no_objects_are_passed_over() -> None:
    assert loader_of([1], None, "x") is None  # type: ignore[arg-type]
