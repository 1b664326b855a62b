"""Which numbers of loader workers a trial runs with."""

from __future__ import annotations

import pytest

from perftui.experiments.trial import counts_to_try
from perftui.facts.cpu.machine import MachineFacts, machine_use
from perftui.facts.data_loader.loader import LoaderFacts, measured_workers, training_loader
from perftui.facts.fact import Facts
from perftui.fixes.workers import WORKERS, with_workers
from perftui.run.worker_curve import CurvePoint, WorkerCurve
from tests.facts_given import facts_with


def facts(workers: int | None, cores: int | None, **loader: object) -> Facts:
    given = {"num_workers": workers, "file": "train.py", "line": 3, **loader}
    return facts_with(
        Facts(None),
        {
            training_loader: LoaderFacts(**given),  # type: ignore[arg-type] # plain fields
            machine_use: MachineFacts(cores=cores),
        },
    )


@pytest.mark.parametrize(
    ("workers", "cores", "counts"),
    [
        (0, 16, (1, 2, 4, 8, 16)),
        (2, 16, (4, 8, 16)),
        (0, 12, (1, 2, 4, 8)),
        (None, 4, (1, 2, 4)),
        (0, 1, ()),
        (1, 2, ()),
        (0, None, ()),
    ],
)
def test_they_double_up_to_the_cores(
    workers: int | None, cores: int | None, counts: tuple[int, ...]
) -> None:
    assert counts_to_try(facts(workers, cores)) == counts


def test_there_are_none_without_a_loader() -> None:
    assert counts_to_try(facts_with(Facts(None), {training_loader: None})) == ()


def test_the_fix_takes_the_number_that_was_measured() -> None:
    known = facts(0, 16)
    curve = WorkerCurve((CurvePoint(1, 30), CurvePoint(2, 16), CurvePoint(4, 15)))
    known.worked_out[measured_workers] = curve
    change = WORKERS.change(known)
    assert change is not None
    assert (change.title, change.why_not) == ("num_workers 0 -> 4", "")


def test_a_number_can_be_asked_for() -> None:
    option = with_workers(facts(0, 16), 8)
    assert option is not None
    assert option.override is not None
    assert option.override.arguments == {"num_workers": 8, "persistent_workers": True}


def test_what_speaks_against_workers_speaks_against_any_number() -> None:
    option = with_workers(facts(0, 16, holds_files=True), 8)
    assert option is not None
    assert option.override is None
    assert "open files" in option.why_not
