"""Workers of the data loader: what they do, where, and how they die."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.symptoms.script.output import FIRST_BYTES
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.data_loader.loader import LoaderFacts, training_loader, work_of
from perftui.facts.fact import Facts
from perftui.facts.source.lines import FEWEST_SAMPLES
from perftui.facts.step.steps import steady_span
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import STACK_COLUMNS, WORKER_STACK_COLUMNS
from perftui.run.manifest import Status
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from tests.core.diagnosis.runs import (
    MS,
    event_table,
    facts_of,
    make_run,
    step_table,
    telemetry_table,
    with_tables,
    worker_table,
)
from tests.core.diagnosis.stories import found, top_of
from tests.described import described
from tests.step_rows import table_of

TRAIN = {"id": 1, "num_workers": 0, "file": "/p/train.py", "line": 3, "shuffle": None}
EVAL = {"id": 2, "num_workers": 4, "file": "/p/train.py", "line": 9, "shuffle": False}


def loader_of(*events) -> LoaderFacts | None:
    return training_loader(facts_of(events=event_table(*events)))


def chosen(*events) -> tuple[int | None, bool]:
    facts = loader_of(*events)
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


def test_loaders_are_known_by_what_their_events_say_and_the_newest_counts() -> None:
    roles = [{"id": 1, "role": "train"}, {"id": 2, "role": "train"}]
    facts = loader_of(TRAIN, EVAL, *roles)
    assert facts.others == ("/p/train.py:9",)
    alone = loader_of(TRAIN, EVAL, roles[0])
    assert alone.others == ()
    again = {**TRAIN, "id": 3, "num_workers": 2}
    facts = loader_of(TRAIN, again, EVAL, {"id": 3, "role": "train"})
    assert (facts.num_workers, facts.certain) == (2, True)
    facts = loader_of({"num_workers": True, "pin_memory": 1, "dataset": 5})
    assert facts == LoaderFacts()
    assert loader_of([1], None, "x") is None  # type: ignore[arg-type]


BATCH = {"batches": 10, "sized": 10, "bytes": 640, "fetch": 600 * MS, "collate": 200 * MS}
SECOND = 1000 * MS


def worker_rows(*seconds: int, worker: int = 0, **row: int) -> list[dict[str, int]]:
    return [{**BATCH, "time": at * SECOND, "worker": worker, **row} for at in seconds]


def test_means_are_over_all_workers_of_the_loader_in_that_time() -> None:
    table = worker_table(*worker_rows(1, 2), *worker_rows(1, 2, worker=1, fetch=400 * MS))
    work = work_of(table, (1,))
    assert work.workers == 2
    assert (work.fetch, work.collate) == (50 * MS, 20 * MS)
    assert work.busy == pytest.approx((1600 + 1200) / 4000)
    assert (work.batch_bytes, work.bytes_per_second) == (64, 4 * 640 / 2)
    table = worker_table(
        *worker_rows(1, 2, 3, 4),
        *worker_rows(2, loader=2, batches=99),
        *worker_rows(2, loader=-1, batches=99),
    )
    work = work_of(table, (1, 5), (round(1.5 * SECOND), round(2.5 * SECOND)))
    assert (work.workers, work.fetch, work.collate) == (1, 60 * MS, 20 * MS)


def test_what_is_not_known_is_not_zero() -> None:
    unsized = work_of(worker_table(*worker_rows(1, sized=9)), (1,))
    in_main = work_of(worker_table(*worker_rows(1, worker=-1)), (1,))
    assert (unsized.batch_bytes, unsized.bytes_per_second) == (None, None)
    assert (in_main.workers, in_main.busy) == (0, None)
    assert work_of(worker_table(*worker_rows(1, batches=0)), (1,)) is None
    assert work_of(worker_table(*worker_rows(1)), ()) is None
    assert work_of(Table(), (1,)) is None


def top_with(workers: Table | None, num_workers: int = 2) -> Finding:
    loader: dict[str, Any] = {"id": 1, "role": "train", "num_workers": num_workers}
    phases = {"input_wait": 4.0, "forward": 6.0}
    return top_of(make_run(400, phases, (loader, {"id": 1, "workers": [7]}), workers=workers))


def test_busy_workers_are_named_and_more_of_them_are_no_answer_to_idle_ones() -> None:
    finding = top_with(worker_table(*worker_rows(1, 2, fetch=200 * MS, collate=700 * MS)))
    assert finding.sentence.endswith("for data: 2 workers do not keep up, mostly collating.")
    facts = {fact.label: fact.value for fact in finding.facts}
    assert (facts["fetching a batch"], facts["collating a batch"]) == (20 * MS, 70 * MS)
    assert (facts["workers busy"], facts["tensors of a batch"]) == (90.0, 64)
    assert finding.fixes == ("loader-workers",)
    finding = top_with(worker_table(*worker_rows(1, 2, fetch=100 * MS)))
    assert finding.sentence.endswith(
        "for data, though 2 workers make batches in only 30 % of the time."
    )
    assert finding.fixes == ()


def test_without_workers_what_takes_the_time_is_a_fact() -> None:
    finding = top_with(worker_table(*worker_rows(1, 2, worker=-1)), num_workers=0)
    labels = [fact.label for fact in finding.facts]
    assert finding.rule == "input-in-main-thread"
    assert "collating a batch" in labels
    assert "workers busy" not in labels


def test_what_workers_take_of_the_machine_is_a_fact_where_they_are_distinguished() -> None:
    loader: dict[str, Any] = {"id": 1, "role": "train", "num_workers": 2}
    phases = {"input_wait": 4.0, "forward": 6.0}
    columns = {"processes.workers_cpu": 150.0, "processes.workers_read": 2048.0}

    def facts(**more: float) -> dict[str, Any]:
        run = make_run(400, phases, (loader,), telemetry_table(**columns, **more))
        return {fact.label: fact.value for fact in top_of(run).facts}

    told = facts(**{"processes.ranks_cpu": 90.0})
    assert (told["cores used by workers"], told["read by workers in a second"]) == (1.5, 2048)
    assert "cores used by workers" not in facts(**{"processes.main_cpu": 90.0})


def test_a_run_without_rows_of_workers_is_judged_as_before() -> None:
    finding = top_with(None)
    assert finding.sentence.endswith("for data: 2 workers do not keep up.")
    assert "fetching a batch" not in {fact.label for fact in finding.facts}


EVERY = 200 * MS
DATA = "/home/a/data.py"


def table(*rows: tuple[int, int, str, int], loader: int = 1) -> Table:
    """Stretches (start ms, length ms, stage, line; 0 for none of the user's)."""
    return table_of(WORKER_STACK_COLUMNS, [[*_row(*row), 7, loader] for row in rows])


def main_table(*rows: tuple[int, int, str, int]) -> Table:
    return table_of(STACK_COLUMNS, [_row(*row) for row in rows])


def _row(start: int, held: int, stage: str, line: int) -> list[Any]:
    file, function = (DATA, "decode") if line else ("", "")
    named = [file, line or -1, function, f"PIL/Image.py:{line} load"]
    return [start * MS, held * MS, 1, *named, EVERY, stage, ""]


rows = st.lists(
    st.tuples(
        st.integers(1, 2000),
        st.sampled_from(["fetch", "collate", "wait", ""]),
        st.integers(0, 3),
        st.integers(1, 2),
    ),
    max_size=60,
)


@given(rows, st.integers(0, 20_000), st.integers(0, 40_000))
def test_shares_are_of_the_time_of_making_batches(
    found: list[tuple[int, str, int, int]], begin: int, length: int
) -> None:
    samples = []
    at = 0
    expected: dict[int, int] = {}
    waited = collated = 0
    end = begin + length
    for held, stage, line, loader in found:
        samples.append([*_row(at, held, stage, line), 7, loader])
        seen = len(range(max(at, begin), min(at + held, end))) if loader == 1 else 0
        if seen and stage in ("fetch", "collate"):
            expected[line or -1] = expected.get(line or -1, 0) + seen * MS
            collated += seen * MS if stage == "collate" else 0
        waited += seen * MS if stage == "wait" else 0
        at += held
    facts = facts_of(worker_stacks=table_of(WORKER_STACK_COLUMNS, samples))
    loader = LoaderFacts(numbers=(1,))
    facts.worked_out.update({training_loader: loader, steady_span: (begin * MS, end * MS)})
    lines = loader_lines(facts)
    total = sum(expected.values())
    if total // EVERY < FEWEST_SAMPLES:
        assert lines is None
        return
    assert {line.line: line.held for line in lines.making.lines} == expected
    assert lines.making.covered == total
    assert lines.busy == total / (total + waited)
    assert lines.collate == collated / total


def starved(workers: int, **tables: Table) -> RunSnapshot:
    """Steps of 100 ms, of which 80 are waits for batches."""
    loader = {"id": 1, "num_workers": workers, "role": "train", "file": "train.py", "line": 4}
    run = make_run(
        steps=step_table(100, {"forward": 20, "input_wait": 80}),
        workers=worker_table({"time": 5_000 * MS, "batches": 9, "fetch": 990 * MS}),
        loaders=(loader,),
    )
    return with_tables(run, **tables)


def test_input_bound_names_the_line_of_the_dataset() -> None:
    stacks = table((0, 6_000, "fetch", 8), (6_000, 3_000, "collate", 30), (9_000, 1_000, "wait", 0))
    finding = top_of(starved(2, worker_stacks=stacks))
    assert finding.rule == "input-bound"
    assert "do not keep up, mostly fetching samples (6" in finding.sentence
    assert "% of it at data.py:8)" in finding.sentence
    places = [fact for fact in finding.facts if fact.label == "making batches"]
    assert [fact.place.source for fact in places if fact.place] == [f"{DATA}:8", f"{DATA}:30"]


def test_lines_of_packages_of_other_loaders_or_of_few_samples_are_not_named() -> None:
    finding = top_of(starved(2, worker_stacks=table((0, 2_000, "fetch", 8))))
    assert "data.py" not in finding.sentence
    finding = top_of(starved(2, worker_stacks=table((0, 10_000, "fetch", 0))))
    assert finding.sentence.endswith("mostly fetching samples.")
    stacks = table((0, 10_000, "fetch", 8), loader=2)
    assert "data.py" not in top_of(starved(2, worker_stacks=stacks)).sentence


def test_without_workers_the_main_thread_tells_the_line() -> None:
    stacks = main_table((0, 8_000, "fetch", 8), (8_000, 2_000, "", 40))
    finding = top_of(starved(0, stacks=stacks))
    assert finding.rule == "input-in-main-thread"
    assert finding.sentence.endswith("(num_workers=0), 100 % of it at data.py:8.")


def test_the_report_lists_the_lines_of_workers_apart() -> None:
    stacks = table((0, 6_000, "fetch", 8), (6_000, 2_000, "collate", 0), (8_000, 2_000, "wait", 0))
    report = make_report(Subject(starved(2).root, starved(2, worker_stacks=stacks)))
    text = render(report)
    assert "Where the workers make batches, 8" in text
    assert f"%  {DATA}:8 in decode" in text
    assert "no line of yours (PIL/Image.py:0 load)" in text
    told = described("report", as_json.as_object(report))["workers"]
    assert 0.7 < told["busy_share"] < 0.9
    assert told["lines"][0]["line"] == 8


def test_a_main_thread_seen_only_in_windows_is_reported_for_those() -> None:
    steps = step_table(100, {"forward": 100}, profiled=1)
    run = with_tables(make_run(steps=steps), window_stacks=main_table((0, 9_000, "", 8)))
    text = render(make_report(Subject(run.root, run)))
    assert (
        "Where the main thread is, over the profiled steps (about 45 samples from inside)" in text
    )


BUS = (
    b"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible "
    b"that dataloader's workers are out of shared memory. Please try to raise your shared memory "
    b"limit.\r\n"
)
ENDED = b"RuntimeError: DataLoader worker (pid(s) 7, 9) exited unexpectedly\n"
KILLED = b"RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. \n"


def died(root: Path, output: bytes | None, **run: Any) -> Finding | None:
    if output is not None:
        (root / "output.log").write_bytes(output)
    return found(make_run(root=root, **run), "workers-died")


def test_a_worker_without_shared_memory_is_reported_with_torchs_words(tmp_path: Path) -> None:
    one = died(tmp_path, b"epoch 0\n" + ENDED + BUS * 2)
    assert one.sentence == (
        'A worker of the data loader failed ("DataLoader worker (pid 4711) is killed by signal: '
        'Bus error"): it ran out of shared memory, through which workers hand over batches.'
    )
    assert (one.rule, one.severity, one.cost_ns, one.facts[0].value) == (
        "workers-died",
        Severity.INFO,
        0,
        2,
    )


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (KILLED, "a signal killed it"),
        (ENDED, "it exited by itself"),
        (b"unable to open shared memory object </torch_1_2> in read-write mode: No", "shared mem"),
        (b"unable to mmap 512 bytes from file </torch_7_8>: Cannot allocate\n", "shared memory"),
        (
            b"RuntimeError: Too many open files. Communication with the workers is no\n",
            "an open file",
        ),
    ],
)
def test_each_kind_of_end_has_its_cause(tmp_path: Path, output: bytes, why: str) -> None:
    one = died(tmp_path, output)
    assert why in one.sentence


def test_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    assert died(tmp_path, b"loss 0.3\n" * (FIRST_BYTES // 4) + BUS) is not None


def test_who_ends_the_training_ends_its_workers_other_output_is_none(tmp_path: Path) -> None:
    assert died(tmp_path, ENDED, status=Status.KILLED) is None
    (tmp_path / "b").mkdir()
    ended = b"DataLoader worker (pid 12) is killed by signal: Terminated. \n"
    assert died(tmp_path / "b", ended) is None
    assert died(tmp_path, b"2 workers, shared memory, bus error rate 0.1\n") is None
    assert died(tmp_path / "gone", None) is None
