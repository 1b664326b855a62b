"""Runs, traces and tables as scripts and notebooks read them."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perftui
from perftui.api.reading import Trace
from perftui.api.table import Table, table_of, texts, whole
from perftui.report import as_json
from perftui.report.csv_tables import table_named
from perftui.report.report import make_report
from perftui.report.subject import Subject, load_subject
from perftui.run.columns import EVENT_COLUMNS, STEP_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout
from tests.core.diagnosis.runs import ORIGIN, at_wall, run_with
from tests.tui.recorded import ENDED, START, step_rows, write_run
from tests.tui.traces import even_steps, write_trace


def report_of(root: Path, rank: int = 0) -> Any:
    return json.loads(as_json.encode(make_report(load_subject(root, rank=rank))))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run with a profiled window."""
    made = write_run(tmp_path / "runs", workers=2, gpu=True, **ENDED)
    rank = RunLayout(made).rank(0)
    rank.windows.mkdir()
    write_trace(tmp_path).rename(rank.window(50))
    events = JournalWriter(rank.events, EVENT_COLUMNS)
    data = {"file": rank.window(50).relative_to(rank.root).as_posix(), "steps": 3, "stall": 7}
    events.append([[START, "window", 7, 50, {**data, "reason": "warm"}]])
    events.close()
    return made


def add_rank(root: Path, wait_ms: int) -> None:
    journal = JournalWriter(RunLayout(root).rank(1).steps, STEP_COLUMNS)
    journal.append(step_rows(60, wait_ms, 0, False))
    journal.close()


def test_every_value_of_the_report_of_a_run_is_there(root: Path) -> None:
    run, told = perftui.open_run(root), report_of(root)

    assert run.report == told
    assert str(run.path) == told["path"]
    assert run.verdict == told["verdict"]
    assert list(run.notes) == told["notes"]
    assert [vars(one) for one in run.not_judged] == told["not_judged"]
    assert [one.fix for one in run.fixes] == [one["fix"] for one in told["fixes"]]
    assert (run.id, run.state, run.script) == (told["run"]["run_id"], "exited 0", "train.py")
    assert list(run.manifest.command) == told["run"]["command"]
    assert run.breakdown is not None
    parts = {"step_ns": run.breakdown.mean, "parts_ns": dict(run.breakdown.parts)}
    assert parts.items() <= told["step_breakdowns"][0].items()
    assert sum(time for _, time in run.breakdown.parts) == run.breakdown.mean
    (window,) = run.windows
    assert {**vars(window), "file": str(window.file)} == told["recording"]["windows"][0]
    assert window.file is not None
    assert run.trace is not None
    assert run.trace.path == window.file
    assert run.trace.operators.to_dict() == perftui.load_trace(window.file).operators.to_dict()
    assert run.trace.operators["name"].tolist() == [one["name"] for one in told["operators"]]


def test_findings_are_those_of_the_report(root: Path) -> None:
    run, told = perftui.open_run(root), report_of(root)["findings"]

    assert len(run.findings) == len(told) > 1
    assert perftui.findings(root) == run.findings
    for finding, one in zip(run.findings, told, strict=True):
        assert finding.severity.name.lower() == one["severity"]
        for name in ("rule", "sentence", "cost_ns", "step_ns", "share", "best_speedup", "steps"):
            assert getattr(finding, name) == one[name], name
        assert list(finding.fixes) == one["fixes"]
        assert [fact.value for fact in finding.facts] == [fact["value"] for fact in one["facts"]]


def test_steps_are_those_of_the_report(root: Path) -> None:
    steps, rows = perftui.open_run(root).steps, report_of(root)["steps"]["rows"]
    suffixes = {"ns": "_ns", "B": "_bytes"}

    columns = steps.to_dict()
    assert len(columns) == len(STEP_COLUMNS)
    assert len(steps) == 200
    for column in STEP_COLUMNS:
        name = column.name + suffixes.get(column.unit, "")
        assert columns[name] == [None if value == -1 else value for value in rows[column.name]]
    assert steps["start_ns"].dtype == "int64"
    assert steps["batches_ready"].dtype == "float64"
    assert steps["profiled"].dtype == "bool"


def test_each_rank_has_steps_and_findings_of_its_own(root: Path) -> None:
    add_rank(root, wait_ms=3)
    first = perftui.open_run(root)
    second = first.of_rank(1)

    assert first.ranks == second.ranks == (0, 1)
    assert first.of_rank(0) is first
    assert (first.rank, second.rank) == (0, 1)
    assert second.windows == ()
    assert second.trace is None
    told = report_of(root, rank=1)
    assert second.steps["duration_ns"].tolist() == told["steps"]["rows"]["duration"]
    assert [one.rule for one in second.findings] == [one["rule"] for one in told["findings"]]
    assert second.report["ranks"] == first.report["ranks"] | {"shown": 1}  # type: ignore[operator]
    with pytest.raises(ValueError, match="the run has no rank 2; its ranks are: 0, 1"):
        first.of_rank(2)


def test_what_nobody_knows_is_missing(tmp_path: Path) -> None:
    run = perftui.open_run(write_run(tmp_path, steps=0))

    assert run.ranks == (0,)
    assert len(run.steps) == 0
    assert run.steps.columns == perftui.open_run(write_run(tmp_path / "a")).steps.columns
    assert (run.windows, run.trace, run.verdict, run.breakdown) == ((), None, None, None)
    assert repr(run) == "<Run 20231114-221320-train: train.py, running, 0 steps>"


def test_a_run_is_found_below_and_by_its_manifest(root: Path) -> None:
    for place in (root, str(root), root / "run.json", root.parent):
        assert perftui.open_run(place).path == root


def test_what_is_no_run_is_refused_with_a_reason(tmp_path: Path) -> None:
    trace = write_trace(tmp_path)
    damaged = write_run(tmp_path / "runs")
    (damaged / "run.json").write_text("{")

    with pytest.raises(ValueError, match=r"is not a run; perftui\.load_trace opens traces"):
        perftui.open_run(trace)
    with pytest.raises(ValueError, match="name the directory of a run"):
        perftui.open_run(tmp_path)
    with pytest.raises(ValueError, match="no such file or directory"):
        perftui.open_run(tmp_path / "none")
    with pytest.raises(ValueError, match=r"run\.json"):
        perftui.open_run(damaged)


def test_gaps_of_a_window_have_the_lines_of_stack_samples() -> None:
    analysis = even_steps().analysis()
    wall = replace(analysis, trace=replace(analysis.trace, wall_origin=ORIGIN))
    subject = Subject(Path("run"), run_with(at_wall((0, 30, "/p/train.py", 7))), wall)

    gaps = Trace(Subject(Path("t.json"), analysis=wall), subject.facts).gaps
    report = table_named("gaps", make_report(subject))
    assert gaps.to_dict()["source"] == [row[report.heading.index("line")] for row in report.rows]
    assert "/p/train.py:7" in gaps["source"]
    assert set(Trace(Subject(Path("t.json"), analysis=wall)).gaps["source"]) == {None}


def report_of_trace(path: Path) -> Any:
    return json.loads(as_json.encode(make_report(load_subject(path), top=1000)))


@pytest.fixture(params=["gpu", "cpu", "no steps"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param != "no steps":
        return write_trace(tmp_path, gpu=request.param == "gpu")
    made = even_steps().write(tmp_path / "rank0.pt.trace.json")
    made.write_text(made.read_text().replace("ProfilerStep#", "Part "))
    return made


def test_every_value_of_the_report_of_a_trace_is_there(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of_trace(path)

    for table, rows in ((trace.operators, told["operators"]), (trace.modules, told["modules"])):
        columns = table.to_dict()
        for name, field in (
            ("name", "name"),
            ("calls", "calls"),
            ("cpu_own_ns", "cpu_own"),
            ("cpu_total_ns", "cpu_total"),
            ("device_own_ns", "device"),
        ):
            assert columns[name] == [row[field] for row in rows], name
    columns = trace.kernels.to_dict()
    for name, field in (("name", "name"), ("calls", "calls"), ("total_ns", "device")):
        assert columns[name] == [row[field] for row in told["kernels"]], name
    assert all(row.shortest_ns <= row.median_ns <= row.longest_ns for row in trace.kernels)
    devices = [{**vars(one), "idle": one.idle, "span": one.span} for one in trace.devices]
    assert devices == told["trace"]["devices"]
    assert [one.sentence for one in trace.findings] == [one["sentence"] for one in told["findings"]]
    assert perftui.findings(path) == trace.findings
    assert trace.verdict == told["verdict"]
    assert trace.breakdown is not None
    assert dict(trace.breakdown.parts) == told["step_breakdowns"][0]["parts_ns"]
    assert trace.report["operators"] == told["operators"]


def test_steps_of_a_trace_are_those_of_the_report(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of_trace(path)["trace"]["steps"]

    assert [(row.index, row.start_ns, row.duration_ns) for row in trace.steps] == [
        (step["index"], step["start"], step["duration"]) for step in told
    ]
    names = trace.steps.columns[3:]
    for row, step in zip(trace.steps, told, strict=True):
        assert [getattr(row, name) for name in names] == list(step["parts_ns"].values())
        assert sum(getattr(row, name) for name in names) == row.duration_ns


def test_gaps_are_those_of_the_report(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of_trace(path)["trace"]
    names = ("device", "start", "duration", "cause", "phase", "operator", "source")

    rows = [dict(zip(names, row, strict=True)) for row in trace.gaps]
    assert rows == told["gaps"]
    assert len(rows) == told["gaps_total"]


def test_a_trace_says_what_it_is(tmp_path: Path) -> None:
    path = write_trace(tmp_path)

    assert repr(perftui.load_trace(path)) == "<Trace rank0.pt.trace.json: 12 events, 3 steps>"
    assert perftui.load_trace(str(tmp_path)).path == path


def test_what_is_no_trace_is_refused_with_a_reason(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs")
    text = tmp_path / "a.json"
    text.write_text("no trace")

    with pytest.raises(ValueError, match=r"is a run, not a trace; perftui\.open_run opens runs"):
        perftui.load_trace(root)
    with pytest.raises(ValueError, match=r"a\.json"):
        perftui.load_trace(text)
    with pytest.raises(ValueError, match="no such file or directory"):
        perftui.load_trace(tmp_path / "none")


NAMES = ("index", "allocated_bytes", "operator")


def table(rows: list[tuple[int, float | None, str | None]]) -> Table:
    unknown = [math.nan if row[1] is None else row[1] for row in rows]
    return table_of(
        {
            "index": whole(row[0] for row in rows),
            "allocated_bytes": np.array(unknown, dtype=np.float64),
            "operator": texts(row[2] for row in rows),
        }
    )


numbers = st.integers(-(2**63), 2**63 - 1)
values = st.none() | st.floats(allow_nan=False)
names = st.none() | st.text()


@pytest.mark.slow
@given(st.lists(st.tuples(numbers, values, names)))
def test_rows_and_lists_hold_what_went_in(rows: list[tuple[int, float | None, str | None]]) -> None:
    made = table(rows)

    assert made.columns == NAMES
    assert len(made) == len(rows)
    assert [tuple(row) for row in made] == rows
    assert list(zip(*made.to_dict().values(), strict=True)) == rows


def test_tables_have_names_and_values_of_python_and_say_what_they_hold() -> None:
    (row,) = table([(3, None, "aten::mm")])

    assert (row.index, row.allocated_bytes, row.operator) == (3, None, "aten::mm")
    assert type(row.index) is int
    made = table([(3, 1.0, "aten::mm")])
    with pytest.raises(ValueError, match="read-only"):
        made["index"][0] = 4
    with pytest.raises(TypeError):
        made.values["index"] = made["index"]  # type: ignore[index] - what must not work
    with pytest.raises(KeyError):
        made["no such column"]
    assert repr(table([])) == "<Table: 0 rows of index, allocated_bytes, operator>"
    many = table_of({f"c{at}": whole([1]) for at in range(9)})
    assert repr(many) == "<Table: 1 row of c0, c1, c2, c3, c4, c5, ...>"


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_missing_is_named(monkeypatch: Any, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImportError, match=f"to_{package} needs {package}: pip install {package}"):
        getattr(table([]), f"to_{package}")()


def test_frames_are_made_of_the_columns(monkeypatch: Any) -> None:
    """With packages that write down what they are given."""
    made = table([(3, None, "aten::mm"), (4, 2.0, None)])
    for package in ("pandas", "polars"):
        played: Any = ModuleType(package)
        played.DataFrame = lambda columns, **how: (columns, how)
        monkeypatch.setitem(sys.modules, package, played)

    columns, how = made.to_pandas()
    assert how == {}
    assert {name: column is made[name] for name, column in columns.items()} == dict.fromkeys(
        NAMES, True
    )
    columns, how = made.to_polars()
    assert how == {"nan_to_null": True}
    assert columns["operator"] == ["aten::mm", None]
    assert columns["index"] is made["index"]


@pytest.mark.slow
def test_pandas_reads_them() -> None:
    pytest.importorskip("pandas")
    frame = table([(3, None, "aten::mm"), (4, 2.0, None)]).to_pandas()

    assert list(frame.columns) == list(NAMES)
    assert frame["index"].tolist() == [3, 4]
    assert frame["allocated_bytes"].isna().tolist() == [True, False]


@pytest.mark.slow
def test_polars_reads_them() -> None:
    pytest.importorskip("polars")
    frame = table([(3, None, "aten::mm"), (4, 2.0, None)]).to_polars()

    assert frame.rows() == [(3, None, "aten::mm"), (4, 2.0, None)]
