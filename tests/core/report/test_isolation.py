"""What each side of a training costs, as text and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.experiments.isolate import Experiment, Isolated, Isolation, Side, experiments
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.report.trial import isolation_object, isolation_text
from tests.core.diagnosis.runs import make_run
from tests.described import described
from tests.facts_given import facts_with

MS = 10**6


def side(which: Side, *times: int, problem: str = "") -> Isolated:
    of_loader = which in (Side.TRAINING, Side.WORKER)
    experiment = Experiment(which, f"without {which.value}", times_batches=of_loader)
    return Isolated(experiment, tuple(time * MS for time in times), problem)


FOUND = Isolation(
    (20 * MS, 22 * MS, 21 * MS),
    (
        side(Side.INPUT, 5, 5, 6),
        side(Side.TRAINING, 16, 17, 16),
        side(Side.WORKER, 18, 19, 18),
        side(Side.OUTPUT, 21, 21, 20),
    ),
)


def test_each_side_says_what_losing_it_would_gain() -> None:
    assert isolation_text(FOUND).splitlines() == [
        "a step takes 21 ms unchanged (20 ms to 22 ms in 3 runs)",
        "  without input: 5.0 ms (5.0 ms to 6.0 ms in 3 runs); "
        "at most 4.20x from a faster data loader",
        "  without training: 16 ms for the batches of a step (16 ms to 17 ms in 3 runs); "
        "at most 1.31x from everything but the loader",
        "  without worker: 18 ms for the batches of a step (18 ms to 19 ms in 3 runs); "
        "4 workers keep up with a step of 5.0 ms",
        "  without output: 21 ms (20 ms to 21 ms in 3 runs); nothing from less printing, logging "
        "and saving",
    ]


def test_the_same_for_programs() -> None:
    found = described("isolate", isolation_object(FOUND, make_run(root=Path("run"))))
    assert (found["step_ns"], found["runs_ns"]) == (21 * MS, [20 * MS, 22 * MS, 21 * MS])
    assert [one["side"] for one in found["sides"]] == ["input", "training", "worker", "output"]
    assert found["sides"][0]["at_most"] == 4.2
    assert all(one["problem"] is None for one in found["sides"])


def test_a_side_without_a_time_says_why() -> None:
    found = Isolation(
        (20 * MS,), (side(Side.INPUT, problem="no DataLoader"), side(Side.WORKER, 18))
    )
    assert isolation_text(found).splitlines()[1:] == [
        "  without input: not measured: no DataLoader",
        "  without worker: 18 ms for the batches of a step (18 ms to 18 ms in 1 run); how many "
        "workers would keep up is not known",
    ]
    plain = described("isolate", isolation_object(found, make_run(root=Path("run"))))
    assert plain["sides"][0]["at_most"] is None
    assert plain["sides"][0]["problem"] == "no DataLoader"


def test_nothing_is_said_before_the_first_run() -> None:
    assert isolation_text(Isolation()) == "no run finished\n"


def reasons(loader: LoaderFacts | None) -> dict[str, str]:
    found = experiments(facts_with(Facts(None), {training_loader: loader}))
    return {one.side.value: one.why_not for one in found}


@pytest.mark.parametrize(
    ("loader", "input_why", "worker_why"),
    [
        (None, "no DataLoader feeds the training", "no DataLoader feeds the training"),
        (LoaderFacts(num_workers=1), "", "it already has one worker"),
        (
            LoaderFacts(num_workers=0, holds_files=True),
            "",
            "the dataset holds open files or generators, which workers would share",
        ),
        (LoaderFacts(num_workers=0), "", ""),
    ],
)
def test_what_cannot_be_left_out_says_so(
    loader: LoaderFacts | None, input_why: str, worker_why: str
) -> None:
    assert reasons(loader) == {
        "input": input_why,
        "training": input_why,
        "worker": worker_why,
        "output": "",
    }
