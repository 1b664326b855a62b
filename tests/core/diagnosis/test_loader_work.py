"""What the rows of workers say of the loader, and what the findings make of it."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding
from perftui.facts.data_loader.loader_work import work_of
from perftui.facts.fact import Facts
from perftui.run.table import Table
from tests.core.diagnosis.runs import MS, make_run, telemetry_table, worker_table

BATCH = {"batches": 10, "sized": 10, "bytes": 640, "fetch": 600 * MS, "collate": 200 * MS}
SECOND = 1000 * MS


def rows(*seconds: int, worker: int = 0, **row: int) -> list[dict[str, int]]:
    return [{**BATCH, "time": at * SECOND, "worker": worker, **row} for at in seconds]


def test_means_are_over_all_workers() -> None:
    table = worker_table(*rows(1, 2), *rows(1, 2, worker=1, fetch=400 * MS))
    work = work_of(table, (1,))
    assert work is not None
    assert (work.workers, work.batches) == (2, 40)
    assert (work.fetch, work.collate) == (50 * MS, 20 * MS)
    assert work.busy == pytest.approx((1600 + 1200) / 4000)
    assert (work.batch_bytes, work.bytes_per_second) == (64, 4 * 640 / 2)
    assert work.mostly == "fetching samples"


def test_only_the_rows_of_the_loader_and_the_time_count() -> None:
    table = worker_table(
        *rows(1, 2, 3, 4), *rows(2, loader=2, batches=99), *rows(2, loader=-1, batches=99)
    )
    work = work_of(table, (1, 5), (round(1.5 * SECOND), round(2.5 * SECOND)))
    assert work is not None
    assert work.batches == 20


def test_what_is_not_known_is_not_zero() -> None:
    unsized = work_of(worker_table(*rows(1, sized=9)), (1,))
    in_main = work_of(worker_table(*rows(1, worker=-1)), (1,))
    assert unsized is not None
    assert (unsized.batch_bytes, unsized.bytes_per_second) == (None, None)
    assert in_main is not None
    assert (in_main.workers, in_main.busy) == (0, None)
    assert work_of(worker_table(*rows(1, batches=0)), (1,)) is None
    assert work_of(worker_table(*rows(1)), ()) is None
    assert work_of(Table(), (1,)) is None


def found(workers: Table | None, num_workers: int = 2) -> Finding:
    loader: dict[str, Any] = {"id": 1, "role": "train", "num_workers": num_workers}
    phases = {"input_wait": 4.0, "forward": 6.0}
    run = make_run(400, phases, (loader, {"id": 1, "workers": [7]}), workers=workers)
    top = diagnosis(Facts(run, None)).top
    assert top is not None
    return top


def test_busy_workers_are_named_with_what_they_do() -> None:
    finding = found(worker_table(*rows(1, 2, fetch=200 * MS, collate=700 * MS)))
    assert finding.sentence.endswith("for data: 2 workers do not keep up, mostly collating.")
    facts = {fact.label: fact.value for fact in finding.facts}
    assert (facts["fetching a batch"], facts["collating a batch"]) == (20 * MS, 70 * MS)
    assert (facts["workers busy"], facts["tensors of a batch"]) == (90.0, 64)
    assert finding.fixes == ("loader-workers",)


def test_more_workers_are_no_answer_where_those_there_are_idle() -> None:
    finding = found(worker_table(*rows(1, 2, fetch=100 * MS)))
    assert finding.sentence.endswith(
        "for data, though 2 workers make batches in only 30 % of the time."
    )
    assert finding.fixes == ()


def test_without_workers_what_takes_the_time_is_a_fact() -> None:
    finding = found(worker_table(*rows(1, 2, worker=-1)), num_workers=0)
    labels = [fact.label for fact in finding.facts]
    assert finding.rule == "input-in-main-thread"
    assert "collating a batch" in labels
    assert "workers busy" not in labels


def test_what_workers_take_of_the_machine_is_a_fact_where_they_are_distinguished() -> None:
    loader: dict[str, Any] = {"id": 1, "role": "train", "num_workers": 2}
    phases = {"input_wait": 4.0, "forward": 6.0}
    columns = {"processes.workers_cpu": 150.0, "processes.workers_read": 2048.0}

    def facts(**more: float) -> dict[str, Any]:
        telemetry = telemetry_table(**columns, **more)
        run = make_run(400, phases, (loader,), telemetry)
        top = diagnosis(Facts(run, None)).top
        assert top is not None
        return {fact.label: fact.value for fact in top.facts}

    told = facts(**{"processes.ranks_cpu": 90.0})
    assert (told["cores used by workers"], told["read by workers in a second"]) == (1.5, 2048)
    assert "cores used by workers" not in facts(**{"processes.main_cpu": 90.0})


def test_a_run_without_rows_of_workers_is_judged_as_before() -> None:
    finding = found(None)
    assert finding.sentence.endswith("for data: 2 workers do not keep up.")
    assert "fetching a batch" not in {fact.label for fact in finding.facts}
