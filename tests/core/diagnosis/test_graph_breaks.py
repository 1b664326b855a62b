"""Lines at which torch.compile stops a graph."""

from __future__ import annotations

from perftui.diagnosis.model import Severity
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import event_table, step_table
from tests.core.diagnosis.script_runs import run_of, said, source_of, told

STEPS = step_table(40, {"forward": 10, "backward": 10})


def compiled(*functions: str, file: str = "/p/model.py") -> RunSnapshot:
    notes = [
        ("compile", {"start": at, "function": name, "file": file, "forward": True})
        for at, name in enumerate(functions)
    ]
    return run_of(STEPS, events=event_table(events=notes))


def test_each_line_is_named_once() -> None:
    finding = told(
        compiled(
            "forward",
            "torch_dynamo_resume_in_forward_at_10",
            "torch_dynamo_resume_in_forward_at_13",
            "torch_dynamo_resume_in_forward_at_10",
        ),
        "graph-breaks",
    )
    assert finding.sentence == (
        "torch.compile breaks the graph at 2 lines: model.py:10, model.py:13."
    )
    assert (finding.severity, source_of(finding)) == (Severity.INFO, "/p/model.py:10")
    assert [figure.value for figure in finding.facts] == [2, 1]


def test_one_graph_is_no_finding() -> None:
    assert said(compiled("forward", "torch_dynamo_resume_in_forward"), "graph-breaks") is None
    assert said(run_of(STEPS), "graph-breaks") is None


def test_lines_of_installed_packages_are_not_the_scripts_to_change() -> None:
    elsewhere = compiled("torch_dynamo_resume_in_f_at_3", file="/v/site-packages/lib/f.py")
    assert said(elsewhere, "graph-breaks") is None
