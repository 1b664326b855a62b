"""Calls that wait for the GPU, from what windows counted to the report and the finding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perftui.facts.gpu.host_waits import SyncCalls, syncs
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, ON_GPU, facts_of, make_run
from tests.core.diagnosis.stories import finding_of, synchronising
from tests.described import described


def call(name: str, line: int, count: int, time: int, **more: Any) -> dict[str, Any]:
    site = {"file": "/home/a/train.py", "line": line, "function": "main", "longest": time}
    return {"call": name, "count": count, "time": time, **site, **more}


def window(*calls: dict[str, Any], steps: int = 2, gpu: bool = True) -> dict[str, Any]:
    return {"file": "w.json", "steps": steps, "syncs": {"gpu": gpu, "calls": list(calls)}}


def windows(*data: Any) -> Table:
    table = GrowingTable(EVENT_COLUMNS, floats=False, text=("kind", "data"))
    table.extend([[0, "window", 0, 0, each] for each in data])
    return table.freeze()


def sync_calls(events: Table) -> SyncCalls | None:
    return syncs(facts_of(events=events))


def with_windows(run: RunSnapshot, *data: Any) -> RunSnapshot:
    return replace(run, ranks=(replace(run.ranks[0], events=windows(*data)),))


def test_windows_are_summed_by_call_and_line() -> None:
    calls = sync_calls(
        windows(
            window(call("item", 31, 2, 4 * MS), call("x[mask]", 40, 1, MS)),
            window(call("item", 31, 3, 5 * MS), call("item", 50, 3, 7 * MS), steps=3),
        )
    )
    assert calls is not None
    assert (calls.steps, calls.on_gpu) == (5, True)
    assert [(one.call, one.line, one.count, one.time, one.longest) for one in calls.calls] == [
        ("item", 31, 5, 9 * MS, 5 * MS),
        ("item", 50, 3, 7 * MS, 7 * MS),
        ("x[mask]", 40, 1, MS, MS),
    ]


def test_windows_before_the_gpu_was_used_do_not_count() -> None:
    calls = sync_calls(
        windows(window(call("item", 31, 2, MS), gpu=False), window(call("cpu", 9, 1, MS)))
    )
    assert calls is not None
    assert [one.call for one in calls.calls] == ["cpu"]
    assert calls.steps == 2


@pytest.mark.parametrize(
    "data",
    [
        {"file": "w.json", "steps": 2},
        {"file": "w.json", "steps": 0, "syncs": {"gpu": True, "calls": []}},
        {"file": "w.json", "steps": 2, "syncs": {"gpu": True, "calls": [{"call": 3}]}},
        {"file": "w.json", "steps": 2, "syncs": "none"},
        "text",
    ],
)
def test_what_tells_of_no_calls_is_no_empty_list(data: Any) -> None:
    assert sync_calls(windows(data)) is None


def test_the_report_says_what_each_line_takes() -> None:
    run = with_windows(make_run(**ON_GPU), window(call("item", 31, 4, 6 * MS)))
    report = make_report(Subject(run.root, run))
    text = render(report)
    assert "Calls that wait for the GPU, over 2 profiled steps" in text
    assert "2.0       3.0 ms    6.0 ms  item at /home/a/train.py:31" in text
    assert described("report", as_json.as_object(report))["syncs"]["calls"][0]["count"] == 4


def test_a_time_that_is_not_known_stays_unknown() -> None:
    unknown = call("an operation", 9, 3, -1)
    run = with_windows(make_run(**ON_GPU), window(unknown), window(unknown))
    calls = sync_calls(run.ranks[0].events)
    assert calls is not None
    assert [(one.count, one.time, one.longest) for one in calls.calls] == [(6, -1, -1)]
    text = render(make_report(Subject(run.root, run)))
    assert "1.5      unknown            an operation at /home/a/train.py:9" in text


def test_a_training_without_a_gpu_is_told_that_nothing_waited() -> None:
    run = with_windows(make_run(), window(call("item", 31, 4, 6 * MS), gpu=False))
    text = render(make_report(Subject(run.root, run)))
    assert "Calls that would wait for a GPU, over 2 profiled steps" in text
    assert "This training used no GPU: nothing waited" in text


def test_names_of_calls_cannot_drive_the_terminal() -> None:
    evil = call("item\x1b[2J", 31, 4, MS, file="\x1b[2Jtrain.py")
    run = with_windows(make_run(**ON_GPU), window(evil))
    assert "\x1b" not in render(make_report(Subject(run.root, run)))


def test_the_finding_names_the_line_that_was_counted() -> None:
    run = with_windows(
        make_run(phases={"forward": 1}, **ON_GPU), window(call("item", 33, 2, 4 * MS))
    )
    finding = finding_of(synchronising(300), "sync-bound", run)
    assert "(item at train.py:33)" in finding.sentence
    (fact,) = (fact for fact in finding.facts if fact.label == "item, a step")
    assert (fact.value, fact.unit) == (2 * MS, "ns")
    assert fact.place is not None
    assert fact.place.source == "/home/a/train.py:33"


def test_the_finding_does_not_blame_calls_that_no_gpu_waited_for() -> None:
    run = with_windows(
        make_run(phases={"forward": 1}, **ON_GPU), window(call("item", 33, 2, 4 * MS), gpu=False)
    )
    finding = finding_of(synchronising(300), "sync-bound", run)
    assert ":33" not in finding.sentence
