"""Lines where the workers of a loader make batches, and the findings that name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.facts.source.lines import FEWEST_SAMPLES
from perftui.facts.step.steps import steady_span
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import STACK_COLUMNS, STACK_TEXT, WORKER_STACK_COLUMNS
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, event_table, facts_of, make_run, step_table, worker_table
from tests.described import described

EVERY = 200 * MS
DATA = "/home/a/data.py"


def table(*rows: tuple[int, int, str, int], loader: int = 1) -> Table:
    """Stretches (start ms, length ms, stage, line; 0 for none of the user's)."""
    made = GrowingTable(WORKER_STACK_COLUMNS, floats=False, text=STACK_TEXT)
    made.extend([[*_row(*row), 7, loader] for row in rows])
    return made.freeze()


def main_table(*rows: tuple[int, int, str, int]) -> Table:
    made = GrowingTable(STACK_COLUMNS, floats=False, text=STACK_TEXT)
    made.extend([_row(*row) for row in rows])
    return made.freeze()


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
    made = GrowingTable(WORKER_STACK_COLUMNS, floats=False, text=STACK_TEXT)
    at = 0
    expected: dict[int, int] = {}
    waited = collated = 0
    end = begin + length
    for held, stage, line, loader in found:
        made.extend([[*_row(at, held, stage, line), 7, loader]])
        seen = len(range(max(at, begin), min(at + held, end))) if loader == 1 else 0
        if seen and stage in ("fetch", "collate"):
            expected[line or -1] = expected.get(line or -1, 0) + seen * MS
            collated += seen * MS if stage == "collate" else 0
        waited += seen * MS if stage == "wait" else 0
        at += held
    facts = facts_of(worker_stacks=made.freeze())
    loader = LoaderFacts(numbers=(1,))
    facts.worked_out.update({training_loader: loader, steady_span: (begin * MS, end * MS)})
    lines = loader_lines(facts)
    total = sum(expected.values())
    if total // EVERY < FEWEST_SAMPLES:
        assert lines is None
        return
    assert lines is not None
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
    )
    rank = replace(run.ranks[0], events=event_table(loader), **tables)
    return replace(run, ranks=(rank,))


def finding_of(run: RunSnapshot) -> Finding:
    top = diagnosis(Facts(run, None)).top
    assert top is not None
    return top


def test_input_bound_names_the_line_of_the_dataset() -> None:
    stacks = table((0, 6_000, "fetch", 8), (6_000, 3_000, "collate", 30), (9_000, 1_000, "wait", 0))
    run = starved(2, worker_stacks=stacks)
    finding = finding_of(run)
    assert finding.rule == "input-bound"
    assert "do not keep up, mostly fetching samples (6" in finding.sentence
    assert "% of it at data.py:8)" in finding.sentence
    places = [fact for fact in finding.facts if fact.label == "making batches"]
    assert [fact.place.source for fact in places if fact.place] == [f"{DATA}:8", f"{DATA}:30"]


def test_a_line_of_which_little_is_known_is_not_named() -> None:
    finding = finding_of(starved(2, worker_stacks=table((0, 2_000, "fetch", 8))))
    assert "data.py" not in finding.sentence


def test_time_in_packages_alone_names_no_line() -> None:
    finding = finding_of(starved(2, worker_stacks=table((0, 10_000, "fetch", 0))))
    assert finding.sentence.endswith("mostly fetching samples.")


def test_another_loaders_workers_name_nothing() -> None:
    stacks = table((0, 10_000, "fetch", 8), loader=2)
    assert "data.py" not in finding_of(starved(2, worker_stacks=stacks)).sentence


def test_without_workers_the_main_thread_tells_the_line() -> None:
    stacks = main_table((0, 8_000, "fetch", 8), (8_000, 2_000, "", 40))
    finding = finding_of(starved(0, stacks=stacks))
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
    run = make_run(steps=steps)
    inside = main_table((0, 9_000, "", 8))
    run = replace(run, ranks=(replace(run.ranks[0], window_stacks=inside),))
    text = render(make_report(Subject(run.root, run)))
    assert (
        "Where the main thread is, over the profiled steps (about 45 samples from inside)" in text
    )
