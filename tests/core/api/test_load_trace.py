"""A trace, as scripts and notebooks read it: the values of its report, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perftui
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from tests.tui.recorded import write_run
from tests.tui.traces import even_steps, write_trace


def report_of(path: Path) -> Any:
    return json.loads(as_json.encode(make_report(load_subject(path), top=1000)))


@pytest.fixture(params=["gpu", "cpu", "no steps"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param != "no steps":
        return write_trace(tmp_path, gpu=request.param == "gpu")
    made = even_steps().write(tmp_path / "rank0.pt.trace.json")
    made.write_text(made.read_text().replace("ProfilerStep#", "Part "))
    return made


def test_operators_and_kernels_are_those_of_the_report(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of(path)

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


def test_steps_are_those_of_the_report(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of(path)["trace"]["steps"]

    assert [(row.index, row.start_ns, row.duration_ns) for row in trace.steps] == [
        (step["index"], step["start"], step["duration"]) for step in told
    ]
    names = trace.steps.columns[3:]
    for row, step in zip(trace.steps, told, strict=True):
        assert [getattr(row, name) for name in names] == list(step["parts_ns"].values())
        assert sum(getattr(row, name) for name in names) == row.duration_ns


def test_gaps_are_those_of_the_report(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of(path)["trace"]
    names = ("device", "start", "duration", "cause", "phase", "operator", "source")

    rows = [dict(zip(names, row, strict=True)) for row in trace.gaps]
    assert rows == told["gaps"]
    assert len(rows) == told["gaps_total"]


def test_devices_findings_and_the_rest_are_those_of_the_report(path: Path) -> None:
    trace, told = perftui.load_trace(path), report_of(path)

    devices = [{**vars(one), "idle": one.idle, "span": one.span} for one in trace.devices]
    assert devices == told["trace"]["devices"]
    assert [one.sentence for one in trace.findings] == [one["sentence"] for one in told["findings"]]
    assert perftui.findings(path) == trace.findings
    assert trace.verdict == told["verdict"]
    assert trace.breakdown is not None
    assert dict(trace.breakdown.parts) == told["step_breakdowns"][0]["parts_ns"]
    assert trace.report["operators"] == told["operators"]


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
